"""The monitor on real logs: a real service's, one with hostile entries in it, one that was pruned, one that was replaced."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.client.client import DisklessClient
from coordinator.client.errors import ServiceError
from coordinator.client.model import PartitionId, TopicDescription
from coordinator.client.records.ulid import new_key
from coordinator.kafka.timestamps import LATEST
from coordinator.protocol.messages import CommitBatch
from integration_tests.made_load import LogProducer
from integration_tests.made_log import LEVEL, Entry, MadeLog, MadePartition
from integration_tests.monitor_process import START_TIMEOUT_S, MonitorProcess
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from records.codec import decode_entry, encode_entry
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey, encode_key
from spark_jobs.monitor.metrics import METRICS
from spark_jobs.monitor.report import open_report
from tests.commit_batches import commit_batch

pytestmark = pytest.mark.timeout(600)  # Spark starts several times

FAST = ("--trigger-interval", "0.2")
PARTITIONS = 12
WRITERS = 6
FILES_PER_WRITER = 25
REPLACED_MAX_S = 60
SPARK_KEEPS_S = 60
"""How long Spark keeps Python workers that do nothing; it looks every ten seconds."""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli.program", *words], capture_output=True, text=True, check=False, timeout=START_TIMEOUT_S
    )


# ---- a real service


class Writer:
    """Commits files of random batches one after the other, each until it is committed, and counts what was accepted."""

    def __init__(self, topic: TopicDescription, number: int) -> None:
        self._topic = topic
        self._random = random.Random(number)
        self._producer_id = 1000 + number
        self._sequences: Counter[int] = Counter()
        self.accepted: Counter[str] = Counter()
        self.records_of: Counter[int] = Counter()

    async def write(self, client: DisklessClient, files: int, on_file: Callable[[], None]) -> None:
        for _ in range(files):
            batches = self._batches()
            key, size = new_key(time.time_ns() // 1_000_000, os.urandom(10)), sum(batch.size for batch in batches)
            while True:
                try:
                    (await client.commit_file(key, size, batches)).raise_for_errors()
                    break
                except ServiceError:
                    await asyncio.sleep(0.2)  # nobody leads yet; the same file again
            self._count(batches)
            on_file()

    def _batches(self) -> list[CommitBatch]:
        batches, position = [], 0
        for partition in sorted(self._random.choices(range(PARTITIONS), k=self._random.randint(1, 20))):
            records, size = self._random.randint(1, 50), self._random.randint(100, 5000)
            sequence = self._sequences[partition]
            self._sequences[partition] += records
            batches.append(
                commit_batch(
                    self._topic.topic_id,
                    partition,
                    records=records,
                    at=position,
                    size=size,
                    producer_id=self._producer_id,
                    sequence=sequence,
                )
            )
            position += size
        return batches

    def _count(self, batches: list[CommitBatch]) -> None:
        self.accepted.update(files=1, batches=len(batches), bytes=sum(batch.size for batch in batches))
        for batch in batches:
            self.accepted["records"] += batch.last_offset + 1
            self.records_of[batch.partition_index] += batch.last_offset + 1


def test_numbers_are_what_a_service_committed_and_a_fail_over_is_no_finding(service: Service, data_folder: Path) -> None:
    service.start(2)
    killed = False

    def kill_at_half(done: list[int]) -> None:
        nonlocal killed
        done[0] += 1
        if not killed and done[0] >= WRITERS * FILES_PER_WRITER // 2:
            killed = True
            service.nodes[1].kill()

    async def load() -> tuple[list[Writer], dict[int, int], TopicDescription]:
        done = [0]
        async with DisklessClient(service.addresses) as client:
            await client.admin.create_topic("orders", PARTITIONS)
            topic = await client.describe_topic("orders")
            writers = [Writer(topic, number) for number in range(WRITERS)]
            await asyncio.gather(*(one.write(client, FILES_PER_WRITER, lambda: kill_at_half(done)) for one in writers))
            places = [PartitionId(topic.topic_id, partition) for partition in range(PARTITIONS)]
            ends = await client.list_offsets([(place, LATEST) for place in places])
            return writers, {partition: one.offset for partition, one in enumerate(ends)}, topic

    with MonitorProcess(service.bootstrap, service.topic, data_folder) as monitor:
        monitor.start_ready(*FAST, "--metrics-port", "0")
        writers, ends, topic = asyncio.run(load())
        expected: Counter[str] = sum((one.accepted for one in writers), Counter())
        monitor.wait_total("batches", expected["batches"])
        assert {name: monitor.total(name) for name in expected} == dict(expected)
        with open_report(monitor.folder) as report:
            chains = report.connection.execute("SELECT partition, next_offset, records FROM partition WHERE topic_id = ?", [topic.topic_id])
            found = {row["partition"]: (row["next_offset"], row["records"]) for row in chains}
            claims = report.connection.execute("SELECT count(*) AS count FROM claim").fetchone()["count"]
            brokers = report.connection.execute("SELECT * FROM broker").fetchall()
            findings = report.findings(10)
        records: Counter[int] = sum((one.records_of for one in writers), Counter())
        assert found == {partition: (end, records[partition]) for partition, end in ends.items() if end}
        assert findings == []
        partitions = int(service.properties["diskless.metadata.topic.num.partitions"])
        assert claims > partitions, "the other node claimed what the killed one had led"
        assert [(row["broker_id"], row["host"]) for row in brokers] == [(1, "127.0.0.1")]

        _check_metrics(monitor, expected, partitions)
        shown = run("monitor", "status", "--dir", str(monitor.folder), "-o", "json")
        assert shown.returncode == 0, shown.stderr
        status = json.loads(shown.stdout)
        assert status["totals"]["batches"] == expected["batches"]
        assert status["findings"] == {}
        assert run("monitor", "findings", "list", "--dir", str(monitor.folder)).returncode == 0
        assert monitor.terminate() == 0, monitor.said()


def _check_metrics(monitor: MonitorProcess, expected: Counter[str], partitions: int) -> None:
    wait_until(lambda: monitor.scrape()["diskless_monitor_batch_seconds_count"] > 0, "Spark's report of a micro-batch")
    metrics = monitor.scrape()
    for name, value in expected.items():
        assert metrics[f"diskless_monitor_{name}_total"] == value
    lags = [value for name, value in metrics.items() if name.startswith("diskless_monitor_lag_entries{")]
    assert len(lags) == partitions
    assert 0 <= metrics["diskless_monitor_freshness_seconds"] < 60
    assert abs(metrics["diskless_monitor_last_progress_timestamp_seconds"] - time.time()) < 60
    shown = {name.partition("{")[0] for name in metrics}
    expected_names = {f"{one.name}_count" if one.kind == "histogram" else one.name for one in METRICS.values()}
    # These have a sample for each label that came up, and none did.
    labelled = {"findings_total", "findings_open", "void_entries_total"}
    assert expected_names - shown <= {f"diskless_monitor_{name}" for name in labelled}


# ---- hostile entries


UNKNOWN_SCHEMA = b"\xc3\x01" + bytes(8)


class Hostile:
    """Entries nobody should write, between sound ones; counts what each must become."""

    def __init__(self, log: MadePartition) -> None:
        self.log = log
        self.void: Counter[str] = Counter()
        self.quarantined: list[int] = []
        self.findings: list[tuple[str, int]] = []
        self.entries: list[Entry] = []

    @property
    def offset(self) -> int:
        """Where the next entry goes."""
        return len(self.entries)

    def sound(self, count: int) -> None:
        self.entries += self.log.files(count)

    def add_void(self, reason: str, key: bytes | None, value: bytes | None) -> None:
        self.void[reason] += 1
        self.log.totals["entries"] += 1
        self.entries.append((key, value))

    def add_unreadable(self, value: bytes | None) -> None:
        self.quarantined.append(self.offset)
        self.log.totals["entries"] += 1
        if value is not None and value.startswith(UNKNOWN_SCHEMA):
            self.findings.append(("replica-stops", self.offset))
        else:
            self.findings.append(("undecodable-entry", self.offset))
            self.void["contradiction"] += 1
        self.entries.append((self.log.key(), value))

    def add_violation(self, rule: str, change: Callable[[FileCommitted], FileCommitted]) -> None:
        """A file that contradicts the log, and is void; it is the last one."""
        before = Counter(self.log.totals)
        ((key, value),) = self.log.files(1)
        self.log.totals.clear()
        self.log.totals.update(before, entries=1)
        self.void["contradiction"] += 1
        assert value is not None
        (record,) = decode_entry(value)
        assert isinstance(record, FileCommitted)
        self.findings.append((rule, self.offset))
        self.entries.append((key, encode_entry([change(record)], LEVEL)))


def _shift_first_run(by: int) -> Callable[[FileCommitted], FileCommitted]:
    def shift(record: FileCommitted) -> FileCommitted:
        where = record.batches[0][:2]
        batches = [one._replace(base_offset=one.base_offset + by) if one[:2] == where else one for one in record.batches]
        return replace(record, batches=batches)

    return shift


def _make_hostile(log: MadePartition) -> Hostile:
    made = Hostile(log)
    made.entries += log.beginning()
    made.sound(50)
    sound = made.entries[-1][1]
    assert sound is not None
    term, epoch = log.term, log.epoch
    made.add_void("foreign", None, sound)
    made.add_void("foreign", b"stray", sound)
    made.add_void("stale", encode_key(EntryKey(epoch, term + 1, 9)), sound)
    made.add_void("stale", encode_key(EntryKey(0, term + 1, 1)), None)
    made.findings.append(("void-carries-live-term", made.offset))
    made.add_void("duplicate", encode_key(EntryKey(epoch, term, log.seq)), sound)
    made.findings.append(("void-carries-live-term", made.offset))
    made.add_void("gap", encode_key(EntryKey(epoch, term, log.seq + 5)), sound)
    made.sound(20)
    for junk in (b"", b"\xc3\x01", UNKNOWN_SCHEMA + b"abc", sound[:200], sound + b"\0", sound[:10] + os.urandom(300), None):
        made.add_unreadable(junk)
        made.sound(5)
    # An array of 2^30 items in a few bytes, which kills decoders that believe it.
    made.add_unreadable(sound[:10] + b"\x80\x80\x80\x80\x08\x00")
    made.add_violation("offset-gap", _shift_first_run(1000))
    return made


@pytest.mark.long
def test_hostile_entries_are_counted_quarantined_and_found_while_the_job_goes_on(
    bootstrap: str, unique_name: Callable[[str], str], data_folder: Path
) -> None:
    producer = LogProducer(bootstrap, unique_name("metadata"))
    producer.create_topic(2)
    log = MadeLog.of(2, 10)
    hostile = _make_hostile(log.partitions[0])
    beginning = log.partitions[1].beginning()
    with MonitorProcess(bootstrap, producer.topic, data_folder) as monitor:
        monitor.start_ready(*FAST)
        producer.write((1, entry) for entry in beginning)
        for start in range(0, len(hostile.entries), 40):  # over several micro-batches
            producer.write((0, entry) for entry in hostile.entries[start : start + 40])
            producer.flush()
            monitor.wait_total("entries", producer.written)
        producer.write((1, entry) for entry in log.partitions[1].files(30))
        producer.flush()
        monitor.wait_total("entries", producer.written)
        assert not monitor.has_ended(), monitor.said()
        for name, value in log.totals.items():
            assert monitor.total(name) == value, name
        assert {reason: monitor.total(f"void.{reason}") for reason in hostile.void} == dict(hostile.void)
        assert monitor.total("quarantined") == len(hostile.quarantined)
        with open_report(monitor.folder) as report:
            rows = report.quarantine(100)
            findings = report.findings(100)
        assert sorted((row["kpart"], row["entry_offset"]) for row in rows) == [(0, offset) for offset in hostile.quarantined]
        assert sorted((row["rule"], row["entry_offset"]) for row in findings) == sorted(hostile.findings)
        assert {row["kpart"] for row in findings} == {0}
        assert monitor.terminate() == 0, monitor.said()
        _check_commands(monitor, hostile)


def _check_commands(monitor: MonitorProcess, hostile: Hostile) -> None:
    status = run("monitor", "status", "--dir", str(monitor.folder))
    assert status.returncode == 5
    listed = run("monitor", "findings", "list", "--dir", str(monitor.folder), "-o", "json", "--rule", "offset-gap")
    assert listed.returncode == 5
    assert [(row["partition"], row["offset"]) for row in json.loads(listed.stdout)] == [(0, hostile.findings[-1][1])]
    quarantined = run("monitor", "quarantine", "--dir", str(monitor.folder), "-o", "json")
    assert quarantined.returncode == 0
    assert len(json.loads(quarantined.stdout)) == len(hostile.quarantined)
    assert run("monitor", "status", "--dir", str(monitor.folder.parent / "nothing")).returncode == 3


# ---- a log that nobody writes


@pytest.mark.long
def test_workers_are_kept_while_there_is_nothing_to_read(bootstrap: str, unique_name: Callable[[str], str], data_folder: Path) -> None:
    producer = LogProducer(bootstrap, unique_name("metadata"))
    producer.create_topic(1)
    log = MadeLog.of(1, 10)
    with MonitorProcess(bootstrap, producer.topic, data_folder) as monitor:
        monitor.start_ready(*FAST)
        producer.write(log.beginning())
        producer.flush()
        monitor.wait_total("entries", producer.written)
        workers, read_s = monitor.workers(), time.monotonic()
        wait_until(lambda: time.monotonic() > read_s + SPARK_KEEPS_S + 15, "Spark to end workers that are not used", SPARK_KEEPS_S * 2)
        producer.write(log.files(1))
        producer.flush()
        monitor.wait_total("entries", producer.written)
        assert monitor.workers()[: len(workers)] == workers


# ---- a log that is not there any more


@pytest.mark.long
def test_a_pruned_log_is_one_finding_per_partition_and_a_replaced_topic_ends_the_job(
    bootstrap: str, unique_name: Callable[[str], str], data_folder: Path
) -> None:
    producer = LogProducer(bootstrap, unique_name("metadata"))
    log = MadeLog.of(3, 10)
    producer.create_topic(3)
    producer.write(log.beginning())
    producer.write(log.files(300))
    producer.flush()
    with MonitorProcess(bootstrap, producer.topic, data_folder) as monitor:
        monitor.run_once()
        before = log.totals
        assert {name: monitor.total(name) for name in before} == dict(before)

        # Two partitions lose entries that were never read; of the third, only what was merged goes.
        producer.write(log.files(300))
        producer.flush()
        producer.prune({0: 106 + 40, 1: 106 + 1, 2: 50})
        lost = {0: 40, 1: 1}
        monitor.start_ready(*FAST)
        at_least = log.totals["entries"] - sum(lost.values())
        monitor.wait_total("entries", at_least)
        producer.write(log.files(30))
        producer.flush()
        monitor.wait_total("entries", at_least + 30)
        with open_report(monitor.folder) as report:
            found = sorted((row["kpart"], row["rule"], row["expected"], row["found"]) for row in report.findings(100))
        assert found == [(0, "log-lost", 106, 146), (1, "log-lost", 106, 107)]
        assert monitor.total("entries") == log.totals["entries"] - sum(lost.values())
        assert monitor.total("batches") == log.totals["batches"] - 10 * sum(lost.values())

        # Created anew while the job runs, with more entries than there were.
        producer.delete_topic()
        producer.create_topic(3)
        assert monitor.wait_ended(REPLACED_MAX_S) == 3, monitor.said()
        message = monitor.ended_with_one_message()
        assert "created anew" in message or "does not exist any more" in message
        monitor.start()
        assert monitor.wait_ended(START_TIMEOUT_S) == 3
        assert "the topic was deleted and created anew" in monitor.ended_with_one_message()
        assert monitor.total("entries") == at_least + 30, "what was merged stays"

        # Deleted for good.
        producer.delete_topic()
        monitor.start()
        assert monitor.wait_ended(START_TIMEOUT_S) == 3
        assert "does not exist" in monitor.ended_with_one_message()
