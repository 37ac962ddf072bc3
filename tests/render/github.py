"""GitHub's own Markdown parser as a judge of our text: what it made of it, and what GitHub would link afterwards."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from cmarkgfm.cmark import Options, markdown_to_html_with_extensions

EXTENSIONS = ["table", "autolink", "strikethrough", "tagfilter", "tasklist"]
JOINER = "\u2060"
# What GitHub's filters look for in text outside code, after Markdown: mentions, references, emoji codes, commits.
LINKED = re.compile(
    r"@\w|#\w|\bGH-\d|:[\w+-]+:|https?://|www\.|mailto:\w|(?<![0-9a-z_])[0-9a-f]{7,40}(?![0-9a-z_])", re.IGNORECASE
)
LINKED_IN_CODE = re.compile(r"@\w|#\w|https?://|www\.|\bGH-\d", re.IGNORECASE)
# The elements that our texts are made of.
OURS = frozenset(
    {"p", "h3", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "details", "summary"}
    | {"strong", "br", "span"}
)
# What an absent number would look like.
NEVER = re.compile(r"\b(None|NaN|nan|inf|Infinity|undefined|null)\b")


class Seen(HTMLParser):
    """The tags in order and the text between them, each with the elements it stands in."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.texts: list[tuple[str, tuple[str, ...]]] = []
        self.comments: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag if not attrs or tag in ("td", "th") else f"{tag} {attrs}")
        if tag not in ("br", "img", "hr", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")
        if tag in self._open:
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        self.texts.append((data, tuple(self._open)))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def linked(self) -> list[str]:
        """The pieces of text that GitHub would turn into a link, a mention or a picture."""
        found = []
        for text, inside in self.texts:
            pattern = LINKED_IN_CODE if "code" in inside else LINKED
            if not {"pre", "a"} & set(inside):
                found += pattern.findall(text)
        return found


def html(markdown: str) -> str:
    """What GitHub's parser makes of a comment: raw HTML kept (the page filters it later), line ends as breaks."""
    options = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_HARDBREAKS | Options.CMARK_OPT_GITHUB_PRE_LANG
    return markdown_to_html_with_extensions(markdown, options=options, extensions=EXTENSIONS)


def seen(markdown: str) -> Seen:
    """The parsed comment."""
    return Seen(html(markdown))
