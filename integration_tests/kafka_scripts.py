"""The scripts of Kafka's own distribution, by their names, over the jars that the tests have."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from cli.dev.kafka.prepare import LOCK_FILE
from cli.dev.kafka.runtime import java_command
from cli.java.jars import resolve
from cli.java.java import find_java

TOOLS_LOCK: Final = Path(__file__).with_name("kafka_tools.lock")
JVM_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
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


def write_scripts(folder: Path, repository: Path) -> None:
    """Fill a folder for PATH with Kafka's scripts, and with `diskless` of a repository. Raises what finding Java and jars raises."""
    folder.mkdir(exist_ok=True)
    java = java_command(find_java(), [*resolve(LOCK_FILE), *resolve(TOOLS_LOCK)], JVM_OPTIONS)
    commands = {name: shlex.join([*java, main]) for name, main in SCRIPTS.items()}
    commands["diskless"] = f"env PYTHONPATH={shlex.quote(str(repository))} {shlex.quote(sys.executable)} -m cli.program"
    for name, command in commands.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
