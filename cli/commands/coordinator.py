"""`diskless coordinator`: run a process, and ask running ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import rich_click as click

from cli.options import config_option, property_option

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@click.group()
def coordinator() -> None:
    """Run a coordinator process; look at running ones."""


@coordinator.command()
@config_option
@property_option
@click.option("--log-level", type=click.Choice(LEVELS), default="INFO", show_default=True, help="What is logged, at least.")
def run(config_file: Path | None, properties: Sequence[str], log_level: str) -> None:
    """Run one coordinator process in the foreground until SIGTERM or Ctrl-C.

    Prints one line `ready` with its addresses when it serves; logs go to standard error. Every setting may also come from
    the environment (`DISKLESS_NODE_ID` for `node.id`); `diskless config show --docs` lists them.

    Example: `diskless coordinator run --config coordinator.properties --property node.id=1`
    """
    from cli.configuration import read_settings

    settings = read_settings(config_file, properties)

    from coordinator.app.logs import set_up_logging
    from coordinator.app.main import run_coordinator
    from coordinator.config import advice

    set_up_logging(log_level)
    for sentence in advice(settings):
        click.echo(f"warning: {sentence}", err=True)
    sys.exit(run_coordinator(settings))
