"""`diskless tables export` of a real topic: every record is in the table once, however often and wherever the export is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from cli.dev.kafka import Kafka
from cli.outcome import Exit
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from coordinator.kafka.names import topic_id_text
from integration_tests.s3 import RealS3
from integration_tests.service import Service
from integration_tests.tables.exported import PARTITIONS, TopicUnderExport
from integration_tests.waiting import wait_until


def kill_one(topic: TopicUnderExport, rng: random.Random, version: int) -> None:
    """Start an export, and kill it a moment after the table has a version."""
    is_waiting = topic.version() < version
    process = topic.start("--every", "1s", "--commit-mib", "1", *(["--maintain"] if rng.random() < 0.1 else []))
    wait_until(lambda: topic.version() >= version or process.poll() is not None, "commits")
    with suppress(subprocess.TimeoutExpired):
        process.wait(rng.random() * (0.1 if is_waiting else 3.0))
    assert process.poll() is None, topic.said()
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)


def kill_again_and_again(topic: TopicUnderExport, kills: int, rng: random.Random) -> None:
    """Kill exports at random moments of their start, of commits and between them, while records come."""
    topic.create()
    topic.once()
    commits = 0
    for _ in range(kills):
        topic.write(rng, 8, 128 * 1024)  # three commits of 1 MiB each
        begun = topic.version()
        kill_one(topic, rng, begun + rng.randint(0, 3))
        commits += topic.version() - begun
    assert commits >= kills, "the exports were killed before they did anything"
    topic.write(rng, 3)
    topic.once("--maintain")
    topic.check()


def test_killed_at_random_moments_the_table_has_each_record_once(topic: TopicUnderExport) -> None:
    kill_again_and_again(topic, 8, random.Random(35))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_two_hundred_times_the_table_has_each_record_once(topic: TopicUnderExport) -> None:
    kill_again_and_again(topic, 200, random.Random(200))


def test_of_two_exports_one_ends_with_a_sentence(topic: TopicUnderExport) -> None:
    rng = random.Random(2)
    topic.create()
    topic.write(rng, 5)
    topic.once()
    both = [topic.start("--every", "1s") for _ in range(2)]

    def has_one_ended() -> bool:
        topic.write(rng, 2)
        return any(process.poll() is not None for process in both)

    wait_until(has_one_ended, "one of two exports to end")
    [ended] = [process for process in both if process.poll() is not None]
    [left] = [process for process in both if process is not ended]
    assert ended.wait() == Exit.FAILURE
    assert "stop one of" in topic.said()
    wait_until(lambda: topic.table().to_pyarrow_table(columns=["offset"]).num_rows == sum(map(len, topic.values)), "all rows")
    os.kill(left.pid, signal.SIGTERM)
    assert left.wait(60) == Exit.OK, topic.said()
    topic.check()


def test_status_metrics_and_a_signal(topic: TopicUnderExport) -> None:
    assert topic.run("export", "--once").returncode == Exit.NOT_FOUND
    topic.create(**{"retention.ms": "86400000"})
    missing = topic.run("status")
    assert missing.returncode == Exit.NOT_FOUND
    assert "is no table; `diskless tables export` makes it" in missing.stderr
    topic.write(random.Random(3), 4)
    process = topic.start("--every", "1s", "--metrics-port", "0")
    wait_until(lambda: topic.version() >= 1, "a commit")
    [line] = [line for line in topic.said().splitlines() if line.startswith(f"exporting topic={topic.name} to=delta:")]

    def metrics() -> str:
        return str(urllib.request.urlopen(line.partition("metrics=")[2], timeout=30).read().decode())

    wait_until(lambda: f'diskless_export_rows_total{{topic="{topic.name}"}} 12.0' in metrics(), "the metrics to tell of the commit")
    assert f'diskless_export_lag_records{{partition="2",topic="{topic.name}"}} 0.0' in metrics()
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(60) == Exit.OK, topic.said()
    topic.write(random.Random(4), 6, timeless=1)
    found = json.loads(topic.run("status", "-o", "json").stdout)
    assert [(one["partition"], one["next_offset"], one["log_end_offset"], one["lag"], one["lost"]) for one in found] == [
        (partition, 4, 10, 6, 0) for partition in range(PARTITIONS)
    ]
    assert all(23 < one["hours_left"] <= 24 for one in found)
    topic.once()
    assert [one["hours_left"] for one in json.loads(topic.run("status", "-o", "json").stdout)] == [None] * PARTITIONS
    topic.check()


def test_what_retention_deleted_is_said_and_may_be_left_out(topic: TopicUnderExport) -> None:
    topic.create()
    topic.write(random.Random(5), 4)
    topic.once()
    topic.write(random.Random(6), 4)
    topic.asked(lambda client: delete_records(client, topic.name, 6))
    status = topic.run("status")
    assert status.returncode == Exit.AUDIT
    assert "2 records were deleted before they were exported" in status.stderr
    ended = topic.run("export", "--every", "1s")
    assert ended.returncode == Exit.FAILURE
    assert "2 records of partition 1, offsets 4 to 5, were deleted before they were exported" in ended.stderr
    topic.once("--on-data-loss", "continue")
    rows = topic.table().to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    assert sorted(row["offset"] for row in rows if row["partition"] == 1) == [0, 1, 2, 3, 6, 7]
    assert len(rows) == 3 * 8 - 2


async def delete_records(client: DisklessClient, name: str, before: int) -> None:
    topic = await client.describe_topic(name)
    [deleted] = await client.admin.delete_records([(PartitionId(topic.topic_id, 1), before)])
    deleted.raise_for_error()


def test_a_topic_that_is_deleted_and_made_anew_is_refused_by_its_id(topic: TopicUnderExport) -> None:
    topic.create()
    topic.write(random.Random(7), 4)
    process = topic.start("--every", "1s")
    wait_until(lambda: topic.version() >= 1, "a commit")
    first = topic.asked(lambda client: client.describe_topic(topic.name))
    topic.asked(lambda client: client.admin.delete_topic(topic.name))
    assert process.wait(60) == Exit.NOT_FOUND, topic.said()
    topic.create()
    refused = topic.run("export", "--once")
    assert refused.returncode == Exit.NOT_FOUND
    assert f"with topic id {topic_id_text(first.topic_id)}" in refused.stderr
    assert "was the topic recreated?" in refused.stderr


def test_iceberg_holds_the_same_and_duckdb_reads_both(topic: TopicUnderExport, tmp_path: Path) -> None:
    rng = random.Random(8)
    topic.create()
    topic.write(rng, 5)
    topic.once()
    iceberg = replace(topic, to=f"iceberg:lake.shop.{topic.name.replace('-', '_')}")
    iceberg.environment = {
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{tmp_path}/catalog.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{tmp_path}/warehouse",
    }
    iceberg.once("--maintain")
    topic.write(rng, 5)
    for one in (topic, iceberg):
        one.once()
    catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    table = catalog.load_table(iceberg.to.removeprefix("iceberg:lake.")).scan().to_arrow()
    columns = 'partition, "offset", value, timestamp, coalesce(headers, []) AS headers, date'
    copied = duckdb.from_arrow(table).project(columns).order('partition, "offset"').fetchall()
    assert copied == duckdb.from_arrow(topic.table().to_pyarrow_dataset()).project(columns).order('partition, "offset"').fetchall()
    assert len(copied) == 30
    topic.check()
    status = json.loads(iceberg.run("status", "-o", "json").stdout)
    assert [one["next_offset"] for one in status] == [10] * PARTITIONS


def test_records_and_table_on_s3_with_credentials_of_the_environment(
    kafka: Kafka, s3: RealS3, data_folder: Path, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    options = {f"object.store.option.{name.replace('_', '.')}": value for name, value in s3.options().items()}
    with Service(kafka.bootstrap, data_folder, partitions=1, properties={"object.store.url": s3.url("wal"), **options}) as service:
        service.start(1)
        given = s3.options()
        environment = {
            "AWS_ACCESS_KEY_ID": given["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": given["secret_access_key"],
            "AWS_ENDPOINT_URL": given["endpoint"],
            "AWS_REGION": given["region"],
            "AWS_ALLOW_HTTP": "true",
        }
        topic = TopicUnderExport(service, unique_name("orders"), f"delta:{s3.url('lake')}", tmp_path / "output.log", environment)
        topic.create()
        topic.write(random.Random(9), 5)
        topic.once()
        topic.write(random.Random(10), 5)
        first, second = topic.start("--every", "1s"), topic.start("--every", "1s")
        try:

            def has_one_ended() -> bool:
                topic.write(random.Random(11), 1)
                return first.poll() is not None or second.poll() is not None

            wait_until(has_one_ended, "one of two exports to end")
        finally:
            topic.end()
        topic.once()
        storage = {name.lower(): value for name, value in environment.items()}
        rows = DeltaTable(s3.url("lake"), storage_options=storage).to_pyarrow_table()
        assert rows.num_rows == sum(map(len, topic.values))
        assert given["secret_access_key"] not in topic.said()
