"""`diskless gateway`: run a gateway, by which unmodified Kafka clients use diskless topics."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from cli.options import config_option, log_level_option, property_option


@click.group()
def gateway() -> None:
    """Run a gateway, by which Kafka clients use diskless topics."""


@gateway.command()
@config_option
@property_option
@log_level_option
def run(config_file: Path | None, properties: Sequence[str], log_level: str) -> None:
    """Run one gateway in the foreground until SIGTERM or Ctrl-C.

    Kafka clients connect to it as to a cluster, with its address as their bootstrap server: classic topics stay with the brokers, diskless
    ones are served by the gateway. Prints the line `serving` with its addresses when it takes requests. Logs go to standard error. Every
    setting may also come from the environment (`DISKLESS_GATEWAY_NODE_ID` for `gateway.node.id`).

    Example: `diskless gateway run --config gateway.properties --property gateway.node.id=1001`
    """
    from cli.outcome import Exit, Failed
    from coordinator.app.process.logs import set_up_logging
    from coordinator.config import ConfigError, SourceError, parse_properties_flags
    from gateway.app import run_gateway
    from gateway.settings import load_gateway_settings

    try:
        settings = load_gateway_settings(config_file, os.environ, parse_properties_flags(properties))
    except (ConfigError, SourceError) as error:
        raise Failed(str(error), Exit.USAGE) from error
    set_up_logging(log_level)
    sys.exit(run_gateway(settings))
