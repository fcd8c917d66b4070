"""`diskless monitor orphans` on a real metadata topic whose entries hold every way in which a file comes and goes."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from records.codec import encode_entry
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey, encode_key
from records.model import (
    FilesFenced,
    FilesHandedOver,
    FilesRemoved,
    LeadershipClaimed,
    PartitionCreated,
    Record,
    RecordsDeleted,
)
from spark_jobs.store.sink import Store
from tests.sqlite.small_records import TOPIC, file

pytestmark = pytest.mark.timeout(600)  # Spark starts in several of them, on machines that may be busy

HERE = Path(__file__).parents[1]
NOW_MS = time.time_ns() // 1_000_000
HOUR_MS = 3_600_000
COMMAND_TIMEOUT_S = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A metadata topic and a bucket."""

    bootstrap: str
    topic: str
    bucket: Path

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "cli.program",
            "monitor",
            "orphans",
            "--kafka-bootstrap-server",
            self.bootstrap,
            "--topic",
            self.topic,
        ]
        return subprocess.run(
            [*command, *map(str, arguments)], cwd=HERE, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )


def committed(key: str, partition: int, base: int) -> FileCommitted:
    """A file of two batches of one record, two hours old."""
    return file(key, {partition: 2}, base=base, time_ms=NOW_MS - 2 * HOUR_MS)


CREATED = PartitionCreated(topic_id=TOPIC, name="t", first_partition=0, num_partitions=2, order_offset=1)
ENTRIES: tuple[Sequence[Record], ...] = (
    [CREATED],
    [committed("wal/a/empty", 0, 0)],
    [committed("wal/b/removed", 0, 2)],
    [committed("wal/a/half", 0, 4)],
    [committed("wal/a/live", 1, 0)],
    [committed("wal/a/lost", 1, 2)],
    [RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=5)],
    [FilesRemoved(object_keys=["wal/b/removed"]), FilesFenced(object_keys=["wal/b/fenced"], created_ms=[-1])],
)
OTHER_ENTRIES: tuple[Sequence[Record], ...] = (
    [CREATED],
    [committed("wal/b/handed", 0, 0)],
    [RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=2)],
    # One owner less: the other coordinator still knows the one, nobody the other.
    [FilesHandedOver(object_keys=["wal/b/handed"], next_owner_ids=[0]), FilesHandedOver(object_keys=["wal/a/live"], next_owner_ids=[0])],
)
OBJECTS = {"live": "a", "empty": "a", "half": "a", "removed": "b", "handed": "b", "fenced": "b", "never é": "c", "young": "c"}


def produce(producer: Producer, topic: str, partition: int, entries: Sequence[Sequence[Record]]) -> None:
    claim = LeadershipClaimed(epoch=1, term=7, node_id=1, rack="", endpoints=[])
    for seq, records in enumerate([[claim], *entries]):
        producer.produce(topic, encode_entry(records), encode_key(EntryKey(1, 7, seq)), partition)


@pytest.fixture
def scene(kafka: Kafka, tmp_path: Path, unique_name: Callable[[str], str]) -> Scene:
    topic = unique_name("metadata")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(topic, 3, 1)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    produce(producer, topic, 0, ENTRIES)
    produce(producer, topic, 1, OTHER_ENTRIES)
    assert producer.flush(60) == 0
    bucket = tmp_path / "bucket"
    for name, folder in OBJECTS.items():
        place = bucket / "wal" / folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x" * 10)
        age_s = 60 if name == "young" else 7200 * 24
        os.utime(place, (time.time() - age_s, time.time() - age_s))
    (bucket / "else").mkdir()
    (bucket / "else" / "where").write_bytes(b"not a WAL file")
    return Scene(bootstrap=kafka.bootstrap, topic=topic, bucket=bucket)


def test_orphans_and_missing_files_of_a_listing(scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / "monitor"
    Store.open(folder).close()
    ended = scene.run("--object-store-url", f"file://{scene.bucket}", "--write", tmp_path / "found", "--dir", folder, "-o", "json")
    assert ended.returncode == Exit.AUDIT, ended.stdout + ended.stderr
    assert "data is lost" in ended.stderr
    found = json.loads(ended.stdout)
    counts = {name: found[name] for name in ("objects", "known_objects", "young_objects", "orphans", "orphan_bytes", "missing_files")}
    assert counts == {"objects": 8, "known_objects": 3, "young_objects": 1, "orphans": 4, "orphan_bytes": 40, "missing_files": 1}
    assert found["missing"] == [{"object_key": "wal/a/lost", "size_bytes": 20, "append_ms": NOW_MS - 2 * HOUR_MS, "coordinators": [0]}]
    assert {row["reason"]: row["count"] for row in found["by_reason"]} == {
        "never committed": 1,
        "fenced": 1,
        "removed": 1,
        "handed over": 1,
    }
    assert {row["folder"]: row["count"] for row in found["by_folder"]} == {"wal/b/": 3, "wal/c/": 1}
    assert found["by_age"] == [{"age": "1 to 7 d", "count": 4, "bytes": 40}]
    written = pq.read_table(tmp_path / "found").to_pylist()
    assert {row["key"]: row["reason"] for row in written} == {
        "wal/b/fenced": "fenced",
        "wal/b/removed": "removed",
        "wal/b/handed": "handed over",
        "wal/c/never é": "never committed",
    }
    with sqlite3.connect(folder / "monitor.db") as database:
        ((kept,),) = database.execute("SELECT value FROM job WHERE name = 'last_orphans'")
    database.close()
    assert json.loads(kept) == found


def test_snapshots_and_records_of_scans_are_no_orphans_of_a_whole_bucket(scene: Scene, tmp_path: Path) -> None:
    for key in ("snapshots/c/0", "orphan-scan/wal/record.json"):
        place = scene.bucket / key
        place.parent.mkdir(parents=True)
        place.write_bytes(b"kept")
        os.utime(place, (1, 1))
    os.utime(scene.bucket / "else" / "where", (1, 1))
    (scene.bucket / "wal" / "a" / "tab\t").write_bytes(b"of no service")
    os.utime(scene.bucket / "wal" / "a" / "tab\t", (1, 1))
    store = ("--object-store-url", f"file://{scene.bucket}", "--prefix", "", "--write", tmp_path / "found", "--write-format", "csv")
    ended = scene.run(*store, "-o", "json")
    assert (json.loads(ended.stdout)["orphans"], json.loads(ended.stdout)["unusual_objects"]) == (5, 1)
    listed = "".join(part.read_text() for part in (tmp_path / "found").glob("*.csv"))
    assert "else/where" in listed
    assert not any(kept in listed for kept in ("snapshots/", "orphan-scan/"))


def test_orphans_of_an_inventory_as_s3_writes_it(scene: Scene, tmp_path: Path) -> None:
    old = datetime.fromtimestamp(NOW_MS / 1000 - 86_400, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    keys = [f"base/wal/{folder}/{name}" for name, folder in OBJECTS.items() if name != "young"]
    unusual = [f"base/wal/{key}" for key in ("/x", "./x", "a/..", "folder/", "a\n", "a\x7f", "é" * 511)]
    lines = [f'"bucket","{urllib.parse.quote(key)}","12","{old}"' for key in [*keys, *unusual, "base/wal/a/lost", "else/where"]]
    inventory = tmp_path / "inventory.csv.gz"
    inventory.write_bytes(gzip.compress("\n".join(lines).encode()))
    columns = "Bucket,Key,Size,LastModifiedDate"
    form = ("--inventory-columns", columns, "--url-encoded", "--strip-prefix", "base/")
    ended = scene.run("--inventory", inventory, *form, "--write", tmp_path / "found", "--write-format", "csv", "-o", "json")
    assert ended.returncode == Exit.OK, ended.stdout + ended.stderr
    found = json.loads(ended.stdout)
    assert (found["objects"], found["known_objects"], found["orphans"], found["orphan_bytes"]) == (15, 4, 4, 48)
    assert found["unusual_objects"] == len(unusual)
    assert found["missing_files"] == 0
    written = "".join(part.read_text(encoding="utf-8") for part in (tmp_path / "found").glob("*.csv"))
    assert "wal/c/never é,12," in written


def test_a_pruned_log_calls_nothing_an_orphan(scene: Scene) -> None:
    admin = AdminClient({"bootstrap.servers": scene.bootstrap})
    for done in admin.delete_records([TopicPartition(scene.topic, 0, 2)]).values():
        done.result()
    ended = scene.run("--object-store-url", f"file://{scene.bucket}")
    assert ended.returncode == Exit.FAILURE
    assert "the log of metadata partition 0 begins at offset 2" in ended.stderr
    assert "the object store has none" in ended.stderr
    assert "Traceback" not in ended.stderr
