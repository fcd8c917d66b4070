"""Text of declarations as Markdown."""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(r"<[^<>`\n]+>")
_SPECIAL = re.compile(r"([*_\[\]<>])")


def prose(text: str) -> str:
    """Return a text in which nothing is taken for HTML: a placeholder such as `<n>` becomes code, unless it is inside of code."""
    # Every other part is inside of backticks.
    parts = [part if place % 2 else _PLACEHOLDER.sub(r"`\g<0>`", part) for place, part in enumerate(text.split("`"))]
    return "`".join(part if place % 2 else _SPECIAL.sub(r"\\\1", part) for place, part in enumerate("`".join(parts).split("`")))


def cell(text: str) -> str:
    """Return a text as the cell of a table, on one line."""
    return prose(" ".join(text.split())).replace("|", r"\|")
