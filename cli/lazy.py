"""Groups of commands whose modules are imported when one of them is used, so that `--help` stays quick.

A group lists its commands by name, place and one line of help; help and completion are made of that table alone.
Invariant: the line in the table is the first line of the command's own help (a test compares them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from click.exceptions import NoSuchCommand

from cli.ending import STOPPED, describe, is_stopping, say_last
from cli.outcome import Exit, Failed
from coordinator.printable import indented, one_line


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is: `attribute` of `module`; `help` is its short help."""

    module: str
    attribute: str
    help: str

    def load(self) -> click.Command:
        """Import the command."""
        command = getattr(import_module(self.module), self.attribute)
        assert isinstance(command, click.Command), f"{self.module}.{self.attribute} is no command"
        return command


class _Listed(click.Command):
    """Stands for a command in lists; never runs."""

    def __init__(self, name: str, lazy: Lazy) -> None:
        super().__init__(name=name, short_help=lazy.help, help=lazy.help)
        self.lazy = lazy


class LazyGroup(click.Group):
    """A group made of a table of `Lazy` commands."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table."""
        return [*self.lazy, *super().list_commands(ctx)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with their whole short help, which click itself would cut to one line."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        shown = [(name, command) for name, command in commands if command is not None and not command.hidden]
        if shown:
            with formatter.section("Commands"):
                formatter.write_dl([(name, command.short_help or command.get_short_help_str(limit=10_000)) for name, command in shown])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return what lists show; `resolve_command` gives the command itself."""
        lazy = self.lazy.get(cmd_name)
        return super().get_command(ctx, cmd_name) if lazy is None else _Listed(cmd_name, lazy)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run, and import it. Raises NoSuchCommand, which names those that are spelt alike."""
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except NoSuchCommand as error:
            raise NoSuchCommand(error.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None
        return name, command.lazy.load() if isinstance(command, _Listed) else command, rest


class Root(LazyGroup):
    """The program: every end of a command is one line on standard error and an exit status."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command line. Raises SystemExit in every case but an interrupt while the command line is read."""
        try:
            return super().main(*args, **extra)
        except Exception as error:  # noqa: BLE001 - there is no outer place
            # A signal inside a C call of a client comes out as a SystemError.
            was_stopped = isinstance(error, SystemError) and is_stopping()
            say_last(STOPPED if was_stopped else f"diskless: {one_line(describe(error))}")
            raise SystemExit(int(Exit.FAILURE)) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except Failed as failed:
            say_last(f"diskless: {indented(str(failed))}")
            ctx.exit(failed.status)
        except KeyboardInterrupt:
            say_last(STOPPED)
            ctx.exit(Exit.FAILURE)
