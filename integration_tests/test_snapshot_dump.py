"""Kafka's own dump tool reads our snapshots. Needs no broker."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cli.dev.kafka.prepare import LOCK_FILE
from cli.java.jars import parse_lock
from integration_tests.kafka_scripts import TOOLS_LOCK, java_program
from records.snapshot import TableRows
from records.snapshot.rows import CHUNK_BYTES
from tests.snapshot.files import HEAD, NOW_MS, SMALL, write

# The first test may have to fetch the jars.
pytestmark = pytest.mark.timeout(600)

DUMP = "org.apache.kafka.tools.DumpLogSegments"
TOOL_TIMEOUT_S = 120

BATCH = re.compile(
    r"^baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) .* partitionLeaderEpoch: (?P<epoch>\d+) .*"
    r" isControl: (?P<is_control>\w+) .* size: (?P<size>\d+) magic: 2 compresscodec: (?P<codec>\w+) .* isvalid: (?P<is_valid>\w+)$",
    re.MULTILINE,
)
RECORD = re.compile(r"^\| offset: (\d+) .*", re.MULTILINE)


def dump(path: Path) -> str:
    """Return what the tool prints about a file, with its records."""
    command = [*java_program(DUMP), "--print-data-log", "--files", str(path)]
    # Contents of rows are no text.
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=TOOL_TIMEOUT_S, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "SLF4J" not in line]) == (0, []), done.stderr
    return done.stdout


def test_the_tools_are_of_the_broker_s_version() -> None:
    (tools,) = parse_lock(TOOLS_LOCK.read_text("utf-8"))
    (clients,) = (jar for jar in parse_lock(LOCK_FILE.read_text("utf-8")) if jar.artifact == "kafka-clients")
    assert tools.version == clients.version


def test_kafkas_dump_tool_reads_a_snapshot(tmp_path: Path) -> None:
    large = TableRows("file", {"id": list(range(200_000)), "object_key": [f"wal/{number:06}" for number in range(200_000)]})
    file = write(tmp_path, [*SMALL, large])
    chunks = -(-200_000 // (CHUNK_BYTES // (8 + 4 + len("wal/000000"))))
    batches = 2 + len(SMALL) + chunks + 1

    said = dump(file.path)

    assert f"Snapshot end offset: {HEAD.end_offset}, epoch: {HEAD.epoch}" in said
    found = [found.groupdict() for found in BATCH.finditer(said)]
    assert [(one["base"], one["last"], one["count"]) for one in found] == [(str(offset), str(offset), "1") for offset in range(batches)]
    assert {(one["is_valid"], one["epoch"]) for one in found} == {("true", str(HEAD.epoch))}
    controls = ["true", *["false"] * (batches - 2), "true"]
    assert [one["is_control"] for one in found] == controls
    assert [one["codec"] for one in found] == ["none" if is_control == "true" else "zstd" for is_control in controls]
    assert sum(int(one["size"]) for one in found) == file.size_bytes
    records = list(RECORD.finditer(said))
    assert [int(record[1]) for record in records] == list(range(batches))
    assert records[0][0].endswith(f'SnapshotHeader {{"version":0,"lastContainedLogTimestamp":{NOW_MS}}}')
    assert " key: diskless-snapshot payload: " in records[1][0]
    assert records[-1][0].endswith('SnapshotFooter {"version":0}')


def test_the_dump_tool_tells_a_damaged_batch(tmp_path: Path) -> None:
    path = write(tmp_path).path
    damaged = bytearray(path.read_bytes())
    # Of the footer: the base timestamp of the last batch, which only the checksum covers.
    damaged[-40] ^= 1
    path.write_bytes(damaged)
    assert [found["is_valid"] for found in BATCH.finditer(dump(path))] == ["true"] * 4 + ["false"]
