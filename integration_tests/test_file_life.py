"""The life of files on real parts: every object goes when the last batch in it is gone, and none before a reader may still want it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cli.dev.kafka import Kafka
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import holds_within, wait_until
from integration_tests.wire import OFFSET_OUT_OF_RANGE, OK, Batch, Topic, connected, file
from tests.objectstore.hostile_s3 import Break, HostileS3

COORDINATORS = 8
PARTITIONS = 32
FILES = 300
MANY_FILES = 10_000
OWNERS_MAX = 4
GRACE_MS = 1_000
READ_S = 0.4
"""A reader asks for an object so long after it was told of it: less than half of the grace."""
QUICK = {
    "file.commit.max.age.ms": "1000",
    "clock.skew.max.ms": "500",
    "file.delete.grace.ms": str(GRACE_MS),
    "file.cleaner.interval.ms": "100",
    "snapshots.enable": "false",
    "diskless.coordinator.orphan.scan.interval.ms": "0",
}
DISTURBED_EVERY_S = 8.0
"""Longer than the group's session: the others have taken over what a killed node led."""
FAILED_SHARE, STALLED_SHARE = 0.1, 0.01
STORE_TIMEOUT_MS = 400
GONE_WITHIN_S = 600


@pytest.fixture
def hostile_store() -> Iterator[HostileS3]:
    """An S3 whose deletions fail or stand still now and then, some of them after they were carried out."""
    world, rng = HostileS3(), random.Random(16)

    def mood() -> Break:
        drawn = rng.random()
        if drawn < STALLED_SHARE:
            return Break.STALL
        return rng.choice([Break.ERROR, Break.LOST_ANSWER]) if drawn < FAILED_SHARE else Break.NONE

    world.moods["POST"] = mood
    with world.running():
        yield world


def options(world: HostileS3) -> dict[str, str]:
    return {
        "object.store.url": "s3://objects",
        "object.store.option.endpoint": world.endpoint,
        "object.store.option.region": "nowhere",
        "object.store.option.access.key.id": "test",
        "object.store.option.secret.access.key": "test",
        "object.store.option.virtual.hosted.style.request": "false",
        "object.store.request.timeout.ms": str(STORE_TIMEOUT_MS),
    }


class Life:
    """Files of several owners, and which of their batches are deleted."""

    def __init__(self, world: HostileS3, service: Service, files: int) -> None:
        self.world = world
        self.files = files
        self.service = service
        self.rng = random.Random(8)
        self.topic = Topic(b"", "")
        self.partitions_of: dict[str, set[int]] = {}
        self.deleted: set[int] = set()
        self.is_over = False
        self.reads = 0
        self.missing: list[str] = []

    @property
    def objects(self) -> set[str]:
        """Keys of the objects of files that are there."""
        return {path.removeprefix("/objects/") for path in list(self.world.objects) if path.startswith("/objects/wal/")}

    @property
    def needed(self) -> set[str]:
        """Keys of files that have live batches."""
        return {key for key, partitions in self.partitions_of.items() if not partitions <= self.deleted}

    async def commit(self, client: DisklessClient) -> None:
        """Upload and commit all files, each to one to four coordinators."""
        topic_id = (await client.admin.create_topic("lives", PARTITIONS)).topic_id
        async with connected(self.service.addresses[0]) as wire:
            self.topic = await wire.look_up(topic_id)
        limit = asyncio.Semaphore(16)

        async def one(number: int) -> None:
            key = f"wal/file-{number}"
            owners = self.rng.sample(range(COORDINATORS), self.rng.randint(1, OWNERS_MAX))
            batches = [
                Batch(self.topic, self.topic.partition_at(owner, self.rng.randrange(PARTITIONS // COORDINATORS))) for owner in owners
            ]
            self.partitions_of[key] = {batch.partition for batch in batches}
            self.world.objects[f"/objects/{key}"] = b"records"
            body = file(batches, key)
            async with limit:
                outcome = await client.commit_file(key, body.file_size, body.batches, timeout_ms=60_000)
            assert not outcome.error_codes.any(), outcome.messages

        await asyncio.gather(*map(one, range(self.files)))

    async def delete(self, client: DisklessClient, partitions: list[int]) -> None:
        """Delete all records of some partitions, one after the other."""
        for partition in partitions:
            [deleted] = await client.admin.delete_records([(PartitionId(self.topic.id, partition), -1)], timeout_ms=60_000)
            deleted.raise_for_error()
            self.deleted.add(partition)

    def wait_for_deletion(self) -> None:
        """Wait until no object is there any more of which all batches are deleted; all others must be there."""
        needed = self.needed
        wait_until(lambda: self.objects <= needed, f"all but {len(needed)} objects to go", GONE_WITHIN_S)
        assert self.objects == needed

    async def read(self, address: str) -> None:
        """Read as a consumer that a node tells of batches and that asks for their objects a moment later."""
        rng = random.Random(address)
        starts = dict.fromkeys(range(PARTITIONS), 0)
        while not self.is_over:
            # A node that was killed answers again when it is back; what it was asked has no answer.
            with suppress(OSError, ConnectionLost, RequestTimedOut):
                async with connected(address) as wire:
                    while not self.is_over:
                        partition = rng.randrange(PARTITIONS)
                        [found] = await wire.find((self.topic, partition, starts[partition]), timeout_ms=2_000)
                        if found.error == OFFSET_OUT_OF_RANGE:
                            starts[partition] = max(found.log_start, 0)
                        if found.error == OK and found.batches:
                            await asyncio.sleep(READ_S)
                            self.reads += 1
                            named, there = {batch.object_key for batch in found.batches}, self.objects
                            self.missing += [f"{address} named {key} of partition {partition}" for key in named - there]
                        await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)

    async def disturb(self) -> None:
        """Kill nodes and bring them back, and stop others for longer than readers may lag."""
        turn = 0
        while not self.is_over:
            node = self.service.nodes[1 + turn % len(self.service.nodes)]
            if turn % 2:
                node.pause()
                await asyncio.sleep(1.5 * GRACE_MS / 1000)
                node.resume()
            else:
                await asyncio.to_thread(node.kill)
                await asyncio.to_thread(node.start)
            turn += 1
            await asyncio.sleep(DISTURBED_EVERY_S)


async def live(life: Life) -> None:
    async with DisklessClient(life.service.addresses, client_id="test") as client:
        await life.commit(client)
        assert life.objects == set(life.partitions_of)
        beside = [asyncio.create_task(life.read(address)) for address in life.service.addresses]
        beside.append(asyncio.create_task(life.disturb()))
        partitions = list(range(PARTITIONS))
        life.rng.shuffle(partitions)
        for some in (partitions[: PARTITIONS // 2], partitions[PARTITIONS // 2 :]):
            await life.delete(client, some)
            await asyncio.to_thread(life.wait_for_deletion)
            assert not life.missing
        life.is_over = True
        await asyncio.gather(*beside)
        assert not life.missing
        assert life.reads > PARTITIONS


def is_forgotten(service: Service) -> bool:
    """Whether no coordinator knows a file any more."""

    async def listed() -> int:
        async with DisklessClient(service.addresses, client_id="test") as client:
            return len([one async for one in client.admin.list_files(timeout_ms=20_000)])

    return asyncio.run(listed()) == 0


@pytest.mark.parametrize("files", [FILES, pytest.param(MANY_FILES, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])])
def test_objects_go_with_their_last_batch_while_nodes_die_and_the_store_fails(
    kafka: Kafka, data_folder: Path, hostile_store: HostileS3, files: int
) -> None:
    properties = {**QUICK, **options(hostile_store)}
    with Service(kafka.bootstrap, data_folder, partitions=COORDINATORS, properties=properties) as service:
        service.start(3)
        life = Life(hostile_store, service, files)
        asyncio.run(live(life))
        assert life.objects == set()
        wait_until(lambda: is_forgotten(service), "every coordinator to forget the files")


def test_objects_in_a_folder_go_after_the_grace_and_not_before(kafka: Kafka, data_folder: Path) -> None:
    service = Service(kafka.bootstrap, data_folder, partitions=2, properties={**QUICK, **UNDISTURBED})
    folder = data_folder / "objects" / "wal"
    folder.mkdir(parents=True)

    def there() -> set[str]:
        return {path.name for path in folder.iterdir()}

    async def commit() -> Topic:
        async with connected(service.addresses[0]) as wire:
            topic = await wire.new_topic(4)
            for number in range(20):
                (folder / f"file-{number}").write_bytes(b"records")
                partitions = [number % 4] if number % 2 else [0, 1, 2, 3]
                results = await wire.commit(*(Batch(topic, partition) for partition in partitions), key=f"wal/file-{number}")
                assert not any(one.error for one in results)
            return topic

    async def delete(topic: Topic) -> None:
        async with connected(service.addresses[0]) as wire:
            assert await wire.delete(topic.id) == [OK]

    try:
        node = service.start(1).nodes[1]
        topic = asyncio.run(commit())
        assert not holds_within(2 * GRACE_MS / 1000, lambda: len(there()) < 20)
        begun = time.monotonic()
        asyncio.run(delete(topic))
        wait_until(lambda: len(there()) < 20, "objects to be deleted")
        assert time.monotonic() - begun > GRACE_MS / 1000
        wait_until(lambda: not there(), "every object to be deleted")
        wait_until(lambda: is_forgotten(service), "the coordinators to forget the files")
        assert holds_within(5, lambda: node.metric("files_deleted_total") == 20)
        assert node.metric("files", state="live") == 0
        assert node.metric("file_delete_failures_total") == 0
    finally:
        service.stop()
