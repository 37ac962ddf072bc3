"""Nasty pieces of text, and strings made of them."""

from __future__ import annotations

import random

FRAGMENTS = (
    *("@ROCm/all", "@a", "a@b.example", "#12", "o/r#3", "GH-4", "gh-77", "a5acc3f9", "deadbeefdeadbeef", "MS-1"),
    *(
        "https://evil.example/x",
        "http://",
        "ftp://x",
        "www.evil.example",
        "WWW.x.y",
        "mailto:a@b.example",
        "xmpp:a@b.c/d",
    ),
    *(
        "<img src=x onerror=alert(1)>",
        "<script>",
        "</td></tr></table>",
        "</details>",
        "<!--",
        "-->",
        "<a href='x'>",
        "<",
        ">",
    ),
    *(
        "<!-- flydsl-gate:main v1 -->",
        "<?php",
        "<![CDATA[",
        "]]>",
        "&lt;",
        "&#64;",
        "&amp;#64;",
        "&",
        "&copy;",
        "&#x41;",
    ),
    *(
        "|",
        "\\|",
        "\\",
        "\\\\|",
        "`",
        "``",
        "```",
        "~~~",
        "`|`",
        "$x$",
        "$$",
        "$`x`$",
        "~~x~~",
        "**b**",
        "__b__",
        "_i_",
        "*",
    ),
    *(
        "\n",
        "\r\n",
        "\r",
        "\n\n",
        "\n---\n",
        "\n# h",
        "\n| a | b |\n|---|---|",
        "\n\n    code",
        "\t",
        "  ",
        "\u2028",
        "\x0b",
        "\x85",
    ),
    *(
        "# h",
        "## h",
        "- item",
        "+ x",
        "* x",
        "1. x",
        "12) x",
        "> q",
        "---",
        "===",
        "- [ ] t",
        "[x]: http://e",
        "[^1]",
        "::",
    ),
    *(
        "[l](http://e)",
        "![i](http://e)",
        "[l][x]",
        "![",
        "](",
        ")",
        "(",
        "[",
        "]",
        "!",
        ":tada:",
        ":+1:",
        ":",
        "'",
        '"',
        "=",
        "%",
    ),
    *(
        "\u202e",
        "\u2066",
        "\u200b",
        "\u2060",
        "\ufeff",
        "\x00",
        "\x1b[31m",
        "\x07",
        "\x7f",
        "\ud800",
        "\U000e0041",
        "\ue000",
        "\u00ad",
    ),
    *(
        "\U0001f600",
        "\U0001f468\u200d\U0001f469",
        "e\u0301\u0301\u0301\u0301\u0301",
        "\u0130",
        "\u017f",
        "\u212a",
        "\uff20x",
        "\u4e2d\u6587",
    ),
    *(
        "a",
        "M=32",
        "rmsnorm",
        "bf16",
        "0.5.0",
        "7",
        "{{ 7 }}",
        "{% x %}",
        "{x}",
        "%s",
        "None",
        "x" * 120,
        "y" * 700,
        "",
    ),
)


def hostile(count: int, *, seed: int = 20) -> list[str]:
    """Strings made of nasty fragments and of single characters from all over Unicode."""
    chance = random.Random(seed)
    out = []
    for _ in range(count):
        parts = [
            chance.choice(FRAGMENTS)
            if chance.random() < 0.8
            else chr(chance.randrange(chance.choice((0x80, 0x3000, 0x110000))))
            for _ in range(chance.randrange(1, 9))
        ]
        out.append(chance.choice(("", " ", "", "\n")).join(parts))
    return out
