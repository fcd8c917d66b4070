"""`docs/commands.md` from the help of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from cli.lazy import LazyGroup
from cli.main import root

TARGET = Path("docs/commands.md")

_HEAD = """# Commands

Made by `python -m codegen` from the commands in `cli/commands`; do not edit. `diskless COMMAND --help` and
[command-reference.md](command-reference.md) have options and examples; exit statuses and what all
commands share are in [cli/README.md](../cli/README.md).

| command | what it does |
|---|---|
"""


def each_command(command: click.Command = root, words: str = "diskless") -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that do something, each with the words that call it."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name in command.list_commands(click.Context(command)):
        lazy = command.lazy.get(name) if isinstance(command, LazyGroup) else None
        yield from each_command(command.commands[name] if lazy is None else lazy.load(), f"{words} {name}")


def generate(_: Path) -> str:
    """Return the text of `docs/commands.md`."""
    rows = (f"| `{words}` | {(command.help or '').strip().splitlines()[0]} |\n" for words, command in each_command())
    return _HEAD + "".join(rows)
