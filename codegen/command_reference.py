"""`docs/command-reference.md`: every command with its arguments and options, from their help."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from codegen.commands import each_command
from codegen.markdown import cell, prose

TARGET = Path("docs/command-reference.md")

_HEAD = """# Command reference

Made by `python -m codegen` from the commands in `cli/commands`; do not edit. [commands.md](commands.md) is the list of all of them on one
screen. Data goes to standard output, messages to standard error; exit statuses and what all commands share are in
[cli/README.md](../cli/README.md).

"""


def anchor(words: str) -> str:
    """Return the anchor of a command on the page."""
    return words.replace(" ", "-")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        # Click keeps the lines of a paragraph that begins with \\b.
        lines = paragraph.removeprefix("\b\n").splitlines()
        yield "\n".join(f"    {line}" for line in lines) if paragraph.startswith("\b") else prose(" ".join(lines))


def _default(option: click.Option) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    value = option.default
    if not option.show_default or value is None or callable(value) or option.is_flag:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _row(context: click.Context, option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    takes = "" if option.is_flag or option.count else f" {cell(option.make_metavar(context))}"
    about = [cell(option.help or "")]
    if option.required:
        about.append("Required.")
    if default := _default(option):
        about.append(f"Default: {cell(default)}.")
    if option.envvar and option.show_envvar:
        about.append(f"Environment: `{option.envvar}`.")
    return f"| {names}{takes} | {' '.join(filter(None, about))} |\n"


def _section(words: str, command: click.Command) -> str:
    context = click.Context(command, info_name=words)
    usage = " ".join(command.collect_usage_pieces(context))
    text = f"## {words} {{ #{anchor(words)} }}\n\n```\n{words} {usage}\n```\n\n"
    text += "".join(f"{paragraph}\n\n" for paragraph in _paragraphs(command.help or ""))
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if options:
        text += "| option | |\n|---|---|\n" + "".join(_row(context, one) for one in options) + "\n"
    return text


def generate(_: Path) -> str:
    """Return the text of `docs/command-reference.md`."""
    return (_HEAD + "".join(_section(words, command) for words, command in each_command())).rstrip("\n") + "\n"
