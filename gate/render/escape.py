"""How a string from outside becomes harmless GitHub Markdown: the one filter, and the mark of what has passed it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

NAME_LIMIT = 72
TEXT_LIMIT = 300
# U+2060 WORD JOINER: invisible, breaks no line, and ends every pattern that GitHub links after parsing.
BREAK = "&#8288;"
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_NEWLINES = frozenset("\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")
_LONGEST_MARK_RUN = 2
_LONGEST_LIST_NUMBER = 10  # CommonMark 5.2: a list marker has at most nine digits.
# Punctuation that means nothing to GitHub inside a line; at the start of one it may (list, setext heading, table).
_QUIET = frozenset(".,()%+-=/;:'")
_SHORTEST_COMMIT = 7  # GitHub links seven hex digits and more as a commit.
_TOKEN = re.compile(r"(?i)gh-(?=\d)|[0-9a-z]+|.", re.DOTALL)
_HEX = re.compile(r"(?i)[0-9a-f]{7,}")


class Safe(str):
    """Markdown that our own formatters made: rendered as it is.

    Every operation on it (slicing, joining, `~` in a template) gives a plain `str` again, which is escaped: a
    forgotten mark shows as an entity too many, never as a hole.
    """

    __slots__ = ()


def visible(text: str, *, limit: int = TEXT_LIMIT) -> str:
    """One line of plain text that shows what `text` holds, of at most `limit` characters plus the note of the rest.

    Line ends become a sign, runs of blanks one blank; control, format, bidirectional, unassigned and surrogate
    characters (UAX #9, UAX #44 categories C*) and the third and further marks on one letter become `[U+202E]`.
    """
    out: list[str] = []
    used = 0
    total = len(text)
    for index, piece in enumerate(_pieces(text)):
        if piece == " " and (not out or out[-1] == " "):
            continue
        if used + len(piece) > limit:
            return f"{''.join(out).rstrip()} …(+{total - index:,} characters)"
        out.append(piece)
        used += len(piece)
    return "".join(out).strip() or "(empty)"


def _pieces(text: str) -> Iterator[str]:
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if char in _NEWLINES:
            yield "⏎"
        elif category == "Zs" or char == "\t":
            yield " "
        elif category in _UNSEEN or marks > _LONGEST_MARK_RUN:
            yield f"[U+{ord(char):04X}]"
        else:
            yield char


def escape(text: str, *, limit: int = TEXT_LIMIT) -> Safe:
    """`text` as running prose: no markup, table cell break, mention, link, reference, emoji code or formula."""
    return Safe(_entities(visible(text, limit=limit), code=False))


def code(text: str, *, limit: int = NAME_LIMIT) -> Safe:
    """`text` in a `<code>` element, where GitHub looks for no mentions, references, emoji codes or commits."""
    return Safe(f"<code>{_entities(visible(text, limit=limit), code=True)}</code>")


def say(pattern: str, /, **values: object) -> Safe:
    """Our own sentence with values filled in: what is not `Safe` yet is escaped."""
    return Safe(pattern.format_map({name: _safe(value) for name, value in values.items()}))


def joined(separator: str, parts: list[Safe]) -> Safe:
    """Safe parts in one string; the separator is our own text."""
    return Safe(separator.join(parts))


def fenced(line: str) -> Safe:
    """A command in a code block that it cannot leave; its characters stay as they are, so that a copy of it runs."""
    shown = "".join(
        f"[U+{ord(char):04X}]" if unicodedata.category(char) in _UNSEEN and char != "\n" else char for char in line
    )
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return Safe(f"{fence}\n{shown.strip()}\n{fence}")


def _safe(value: object) -> str:
    return value if isinstance(value, Safe) else escape(str(value))


def _entities(text: str, *, code: bool) -> str:
    return "".join(_token(match, text, code=code) for match in _TOKEN.finditer(text))


def _token(match: re.Match[str], text: str, *, code: bool) -> str:
    token, end = match.group(), match.end()
    if len(token) > 1:
        return _word(token, after=text[end : end + 1], code=code)
    if token.isalnum() or token == " " or not token.isascii():
        return token
    after = text[end : end + 1]
    shown = token if _is_quiet(token, text, match.start(), inside=code) else f"&#{ord(token)};"
    if token == "$" and not code:
        return f"<span>{shown}</span>"  # GitHub's own advice for a dollar sign that starts no formula.
    acts = token in "@#" or (token == ":" and _colon_acts(after, code=code))
    return shown + BREAK if acts else shown


def _word(token: str, *, after: str, code: bool) -> str:
    lower = token.lower()
    if lower == "gh-" or (lower.endswith("www") and after == "."):
        return token + BREAK
    if not code and _HEX.fullmatch(token):
        return BREAK.join(token[at : at + _SHORTEST_COMMIT - 1] for at in range(0, len(token), _SHORTEST_COMMIT - 1))
    return token


def _is_quiet(char: str, text: str, at: int, *, inside: bool) -> bool:
    """Whether a punctuation character may stand as it is; `inside` an element no text is at the start of a line."""
    if not inside and at < _LONGEST_LIST_NUMBER and (at == 0 or text[:at].isdigit()):
        return False
    if char == "_":
        return _ascii_alnum(text[at - 1 : at]) and _ascii_alnum(text[at + 1 : at + 2])
    return char in _QUIET


def _ascii_alnum(char: str) -> bool:
    return char.isascii() and char.isalnum()


def _colon_acts(after: str, *, code: bool) -> bool:
    """Whether a colon may start a URL, or in prose an emoji code."""
    return after == "/" or (not code and (after.isalnum() or after in ("+", "-", "_")))
