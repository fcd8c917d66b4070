"""`diskless monitor archive` on a real topic and a real Delta table: everything once, however often and wherever it is killed."""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from integration_tests.waiting import wait_until
from records.codec import encode_entry
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey, encode_key
from records.history import levels
from records.model import LeadershipClaimed, NoOp, Record, TransactionAborted, TransactionBegan, TransactionEnded
from tests.sqlite.random_log import LogModel

pytestmark = pytest.mark.timeout(600)  # Spark starts in several of them, on machines that may be busy

HERE = Path(__file__).parents[1]
PARTITIONS = 2
COMMAND_TIMEOUT_S = 200


@dataclass(slots=True)
class MadeLog:
    """Random logs, one for each partition of a topic, and what the archive must hold of them.

    Each `produce` leaves a transaction open, which the next one ends; what it holds is in no archive before.
    """

    bootstrap: str
    topic: str
    runs: Counter[tuple[object, ...]] = field(default_factory=Counter)
    others: Counter[tuple[object, ...]] = field(default_factory=Counter)
    _offsets: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    _models: list[LogModel] = field(default_factory=lambda: [LogModel(random.Random(one)) for one in range(PARTITIONS)])
    _seqs: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    _opened: dict[int, int] = field(default_factory=dict)

    def produce(self, entries: int) -> None:
        """Write more entries into each partition: most count, some are void, contradict it, are unreadable or of transactions."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, "enable.idempotence": True})
        for kpart in range(PARTITIONS):
            if self._offsets[kpart] == 0:
                claim = LeadershipClaimed(epoch=1, term=-7, node_id=1, rack="", endpoints=[])
                self._send(producer, kpart, EntryKey(1, -7, 0), encode_entry([claim]), [("claim", "LeadershipClaimed", 0)])
            else:
                self._end(producer, kpart, self._opened.pop(kpart))
            for number in range(entries):
                if number % 20 == 7:
                    self._end(producer, kpart, self._begin(producer, kpart), is_aborted=number % 40 == 7)
                self._one(producer, kpart, number)
            self._opened[kpart] = self._begin(producer, kpart)
        assert producer.flush(60) == 0

    def _begin(self, producer: Producer, kpart: int) -> int:
        """Write all of a transaction but its end; returns where it begins."""
        began = self._offsets[kpart]
        for record in (TransactionBegan(name="t"), NoOp(), NoOp()):
            self._add(producer, kpart, record, [])
        return began

    def _end(self, producer: Producer, kpart: int, began: int, *, is_aborted: bool = False) -> None:
        for offset, name in enumerate(("TransactionBegan", "NoOp", "NoOp"), began):
            self.others[kpart, offset, 0, "aborted" if is_aborted else "applied", name] += 1
        end = TransactionAborted(reason="no") if is_aborted else TransactionEnded(num_chunks=2)
        self._add(producer, kpart, end, [("applied", type(end).__name__, 0)])

    def _add(self, producer: Producer, kpart: int, record: Record, others: list[tuple[object, ...]]) -> None:
        self._seqs[kpart] += 1
        value = encode_entry([record], levels()[self._seqs[kpart] % len(levels())])
        self._send(producer, kpart, EntryKey(1, -7, self._seqs[kpart]), value, others)

    def _one(self, producer: Producer, kpart: int, number: int) -> None:
        if number % 20 == 5:
            self._send(producer, kpart, EntryKey(1, -7, self._seqs[kpart]), encode_entry([NoOp()]), [("void", "NoOp", 0)])
            return
        self._seqs[kpart] += 1
        key = EntryKey(1, -7, self._seqs[kpart])
        if number % 20 == 6:
            self._send(producer, kpart, key, b"\xc3\x01junk", [("contradiction", None, 0)])
            return
        if number % 20 == 9:
            self._send(producer, kpart, key, b"\xc3\x01" + b"newer id" + b"body", [("unreadable", None, 0)])
            return
        record = self._models[kpart].next_record()
        if not isinstance(record, FileCommitted):
            self._send(producer, kpart, key, encode_entry([record]), [("applied", type(record).__name__, 0)])
            return
        if number % 3 == 0:
            # A file stands alone in its entry.
            others: list[tuple[object, ...]] = [("contradiction", "NoOp", 0), ("contradiction", "FileCommitted", 1)]
            self._send(producer, kpart, key, encode_entry([NoOp(), record]), others)
            return
        self._expect_runs(kpart, record)
        self._send(producer, kpart, key, encode_entry([record]), [])

    def _expect_runs(self, kpart: int, record: FileCommitted) -> None:
        runs = groupby(record.accepted, lambda batch: (batch.topic_id, batch.partition))
        for run, ((topic_id, partition), same) in enumerate(runs):
            batches = list(same)
            text = base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
            sums = (len(batches), sum(one.record_count for one in batches), sum(one.byte_size for one in batches))
            place = (kpart, self._offsets[kpart], 0, run, record.object_key, text, partition, batches[0].base_offset)
            self.runs[*place, *sums, record.append_time_ms] += 1

    def _send(self, producer: Producer, kpart: int, key: EntryKey, value: bytes, others: list[tuple[object, ...]]) -> None:
        for verdict, record, number in others:
            self.others[kpart, self._offsets[kpart], number, verdict, record] += 1
        producer.produce(self.topic, value, encode_key(key), kpart)
        producer.poll(0)
        self._offsets[kpart] += 1

    def check(self, table: Path) -> None:
        """The table holds exactly this."""
        runs: Counter[tuple[object, ...]] = Counter()
        others: Counter[tuple[object, ...]] = Counter()
        for row in DeltaTable(table).to_pyarrow_table().to_pylist():
            place = (row["kpart"], row["offset"], row["record_number"])
            assert row["verdict"] != "void" or row["record"] == "NoOp"
            if row["record"] != "FileCommitted" or row["verdict"] != "applied":
                others[*place, row["verdict"], row["record"]] += 1
                assert row["date"] == row["entry_time"].date()
                continue
            named = (row["run_number"], row["object_key"], row["topic_id"], row["partition"], row["base_offset"])
            sums = (row["batches"], row["records"], row["bytes"])
            assert row["next_offset"] == row["base_offset"] + row["records"]
            runs[*place, *named, *sums, round(row["append_time"].timestamp() * 1000)] += 1
        assert runs == self.runs
        assert others == self.others


@dataclass(slots=True)
class Archive:
    """The command, on a table."""

    log: MadeLog
    table: Path
    output: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def command(self, *arguments: str) -> list[str]:
        place = ("--kafka-bootstrap-server", self.log.bootstrap, "--metadata-topic", self.log.topic, "--to", str(self.table))
        return [sys.executable, "-m", "cli.program", "monitor", "archive", *place, *arguments]

    def once(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command("--once", *arguments), cwd=HERE, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        # A killed process leaves its scratch folder behind.
        environment = {**os.environ, "TMPDIR": str(self.output.parent)}
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                self.command(*arguments), cwd=HERE, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        self.started.append(process)
        return process

    def version(self) -> int:
        try:
            return DeltaTable(self.table).version()
        except TableNotFoundError:
            return -1


@pytest.fixture
def archive(kafka: Kafka, tmp_path: Path, unique_name: Callable[[str], str]) -> Iterator[Archive]:
    topic = unique_name("metadata")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        made.result()
    made_archive = Archive(MadeLog(kafka.bootstrap, topic), tmp_path / "table", tmp_path / "output.log")
    yield made_archive
    for process in made_archive.started:
        if process.poll() is None:
            process.kill()
        process.wait(60)


@pytest.mark.long
def test_killed_right_behind_a_commit_nothing_is_doubled_and_nothing_missing(archive: Archive) -> None:
    archive.log.produce(400)
    first = archive.start("--trigger-interval", "0.1", "--max-entries", "100")
    # The table is made before Spark starts; every later version is a commit of rows.
    wait_until(lambda: archive.version() >= 2 or first.poll() is not None, "some commits", COMMAND_TIMEOUT_S)
    assert first.poll() is None, archive.output.read_text(encoding="utf-8")
    os.kill(first.pid, signal.SIGKILL)
    first.wait(60)
    version = archive.version()
    archive.log.produce(100)
    done = archive.once("--compact-every", "0", "--vacuum-hours", "0")
    assert done.returncode == Exit.OK, done.stderr
    assert "joined into" in done.stderr
    assert archive.version() > version
    archive.log.check(archive.table)


def add_partition(archive: Archive, process: subprocess.Popen[bytes]) -> None:
    """Give the topic one more partition, and write into it twice; each entry is committed by itself."""
    log, added = archive.log, PARTITIONS
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_partitions([NewPartitions(log.topic, added + 1)])[log.topic].result()
    producer = Producer({"bootstrap.servers": log.bootstrap})

    def put(seq: int, record: Record) -> None:
        producer.produce(log.topic, encode_entry([record]), encode_key(EntryKey(1, -7, seq)), added)
        assert producer.flush(60) == 0
        wait_until(lambda: process.poll() is not None or len(places(archive.table, added)) > seq, "the entry", COMMAND_TIMEOUT_S)
        assert process.poll() is None, archive.output.read_text(encoding="utf-8")

    put(0, LeadershipClaimed(epoch=1, term=-7, node_id=1, rack="", endpoints=[]))
    put(1, NoOp())


@pytest.mark.long
def test_stopped_it_ends_well_and_a_recreated_topic_is_refused(archive: Archive) -> None:
    archive.log.produce(60)
    process = archive.start("--trigger-interval", "0.2")
    wait_until(lambda: archive.version() >= 1 or process.poll() is not None, "a commit", COMMAND_TIMEOUT_S)
    add_partition(archive, process)
    archive.log.produce(60)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(60) == Exit.OK, archive.output.read_text(encoding="utf-8")
    held = DeltaTable(archive.table).to_pyarrow_table(columns=["kpart", "offset"]).to_pydict()
    assert len(held["kpart"]) > 0
    admin = AdminClient({"bootstrap.servers": archive.log.bootstrap})
    admin.delete_topics([archive.log.topic])[archive.log.topic].result()

    def is_made_anew() -> bool:
        return admin.create_topics([NewTopic(archive.log.topic, PARTITIONS, 1)])[archive.log.topic].exception() is None

    wait_until(is_made_anew, "the topic to be made anew")
    refused = archive.once()
    assert refused.returncode == Exit.NOT_FOUND, refused.stderr
    assert "was the topic recreated?" in refused.stderr
    assert json.loads(DeltaTable(archive.table).metadata().description)["topic_id"] in refused.stderr


def prune(log: MadeLog, ends: Mapping[int, int]) -> None:
    """Delete the entries of each partition before an offset, as coordinators do behind snapshots."""
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    for done in admin.delete_records([TopicPartition(log.topic, kpart, offset) for kpart, offset in ends.items()]).values():
        done.result()


def heads(table: Path) -> dict[int, int]:
    """Where the table ends in each partition."""
    found = DeltaTable(table)
    return {kpart: found.transaction_version(f"archive-{kpart}") or 0 for kpart in range(PARTITIONS)}


def places(table: Path, kpart: int) -> set[int]:
    """The offsets of a partition that have rows."""
    rows = DeltaTable(table).to_pyarrow_table(columns=["kpart", "offset"]).to_pylist()
    return {row["offset"] for row in rows if row["kpart"] == kpart}


@pytest.mark.long
def test_what_is_pruned_before_it_is_archived_is_refused_and_what_is_archived_may_go(archive: Archive) -> None:
    archive.log.produce(40)
    assert archive.once().returncode == Exit.OK
    prune(archive.log, heads(archive.table))
    archive.log.produce(40)
    done = archive.once()
    assert done.returncode == Exit.OK, done.stderr
    archive.log.check(archive.table)

    archive.log.produce(40)
    due, version = heads(archive.table), archive.version()
    begin = due[0] + 10
    prune(archive.log, {0: begin, 1: due[1]})
    refused = archive.once()
    assert refused.returncode == Exit.FAILURE, refused.stderr
    assert f"{archive.log.topic}-0 begins at offset {begin}, entry {due[0]} is needed" in refused.stderr
    assert f"{archive.log.topic}-1" not in refused.stderr
    assert "--skip-pruned" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert archive.version() == version
    # A fresh one needs all of the log.
    fresh = replace(archive, table=archive.table.with_name("fresh")).once()
    assert fresh.returncode == Exit.FAILURE, fresh.stderr
    for kpart, start in {0: begin, 1: due[1]}.items():
        assert f"{archive.log.topic}-{kpart} begins at offset {start}, entry 0 is needed" in fresh.stderr

    skipped = archive.once("--skip-pruned")
    assert skipped.returncode == Exit.OK, skipped.stderr
    assert f"partition 0: entries {due[0]} to {begin - 1} are deleted" in skipped.stderr
    assert [places(archive.table, kpart) for kpart in range(PARTITIONS)] == [
        {*range(due[0]), *range(begin, heads(archive.table)[0])},
        set(range(heads(archive.table)[1])),
    ]


@pytest.mark.long
def test_what_is_pruned_under_its_hands_ends_the_archive(archive: Archive) -> None:
    archive.log.produce(20)
    process = archive.start("--trigger-interval", "20")
    wait_until(lambda: archive.version() >= 1 or process.poll() is not None, "a commit", COMMAND_TIMEOUT_S)
    archive.log.produce(20)
    due = heads(archive.table)[1]
    # Beyond what Spark has read, which is all that there was.
    end = due + 3 + 10
    prune(archive.log, {1: end})
    assert process.wait(COMMAND_TIMEOUT_S) == Exit.FAILURE
    said = archive.output.read_text(encoding="utf-8")
    assert f"{archive.log.topic}-1 begins at offset {end}, entry {due} is needed" in said
    assert heads(archive.table)[1] == due
