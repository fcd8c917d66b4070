"""Partitions move between coordinators of real nodes that are killed, while records are written and read: each is there once, in order."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Self, TypeAlias

import pytest
from confluent_kafka import Consumer, TopicPartition

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from coordinator.client import DisklessClient, Record, open_store
from coordinator.client.records.writing import WriteRefused, WriteUndecided
from coordinator.kafka.errors import ErrorCode
from integration_tests import commands
from integration_tests.service import Service
from integration_tests.waiting import WAIT_S, wait_until
from records.codec import decode_entry
from records.model import PartitionAdopted, PartitionMoved, PartitionMoving, PartitionReleased

COORDINATORS = 4
MOVED = "moved"
Step: TypeAlias = PartitionMoving | PartitionReleased | PartitionAdopted | PartitionMoved
ROUNDS = COORDINATORS - 1
"""A partition has been in each coordinator then."""


@pytest.fixture
def service(kafka: Kafka, data_folder: Path) -> Iterator[Service]:
    with Service(kafka.bootstrap, data_folder, partitions=COORDINATORS) as made:
        yield made.start(3)


class Writing:
    """Writes numbered records to every partition until it is told to end; `slowest_s` is the longest that a write took."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._is_over = threading.Event()
        self.written = [0] * COORDINATORS
        self.slowest_s = 0.0

    def end(self) -> None:
        self._is_over.set()

    async def run(self) -> None:
        """Raises what a write raises, unless that is decided by a repetition."""
        async with self._client() as client:
            await asyncio.gather(*(self._write(client, partition) for partition in range(COORDINATORS)))

    def _client(self) -> DisklessClient:
        return DisklessClient(self._service.addresses, object_store=open_store(self._service.properties["object.store.url"]))

    async def _write(self, client: DisklessClient, partition: int) -> None:
        while not self._is_over.is_set():
            began_s = time.monotonic()
            try:
                await client.write({(MOVED, partition): [Record(value=b"%d" % self.written[partition])]}, timeout_ms=60_000)
            except WriteUndecided as undecided:
                if not await self._decide(client, undecided):
                    continue
            self.written[partition] += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)

    @staticmethod
    async def _decide(client: DisklessClient, undecided: WriteUndecided) -> bool:
        """Learn whether records were written. Raises what a write raises, other than that the partition has moved."""
        while True:
            try:
                await client.commit_uploaded(undecided.uploaded, timeout_ms=60_000)
                return True
            except WriteUndecided:
                continue
            except WriteRefused as refused:
                if refused.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    raise
                return False

    async def read(self, partition: int) -> list[int]:
        async with self._client() as client:
            return [int(one.value or b"") async for one in client.read(MOVED, partition, offset=0)]

    def check(self) -> None:
        """What was written is there, once and in order."""
        print(f"records {self.written}, slowest write {self.slowest_s:.3f} s")
        for partition in range(COORDINATORS):
            assert asyncio.run(self.read(partition)) == list(range(self.written[partition]))


def _move(service: Service, partition: str, to: str) -> None:
    commands.run(service, "partitions", "move", partition, "--to", to, "--timeout", "60")


class Steps:
    """Sees the entries of the metadata topic as they come, from when it is made on."""

    def __init__(self, service: Service) -> None:
        settings = {"bootstrap.servers": service.bootstrap, "group.id": "looks only", "fetch.wait.max.ms": 5, "log_level": 0}
        self._consumer = Consumer(settings)
        places = [TopicPartition(service.topic, one) for one in range(COORDINATORS)]
        for place in places:
            _, place.offset = self._consumer.get_watermark_offsets(place, WAIT_S)
        self._consumer.assign(places)

    def wait_for(self, step: type[Step], partition: int) -> None:
        """Return as soon as a step of the move of a partition is in the log."""

        def is_there() -> bool:
            message = self._consumer.poll(0.5)
            records = [] if message is None or message.error() else decode_entry(message.value() or b"")
            return any(isinstance(one, step) and one.partition == partition for one in records)

        wait_until(is_there, f"{step.__name__} of partition {partition}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def _leader(service: Service, coordinator: int) -> CoordinatorProcess:
    """The node that leads a coordinator."""

    def leading() -> list[CoordinatorProcess]:
        return [node for node in service.nodes.values() if coordinator in node.readiness()[1]["leading"]]  # type: ignore[operator]

    wait_until(lambda: len(leading()) == 1, f"a leader of coordinator {coordinator}", excused=OSError)
    return leading()[0]


@pytest.mark.long
def test_each_record_is_there_once_whoever_is_killed_at_a_step_of_a_move(service: Service) -> None:
    commands.run(service, "topics", "create", MOVED, "--partitions", str(COORDINATORS), output=False)
    table = list(product((PartitionMoving, PartitionReleased, PartitionAdopted, PartitionMoved), ("from", "to", "directory")))
    writing = Writing(service)
    with ThreadPoolExecutor(2) as pool:
        work = pool.submit(lambda: asyncio.run(writing.run()))
        try:
            wait_until(lambda: min(writing.written) > 3 or work.done(), "records")
            for number, (step, victim) in enumerate(table):
                partition = number % COORDINATORS
                at = commands.run(service, "topics", "describe", MOVED)[partition]["coordinator"]
                to = (at + 1) % COORDINATORS
                killed = _leader(service, {"from": at, "to": to, "directory": 0}[victim])
                with Steps(service) as steps:
                    moving = pool.submit(_move, service, f"{MOVED}:{partition}", str(to))
                    steps.wait_for(step, partition)
                    killed.kill()
                killed.start()
                moving.result(120)
                assert commands.run(service, "topics", "describe", MOVED)[partition]["coordinator"] == to
                _wait_for_records(service, writing, work)
        finally:
            writing.end()
        work.result(120)
    writing.check()


def _wait_for_records(service: Service, writing: Writing, work: Future[None]) -> None:
    """Wait until all nodes are ready, and every partition has got more records."""
    wait_until(lambda: all(one.readiness()[0] for one in service.nodes.values()), "all nodes", excused=OSError)
    now = list(writing.written)
    wait_until(
        lambda: all(one > before for one, before in zip(writing.written, now, strict=True)) or work.done(), f"more records than {now}"
    )


@pytest.mark.long
def test_each_record_is_there_once_whatever_is_killed_while_partitions_move(service: Service) -> None:
    commands.run(service, "topics", "create", MOVED, "--partitions", str(COORDINATORS), output=False)
    rng, writing = random.Random(7), Writing(service)
    with ThreadPoolExecutor(2) as pool:
        work = pool.submit(lambda: asyncio.run(writing.run()))
        try:
            wait_until(lambda: min(writing.written) > 3 or work.done(), "records")
            for number in range(ROUNDS):
                where = {row["partition"]: row["coordinator"] for row in commands.run(service, "topics", "describe", MOVED)}
                for partition, coordinator in where.items():
                    to = str((coordinator + 1) % COORDINATORS)
                    moving = pool.submit(_move, service, f"{MOVED}:{partition}", to)
                    if number:
                        killed = service.nodes[rng.randint(1, 3)]
                        killed.kill()
                        killed.start()
                    moving.result(120)
                _wait_for_records(service, writing, work)
        finally:
            writing.end()
        work.result(120)
    writing.check()
