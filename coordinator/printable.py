"""Text from outside as logs, terminals and shells may have it: it makes no lines of its own, moves no cursor, and runs no commands.

A line that begins at the margin is ours: what follows a line break in a longer text is indented by `MARGIN`.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

MARGIN: Final = "    "
# Bounded, because the texts are strangers'.
_WRAPPING: Final = re.compile(r'KafkaError\{(?:FATAL,)?code=(\w{1,64}),val=-?\d{1,9},str="(.{0,2000}?)"\}', re.DOTALL)
_STACK: Final = re.compile(r"(?:\r?\n[ \t]+(?:at [^\n(]{1,300}\([^\n)]{0,300}\)|\.\.\. \d{1,6} more))+")
_PACKAGE: Final = re.compile(
    r"(?<![\w.])(?:java|javax|jdk|kafka|org|scala)\.(?:[a-z_]\w{0,63}\.){0,16}(?=[A-Z][\w$]{0,127}(?:Exception|Error)\b)"
)


def plain(text: str) -> str:
    """Take out of a text what is no cause: how Kafka's client wraps an error, stacks of Java, packages of Java's exceptions."""
    for pattern, instead in ((_WRAPPING, r"\1: \2"), (_STACK, ""), (_PACKAGE, "")):
        text = pattern.sub(instead, text)
    return text


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
