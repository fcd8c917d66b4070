"""`diskless monitor`: Spark jobs over the metadata topic, and what they found. The table of its commands."""

from __future__ import annotations

import click

from cli.lazy import Lazy, LazyGroup

COMMANDS = {
    "run": Lazy("cli.commands.monitor.run", "run", "Follow the metadata topic with Spark, audit it, and keep its content in a database."),
    "fetch": Lazy("cli.commands.monitor.run", "fetch", "Fetch the jars that Spark reads Kafka with, once per machine."),
    "status": Lazy("cli.commands.monitor.read", "status", "Show the verdict, totals, lag and findings of a monitor."),
    "findings": Lazy("cli.commands.monitor.findings", "findings", "List violations of the log's rules; acknowledge those that are known."),
    "verify": Lazy(
        "cli.commands.monitor.verify", "verify", "Rebuild the service's state from the log alone, and compare it with live replicas."
    ),
    "archive": Lazy("cli.commands.monitor.archive", "archive", "Keep the decoded metadata log as a Delta table, for questions in SQL."),
    "quarantine": Lazy("cli.commands.monitor.read", "quarantine", "List the entries that could not be read."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def monitor() -> None:
    """Follow and audit the metadata topic with Spark; look at what was found."""
