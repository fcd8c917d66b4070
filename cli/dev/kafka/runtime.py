"""Kafka's program, ready to be started: a Java, a class path and what was prepared for the pair (see `prepare`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.dev.kafka.properties import Profile, jvm_options
from cli.java.java import Java

LOG4J2_FILE = Path(__file__).with_name("log4j2.properties")
MAIN_CLASS = "kafka.Kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRuntime:
    """The programs that brokers are started from. `archive` is None where Java could not make one; brokers then start slower."""

    java: Java
    class_path: tuple[Path, ...]
    origin: str
    checkpoint: bytes
    archive: Path | None

    def command(self, properties_file: Path, profile: Profile, more_options: Sequence[str] = ()) -> list[str]:
        """Return the command line of a broker."""
        options = [*jvm_options(profile, archive=self.archive, log4j2=LOG4J2_FILE), *more_options]
        return [*java_command(self.java, self.class_path, options), MAIN_CLASS, str(properties_file)]


def java_command(java: Java, class_path: Sequence[Path], options: Sequence[str]) -> list[str]:
    """Return the beginning of a command line, up to the main class."""
    return [str(java.program), *options, "-cp", os.pathsep.join(str(jar) for jar in class_path)]
