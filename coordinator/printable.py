"""Text from outside as logs, terminals and shells may have it: it makes no lines of its own, moves no cursor, and runs no commands.

A line that begins at the margin is ours: what follows a line break in a longer text is indented by `MARGIN`.
"""

from __future__ import annotations

import shlex
from typing import Final

MARGIN: Final = "    "


def one_line(text: str) -> str:
    """Escape every character that is not printable: controls, line breaks, marks that change the direction of writing, half surrogates."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def indented(text: str) -> str:
    """Escape each line of a text, and indent all but the first."""
    first, *rest = text.split("\n")
    return "\n".join([one_line(first), *(MARGIN + one_line(line.expandtabs()) for line in rest)])


def quoted(text: str) -> str:
    """Make one word of a shell command, or of a line of fields, of a text: it is quoted unless it is plain."""
    return shlex.quote(one_line(text))


def json_escaped(document: str) -> str:
    r"""Write what is not printable in a JSON document as `\uXXXX`, which is the same document; its line breaks stay."""
    return document if document.isprintable() else "".join(one if one.isprintable() or one == "\n" else _in_json(one) for one in document)


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
