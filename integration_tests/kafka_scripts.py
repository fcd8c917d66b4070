"""Java programs over the jars that the tests have: Kafka's own tools by their classes, and its scripts by their names."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cli.dev.kafka import find_runtime
from cli.dev.kafka.runtime import java_command
from cli.java.jars import resolve

TOOLS_LOCK: Final = Path(__file__).with_name("kafka_tools.lock")
# Most run for a second; the second compiler of the JVM would only cost time.
JVM_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dfile.encoding=UTF-8",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
SCRIPTS: Final = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records.sh": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


def java_program(main: str, *more: Path, options: Sequence[str] = ()) -> list[str]:
    """Return the command of a Java program over the jars of brokers, those of Kafka's tools and `more`.

    It starts from the class-data archive of brokers, which halves its CPU time: so nothing may stand before their jars on the class path.
    Raises what finding Kafka's program raises.
    """
    runtime = find_runtime()
    archive = [f"-XX:SharedArchiveFile={runtime.archive}"] if runtime.archive else []
    jars = [*runtime.class_path, *resolve(TOOLS_LOCK), *more]
    return [*java_command(runtime.java, jars, (*JVM_OPTIONS, *archive, *options)), main]


def write_scripts(folder: Path, repository: Path) -> None:
    """Fill a folder for PATH with Kafka's scripts, and with `diskless` of a repository. Raises what `java_program` raises."""
    folder.mkdir(exist_ok=True)
    commands = {name: shlex.join(java_program(main)) for name, main in SCRIPTS.items()}
    commands["diskless"] = f"env PYTHONPATH={shlex.quote(str(repository))} {shlex.quote(sys.executable)} -m cli.program"
    for name, command in commands.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
