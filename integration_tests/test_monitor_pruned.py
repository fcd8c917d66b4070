"""The monitor's jobs on a real service that has deleted the beginning of its log behind snapshots: they begin with one of those."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from coordinator.kafka.names import topic_id_text
from integration_tests.final_state import log_starts
from integration_tests.monitor_process import MonitorProcess
from integration_tests.service import Service
from integration_tests.test_monitor_verify import diskless, verify
from integration_tests.test_semantics_restart import note
from integration_tests.test_snapshots import OFTEN, PARTITIONS, wait_pruned
from integration_tests.waiting import wait_until
from spark_jobs.monitor.report import open_report

pytestmark = pytest.mark.timeout(600)  # Spark starts in it, on machines that may be busy

WITHOUT_A_CLOCK = {**OFTEN, "metadata.log.max.snapshot.interval.ms": "0"}
"""Snapshots are taken by the bytes of the log alone, so nothing is pruned while nothing is committed."""


@pytest.fixture(scope="module")
def pruned(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a past, every log of which begins behind a snapshot."""
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("pruned"), partitions=PARTITIONS, properties=WITHOUT_A_CLOCK) as service:
        service.start(1)
        history, _ = asyncio.run(note(service))
        wait_pruned(service, history.topics[1], [0] * PARTITIONS)
        yield service


def states(service: Service) -> list[Path]:
    """The state databases of its node."""
    return sorted(service.nodes[1].data_folder.glob("partition-*.db"))


def live_files(service: Service) -> set[str]:
    """The files that have live batches, as its node wrote them."""
    found: set[str] = set()
    for path in states(service):
        with closing(sqlite3.connect(path)) as connection:
            found |= {key for (key,) in connection.execute("SELECT object_key FROM file WHERE live_batches > 0")}
    return found


def live_offsets(service: Service) -> dict[tuple[bytes, int], tuple[int, int]]:
    """Log start and high watermark of every user partition, as its node wrote them."""
    found: dict[tuple[bytes, int], tuple[int, int]] = {}
    for path in states(service):
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT topic_id, partition, log_start, high_watermark FROM partition WHERE NOT is_dead")
            found |= {(topic_id, partition): (start, end) for topic_id, partition, start, end in rows}
    return found


@pytest.mark.long  # tests/spark/test_verify_from_snapshot.py has the same in one process
def test_log_and_service_agree_from_a_snapshot_on(pruned: Service) -> None:
    store = f"file://{pruned.folder / 'objects'}"
    asked = ["--bootstrap-server", ",".join(pruned.addresses), *(f"--state={path}" for path in states(pruned)), "-o", "json"]
    compared = verify(pruned, *asked, "--object-store-url", store)
    assert compared.status == Exit.OK, compared.out + compared.err
    assert len(compared.partitions) == 2 * PARTITIONS
    starts = log_starts(pruned.bootstrap, pruned.topic)
    for one in compared.partitions:
        assert one["agree"] is True
        assert int(str(one["begin"])) >= starts[int(str(one["kpart"]))] > 0
    assert "from snapshots on" in compared.err


@pytest.mark.long
def test_live_files_without_an_object_are_named(pruned: Service, tmp_path: Path) -> None:
    wait_until(lambda: len(live_files(pruned)) > 3, "files to be written")
    *here, lost = sorted(live_files(pruned))
    for key in [*here, "wal/never-committed"]:
        place = tmp_path / "bucket" / key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"x")
        os.utime(place, (1, 1))
    with MonitorProcess(pruned.bootstrap, pruned.topic, tmp_path) as monitor:
        monitor.run_once("--object-store-url", f"file://{pruned.folder / 'objects'}")
        where = ["--bootstrap-server", ",".join(pruned.addresses), "--object-store-url", f"file://{tmp_path / 'bucket'}"]
        found = diskless("restore", "report", *where, "--dir", str(monitor.folder), "-o", "json")
        assert found.status == Exit.AUDIT, found.out + found.err
        with open_report(monitor.folder) as report:
            kept = json.loads(report.job()["last_objects"])
    told = {(row["finding"], row["object_key"]) for row in json.loads(found.out) if row["finding"] != "partly known"}
    assert told >= {("missing", lost), ("unknown", "wal/never-committed")}
    assert (kept["missing_files"], [one["object_key"] for one in kept["missing"]]) == (1, [lost])


@pytest.mark.long
def test_a_fresh_monitor_begins_with_snapshots_and_says_so(pruned: Service) -> None:
    before = log_starts(pruned.bootstrap, pruned.topic)
    with MonitorProcess(pruned.bootstrap, pruned.topic, pruned.folder) as monitor:
        monitor.run_once("--object-store-url", f"file://{pruned.folder / 'objects'}")
        with open_report(monitor.folder) as report:
            assert report.findings(100) == []
            begins = [int(str(row["from_offset"])) for row in report.heads()]
            files = {str(row["object_key"]) for row in report.connection.execute("SELECT object_key FROM file WHERE state = 'live'")}
            notes = [str(row["text"]) for row in report.connection.execute("SELECT text FROM note")]
        assert all(begin >= start > 0 for begin, start in zip(begins, before, strict=True))
        # The term is known from the snapshot, and so are files that were committed before it.
        assert len(notes) == PARTITIONS
        assert all("a snapshot says what was left before it" in note for note in notes)
        assert files == live_files(pruned)
        status = diskless("monitor", "status", "--dir", monitor.folder, "-o", "json")
        assert status.outcome["holds_from"] == {str(kpart): begin for kpart, begin in enumerate(begins)}
        assert "leader" not in json.dumps(status.outcome)


@pytest.mark.long
def test_an_archive_of_a_pruned_log_has_every_live_record_once(pruned: Service, tmp_path: Path) -> None:
    store, table = f"file://{pruned.folder / 'objects'}", tmp_path / "archive"
    where = ["--kafka-bootstrap-server", pruned.bootstrap, "--metadata-topic", pruned.topic, "--object-store-url", store]
    done = diskless("monitor", "archive", "--once", "--to", table, *where)
    assert done.status == Exit.OK, done.err
    assert "what lives of the files is from a snapshot" in done.err
    offsets: dict[tuple[str, int], list[int]] = {}
    columns = ["record", "verdict", "topic_id", "partition", "base_offset", "next_offset"]
    for row in DeltaTable(table).to_pyarrow_table(columns=columns).to_pylist():
        if (row["record"], row["verdict"]) == ("FileCommitted", "applied"):
            name = (row["topic_id"], row["partition"])
            offsets.setdefault(name, []).extend(range(row["base_offset"], row["next_offset"]))
    bounds = live_offsets(pruned)
    assert len(bounds) > 6
    for (topic_id, partition), (start, end) in bounds.items():
        known = sorted(offset for offset in offsets.get((topic_id_text(topic_id), partition), []) if offset >= start)
        assert known == list(range(start, end)), (topic_id, partition)
