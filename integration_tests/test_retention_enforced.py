"""Retention by time and by size on a real broker: batches go, log starts only grow, also when leaders are killed; what stays is told."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli.dev.kafka import Kafka
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId, TopicDescription
from coordinator.client.records.ulid import new_ulid
from coordinator.kafka.timestamps import EARLIEST, LATEST
from integration_tests.commands import run
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from tests.commit_batches import commit_batch

pytestmark = pytest.mark.timeout(300)

KEY = "log.retention.check.interval.ms"
SIZE = 100
PARTITIONS = 8


@contextmanager
def service_of(kafka: Kafka, folder: Path, interval_ms: int) -> Iterator[Service]:
    """Two nodes that share four coordinators and look for old batches this often."""
    with Service(kafka.bootstrap, folder, partitions=4, properties={"session.timeout.ms": "6000", KEY: str(interval_ms)}) as service:
        for node_id in (1, 2):
            service.add(node_id).start()
        service.wait_shared()
        yield service


def alter(service: Service, topic: str, *words: str) -> None:
    """Change settings of a topic."""
    run(service, "topics", "alter", topic, *words, output=False)


async def _commit(client: DisklessClient, topic: TopicDescription, ages_ms: list[int]) -> None:
    now_ms = time.time_ns() // 1_000_000
    places = [(one.partition, age_ms) for one in topic.partitions for age_ms in ages_ms]
    batches = [
        commit_batch(topic.topic_id, partition, at=SIZE * place, size=SIZE, timestamp_ms=now_ms - age_ms)
        for place, (partition, age_ms) in enumerate(places)
    ]
    key = f"wal/{new_ulid(now_ms, os.urandom(10))}"
    (await client.commit_file(key, SIZE * len(batches), batches)).raise_for_errors()


def commit(service: Service, topic: str, *ages_ms: int) -> None:
    """A file with a batch of one record for each of these ages, in each partition."""

    async def work() -> None:
        async with DisklessClient(service.addresses) as client:
            await _commit(client, await client.describe_topic(topic), list(ages_ms))

    asyncio.run(work())


def bounds(service: Service, topic: str) -> list[tuple[int, int]]:
    """Log start and high watermark of each partition, as the leaders say."""

    async def work() -> list[tuple[int, int]]:
        async with DisklessClient(service.addresses) as client:
            described = await client.describe_topic(topic)
            ids = [PartitionId(described.topic_id, one.partition) for one in described.partitions]
            starts = await client.list_offsets([(one, EARLIEST) for one in ids])
            ends = await client.list_offsets([(one, LATEST) for one in ids])
            for one in (*starts, *ends):
                one.raise_for_error()
            return [(start.offset, end.offset) for start, end in zip(starts, ends, strict=True)]

    return asyncio.run(work())


class Watched:
    """A topic whose log starts are seen to grow only."""

    def __init__(self, service: Service, topic: str) -> None:
        self._service = service
        self._topic = topic
        self._starts = [0] * PARTITIONS

    def reaches(self, start: int, end: int) -> bool:
        """Whether every partition begins and ends there."""
        found = bounds(self._service, self._topic)
        starts = [one for one, _ in found]
        assert all(before <= now for before, now in zip(self._starts, starts, strict=True)), (self._starts, starts)
        assert all(now <= start for now in starts), starts
        self._starts = starts
        return found == [(start, end)] * PARTITIONS

    def wait(self, start: int, end: int) -> None:
        wait_until(lambda: self.reaches(start, end), f"every partition to hold [{start}, {end})")


def deleted(service: Service) -> int:
    """Batches that the nodes which run have deleted by retention."""
    nodes = [one for one in service.nodes.values() if one.is_serving()]
    return int(sum(one.metric("retention_deleted_batches_total") for one in nodes))


def test_old_and_large_partitions_lose_their_beginning_whoever_leads(kafka: Kafka, tmp_path: Path) -> None:
    with service_of(kafka, tmp_path, 200) as service:
        run(service, "topics", "create", "orders", "--partitions", str(PARTITIONS), "--config", "retention.ms=600000")
        watched = Watched(service, "orders")
        commit(service, "orders", 900_000, 800_000, 100_000, 900_000)
        watched.wait(2, 4)
        wait_until(lambda: deleted(service) == 2 * PARTITIONS, "the deleted batches to be counted")

        # Altered while it runs: by size, the young batch in front does not keep those behind it.
        alter(service, "orders", "--config", f"retention.bytes={SIZE}")
        commit(service, "orders", 5)
        watched.wait(4, 5)
        alter(service, "orders", "--config", f"retention.bytes={10 * SIZE}", "--delete-config", "retention.ms")
        commit(service, "orders", *[5] * 15)
        watched.wait(10, 20)

        # The leader of half of the coordinators is killed; the other node takes over and goes on.
        service.nodes[2].kill()
        commit(service, "orders", *[5] * 3)
        watched.wait(13, 23)
        service.nodes[2].start()
        alter(service, "orders", "--config", "retention.bytes=-1", "--config", "retention.ms=3600000")
        commit(service, "orders", *[5] * 20)
        watched.wait(13, 43)
        described = run(service, "topics", "describe", "orders")
        assert {one["settings"] for one in described} == {"retention.bytes=-1,retention.ms=3600000"}


def test_retention_on_demand_tells_what_goes(kafka: Kafka, tmp_path: Path) -> None:
    with service_of(kafka, tmp_path, 3_600_000) as service:
        for topic in ("quiet", "loud"):
            run(service, "topics", "create", topic, "--partitions", str(PARTITIONS))
            commit(service, topic, 900_000, 5)
        assert run(service, "retention", "enforce") == []
        for topic in ("quiet", "loud"):
            alter(service, topic, "--config", "retention.ms=600000")
        dry_run = ("retention", "enforce", "--dry-run")
        # A node knows a setting as soon as it has read it in the directory's log.
        wait_until(lambda: len(run(service, *dry_run)) == 2 * PARTITIONS, "settings known to both nodes")
        rows = run(service, *dry_run, "quiet")
        assert [(row["topic"], row["partition"], row["log_start_offset"], row["new_log_start_offset"]) for row in rows] == [
            ("quiet", partition, 0, 1) for partition in range(PARTITIONS)
        ]
        assert all((row["batches"], row["size"]) == (1, SIZE) for row in rows)
        assert bounds(service, "quiet") == [(0, 2)] * PARTITIONS
        assert run(service, "retention", "enforce", "quiet") == rows
        assert bounds(service, "quiet") == [(1, 2)] * PARTITIONS
        assert bounds(service, "loud") == [(0, 2)] * PARTITIONS
        assert {row["topic"] for row in run(service, "retention", "enforce")} == {"loud"}
        assert deleted(service) == 2 * PARTITIONS


def test_a_partition_that_a_time_in_the_future_keeps_is_named_until_it_is_freed(kafka: Kafka, tmp_path: Path) -> None:
    with service_of(kafka, tmp_path, 200) as service:
        run(service, "topics", "create", "orders", "--partitions", str(PARTITIONS), "--config", "retention.ms=600000")
        # The batch in front goes, that of the year 5138 stays, and the old one behind it.
        commit(service, "orders", 3_600_000, -100_000_000_000_000, 3_600_000)
        wait_until(lambda: bounds(service, "orders") == [(1, 3)] * PARTITIONS, "the first batch to go")
        said = run(service, "retention", "enforce", "orders", output=False)
        assert "orders-3: the first batch has the timestamp 5" in said
        assert "diskless records delete orders 3 --before-offset 2" in said
        warned = [one["finding"] for one in run(service, "doctor") if one["check"] == "retention"]
        assert len(warned) == PARTITIONS
        wait_until(lambda: held(service) == PARTITIONS, "the partitions to be counted")
        for partition in range(PARTITIONS):
            run(service, "records", "delete", "orders", str(partition), "--before-offset", "2", "--yes", output=False)
        wait_until(lambda: bounds(service, "orders") == [(3, 3)] * PARTITIONS, "the batches behind to go")
        wait_until(lambda: held(service) == 0, "nothing to be counted")
        assert [one["health"] for one in run(service, "doctor") if one["check"] == "retention"] == ["ok"]


def held(service: Service) -> int:
    """Partitions that timestamps keep from retention, as the leaders count them."""
    return int(sum(one.metric("retention_held_partitions") for one in service.nodes.values()))
