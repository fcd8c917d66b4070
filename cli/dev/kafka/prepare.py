"""Finds the broker's program and prepares once what makes it start quickly.

`find_runtime` takes the distribution in KAFKA_HOME, else the jars of `jars.lock`. For each pair of class path and Java two
things are made once and kept in the cache folder: the `bootstrap.checkpoint` by Kafka's StorageTool, and a class-data
archive from one training run, with which a broker starts in half the time. Invariant: a prepared folder is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from cli.dev.kafka.node import KafkaNode
from cli.dev.kafka.properties import NodeAddress, Profile, jvm_options, render, server_properties
from cli.dev.kafka.runtime import LOG4J2_FILE, BrokerRuntime, java_command
from cli.dev.kafka.storage import CHECKPOINT_FILE, format_folder, random_kafka_uuid
from cli.dev.ports import lease_ports
from cli.java.cache import cache_folder, file_lock
from cli.java.jars import resolve
from cli.java.java import Java, find_java

LOCK_FILE = Path(__file__).with_name("jars.lock")
ARCHIVE_FILE = "classes.jsa"
OLDEST_VERSION = (4, 0)
TOOL_TIMEOUT_S = 120


class RuntimeUnavailableError(Exception):
    """Kafka's program cannot be used; the message says why and what to do."""


def find_runtime(environment: Mapping[str, str] | None = None) -> BrokerRuntime:
    """Find Kafka's program, fetching and preparing it the first time (about a minute, later nothing).

    Raises `NoJavaError`, `JarError` or `RuntimeUnavailableError`.
    """
    environment = os.environ if environment is None else environment
    java = find_java(environment)
    home = environment.get("KAFKA_HOME")
    if home:
        class_path, origin = distribution_jars(Path(home)), f"KAFKA_HOME={home}"
    else:
        class_path, origin = resolve(LOCK_FILE), "jars.lock"
    return _prepared(java, class_path, origin)


def distribution_jars(home: Path) -> tuple[Path, ...]:
    """Return the jars of a Kafka distribution. Raises `RuntimeUnavailableError` when it is none, or older than 4.0."""
    jars = tuple(sorted((home / "libs").resolve().glob("*.jar")))
    versions = [matched for jar in jars if (matched := re.fullmatch(r"kafka-clients-(\d+)\.(\d+)\b.*\.jar", jar.name))]
    if not versions:
        raise RuntimeUnavailableError(f"KAFKA_HOME={home} has no libs/kafka-clients-*.jar: point it at an unpacked Kafka distribution")
    version = int(versions[0].group(1)), int(versions[0].group(2))
    if version < OLDEST_VERSION:
        raise RuntimeUnavailableError(f"KAFKA_HOME={home} is Kafka {version[0]}.{version[1]}; 4.0 or newer is needed")
    return jars


def _prepared(java: Java, class_path: tuple[Path, ...], origin: str) -> BrokerRuntime:
    folder = cache_folder() / "brokers" / _key(java, class_path)
    if not folder.exists():
        with file_lock(folder.parent / ".lock"):
            if not folder.exists():
                _prepare(folder, java, class_path, origin)
    archive = folder / ARCHIVE_FILE
    return BrokerRuntime(
        java=java,
        class_path=class_path,
        origin=origin,
        checkpoint=(folder / CHECKPOINT_FILE).read_bytes(),
        archive=archive if archive.exists() else None,
    )


def _key(java: Java, class_path: Sequence[Path]) -> str:
    """Name the pair as the JVM will compare it: an archive is void when a jar's path, size or time differs."""
    parts = [str(java.program), java.version]
    for jar in class_path:
        status = jar.stat()
        parts.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _prepare(folder: Path, java: Java, class_path: tuple[Path, ...], origin: str) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as work_name:
        work, made = Path(work_name), Path(work_name) / "made"
        made.mkdir()
        checkpoint = _format_with_storage_tool(java, class_path, work)
        (made / CHECKPOINT_FILE).write_bytes(checkpoint)
        bare = BrokerRuntime(java=java, class_path=class_path, origin=origin, checkpoint=checkpoint, archive=None)
        archive = _make_archive(bare, work)
        if archive is not None:
            shutil.move(archive, made / ARCHIVE_FILE)
        os.replace(made, folder)


def _format_with_storage_tool(java: Java, class_path: Sequence[Path], work: Path) -> bytes:
    address = NodeAddress(node_id=1, client_port=9092, controller_port=9093)
    data, config = work / "formatted", work / "format.properties"
    config.write_text(render(server_properties(address, cluster=[address], data_folder=data)), encoding="utf-8")
    options = jvm_options(Profile.TEST, archive=None, log4j2=LOG4J2_FILE)
    tool = ["kafka.tools.StorageTool", "format", "-t", random_kafka_uuid(), "-c", str(config)]
    done = _run_tool([*java_command(java, class_path, options), *tool])
    checkpoint = data / CHECKPOINT_FILE
    if done.returncode != 0 or not checkpoint.is_file():
        raise RuntimeUnavailableError(f"Kafka's StorageTool failed (exit status {done.returncode}):\n{done.stdout}{done.stderr}")
    return checkpoint.read_bytes()


def _make_archive(bare: BrokerRuntime, work: Path) -> Path | None:
    """Make an archive of the classes a broker loads; a static one, for a Java may come without one of its own to build upon."""
    classes, archive = work / "classes.list", work / ARCHIVE_FILE
    _train(bare, work / "training", ["-Xshare:off", f"-XX:DumpLoadedClassList={classes}"])
    options = ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
    done = _run_tool(java_command(bare.java, bare.class_path, options))
    # An archive only saves time: a Java that cannot make one still runs brokers.
    return archive if done.returncode == 0 and archive.is_file() else None


def _train(bare: BrokerRuntime, folder: Path, more_options: Sequence[str]) -> None:
    """Start one broker and stop it cleanly, which is when the JVM writes the list of classes it has loaded."""
    client, controller = leases = lease_ports(2)
    with closing(client), closing(controller):
        address = NodeAddress(node_id=1, client_port=leases[0].port, controller_port=leases[1].port)
        node = KafkaNode(address, folder=folder, runtime=bare, profile=Profile.TEST)
        format_folder(node.data_folder, cluster_id=random_kafka_uuid(), node_id=1, checkpoint=bare.checkpoint)
        try:
            node.start(server_properties(address, cluster=[address], data_folder=node.data_folder), more_options)
            node.wait_until_open(timeout_s=120)
            node.terminate(timeout_s=30)
        finally:
            node.kill()


def _run_tool(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
