"""Flags in running text, in one piece: a browser would break `--force` behind its hyphens."""

import re

INLINE = re.compile(r"<code>[^<]*</code>")  # code blocks have other tags inside
FLAG = re.compile(r"(?<![\w-])--?\w[\w-]*")


def in_one_piece(html: str) -> str:
    """Return a page whose flags carry the class that the style sheet keeps on one line."""

    def mark(code: re.Match[str]) -> str:
        return FLAG.sub(r'<span class="flag">\g<0></span>', code[0])

    return INLINE.sub(mark, html)
