"""`diskless migration`: classic topics become diskless. The table of its commands."""

from __future__ import annotations

import click

from cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "start": Lazy("cli.commands.migration_run", "start", "Make all partitions of a classic topic diskless from the ends of their logs on."),
    "abort": Lazy(
        "cli.commands.migration_run",
        "abort",
        "Take a migration back whose diskless logs are still empty, and let the writers write to the classic topic again.",
    ),
    "verify": Lazy(
        "cli.commands.migration_verify",
        "verify",
        "Prove that readers of a migrated topic get every record once and in order, from Kafka below the start and diskless above.",
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def migration() -> None:
    """Make classic topics diskless, and prove that nothing is lost."""
