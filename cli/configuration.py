"""The settings of a coordinator as commands get them: file, environment and `--property`; wrong ones end with status 2."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cli.outcome import Exit, Failed
from coordinator.config import ConfigError, Settings, SourceError, load_settings, parse_properties_flags
from coordinator.config.sources import read_environment, read_file


def read_settings(config_file: Path | None, properties: Sequence[str]) -> Settings:
    """Read the settings of one process. Raises `Failed`."""
    try:
        return load_settings(config_file, os.environ, parse_properties_flags(properties))
    except (ConfigError, SourceError) as error:
        raise Failed(str(error), Exit.USAGE) from error


def prove_kafka_properties(settings: Settings) -> None:
    """Let Kafka's client read the `kafka.*` settings. Raises `Failed`."""
    from coordinator.adapters.kafka.settings import KafkaPropertyRefused, prove_user_properties

    try:
        prove_user_properties(settings.kafka)
    except KafkaPropertyRefused as error:
        raise Failed(f"kafka.*: {error}", Exit.USAGE) from error


def read_service_settings(config_file: Path, properties: Sequence[str] = ()) -> Settings:
    """Read settings for a command about the service, not about one process: `node.id` may be missing. Raises `Failed`."""
    try:
        overrides = parse_properties_flags(properties)
        given = {one.key for one in [*read_file(config_file), *read_environment(os.environ)]} | set(overrides)
        if "node.id" not in given:
            overrides["node.id"] = "0"
        return load_settings(config_file, os.environ, overrides)
    except (ConfigError, SourceError) as error:
        raise Failed(str(error), Exit.USAGE) from error
