"""`diskless migration`: classic topics become diskless. The table of its commands."""

from __future__ import annotations

import click

from cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "start": Lazy("cli.commands.migration.run", "start", "Make all partitions of a classic topic diskless from the ends of their logs on."),
    "abort": Lazy(
        "cli.commands.migration.run",
        "abort",
        "Take a migration back whose diskless logs are still empty, and let the writers write to the classic topic again.",
    ),
    "verify": Lazy(
        "cli.commands.migration.verify",
        "verify",
        "Prove that readers of a migrated topic get every record once and in order, from Kafka below the start and diskless above.",
    ),
    "state": Lazy("cli.commands.migration.steps", "state", "Show the state of each partition's migration, as its leader knows it."),
    "init": Lazy(
        "cli.commands.migration.steps",
        "init",
        "Begin the diskless log of a classic partition, without its idempotent producers: `diskless migration start` finds those.",
    ),
    "reset": Lazy(
        "cli.commands.migration.steps",
        "reset",
        "Make a partition pending again whose diskless log is still empty, so that it can begin at another offset.",
    ),
    "repair": Lazy(
        "cli.commands.migration.steps",
        "repair",
        "Lower the start offset of a partition whose classic log lost its end, to what it still has.",
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def migration() -> None:
    """Make classic topics diskless, and prove that nothing is lost."""
