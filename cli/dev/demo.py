"""The demo load of `diskless dev up`: real WAL files, packed, uploaded and committed at a gentle rate until it is stopped.

Runs in a thread with a loop of its own. Topics that exist are used as they are. Orders are written by idempotent producers
with sequences without a hole, the other topics without. A file whose commit failed is committed again under its key, so
nothing is there twice; the producers are new with every start. A file is given up when a partition of it has moved to another
coordinator, as any that is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cli.kafka.cluster import KafkaPlace
from cli.kafka.shadows import ShadowTopics
from cli.outcome import Failed
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.client.errors import InvalidRequest, NotFound, SequenceRejected, ServiceError
from coordinator.client.records.ulid import RANDOM_BYTES, new_key
from coordinator.client.records.wal_commit import commit_batch
from coordinator.client.records.wal_file import WalFileBuilder, wal_batches
from coordinator.client.records.wal_manifest import TopicPartition
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.topic_configs import message_rules
from coordinator.object_store import ObjectStore, StoreError
from coordinator.protocol.messages import CommitBatch
from records.compression import Compression
from records.record_batch import ProducerSequence, Record, parse_headers

ORDERS: Final = "demo-orders"
TOPICS: Final = {ORDERS: 4, "demo-clicks": 6, "demo-payments": 2}
FILE_EVERY_S: Final = 0.5
RECORDS_PER_PARTITION: Final = 5
PRODUCERS: Final = 3
SAY_FAILURE_EVERY_S: Final = 10.0
STOP_TIMEOUT_S: Final = 10.0
SHADOW_TIMEOUT_S: Final = 10.0
RULES: Final = message_rules({})
"""Those of the topics, which have no settings of their own."""
COMMIT_TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A packed file and what its commit says."""

    key: str
    data: bytes
    batches: tuple[CommitBatch, ...]
    created_ms: int


@dataclass(slots=True)
class _Producer:
    """An idempotent producer of one partition."""

    producer_id: int
    next_sequence: int = 0

    def next(self) -> ProducerSequence:
        sequence, self.next_sequence = self.next_sequence, self.next_sequence + 1
        return ProducerSequence(producer_id=self.producer_id, producer_epoch=0, base_sequence=sequence)


@dataclass(slots=True)
class DemoLoad:
    """See the module. Each file has a few records for some partitions of every topic, the first for all."""

    addresses: list[str]
    objects: Path
    kafka: str
    """`bootstrap.servers` of Kafka, which gets the shadows of the topics."""
    say: Callable[[str], None]
    files: int = 0
    _thread: threading.Thread | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _task: asyncio.Task[None] | None = None
    _failed: BaseException | None = None
    _topic_ids: dict[str, bytes] = field(default_factory=dict)
    _producers: dict[int, list[_Producer]] = field(default_factory=dict)
    _first_file: threading.Event = field(default_factory=threading.Event)
    _said_s: float = 0.0

    def start(self, timeout_s: float = 60.0) -> None:
        """Create the topics and begin; returns after the first committed file."""
        started_s = time.monotonic()
        self.say("demo load ...")
        self._thread = threading.Thread(target=self._run, name="demo-load", daemon=True)
        self._thread.start()
        while not self._first_file.wait(0.1):
            self.look()
            if time.monotonic() - started_s > timeout_s:
                self.say(f"demo load: no file was committed within {timeout_s:g} s; it goes on trying")
                return
        self.say(f"demo load: {time.monotonic() - started_s:.1f} s")

    def stop(self) -> None:
        """End it; the file under way may or may not be committed."""
        if self._thread is None:
            return
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # the loop may end between the check and the call
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(STOP_TIMEOUT_S)

    def look(self) -> None:
        """Raise what ended it, if something did that it does not expect."""
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            asyncio.run(self._produce())
        except asyncio.CancelledError:
            return  # `stop`
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._failed = error

    async def _produce(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        store = open_store(f"file://{self.objects}")
        async with DisklessClient(self.addresses, client_id="demo-load") as client:
            while not self._topic_ids:
                try:
                    self._topic_ids = {name: await self._topic_id(client, name, count) for name, count in TOPICS.items()}
                except (Failed, ServiceError) as error:
                    await self._fail(error)
            while True:
                start_s = time.monotonic()
                await self._commit(client, store, self._pack())
                self.files += 1
                self._first_file.set()
                await asyncio.sleep(max(0.0, start_s + FILE_EVERY_S - time.monotonic()))

    async def _commit(self, client: DisklessClient, store: ObjectStore, file: _File) -> None:
        """Upload and commit one file, again and again until it is committed: a gap in a sequence would end its producer."""
        while True:
            try:
                await client.check_store(store)
                await store.put(file.key, file.data)
                outcome = await client.commit_file(
                    file.key,
                    len(file.data),
                    file.batches,
                    created_ms=file.created_ms,
                    timeout_ms=COMMIT_TIMEOUT_MS,
                    # Later that would be a wait for a partition to come back that has moved.
                    wait_for_creation=not self.files,
                )
                outcome.raise_for_errors()
                return
            except (ServiceError, StoreError) as error:
                if _is_refusal(error):
                    self.say(f"demo load: file {file.key} is refused, new producers from now on: {error}")
                    self._producers.clear()
                    return
                await self._fail(error)

    async def _fail(self, error: Exception) -> None:
        if time.monotonic() - self._said_s > SAY_FAILURE_EVERY_S:
            self._said_s = time.monotonic()
            self.say(f"demo load waits: {error}")
        await asyncio.sleep(FILE_EVERY_S)

    def _pack(self) -> _File:
        now_ms = time.time_ns() // 1_000_000
        builder = WalFileBuilder(compression=Compression.ZSTD)
        for topic, partitions in TOPICS.items():
            # The first file has records for every partition: what `guide` prints to try must find some.
            for partition in random.sample(range(partitions), k=max(1, partitions // 2) if self.files else partitions):
                for number in range(random.randint(1, RECORDS_PER_PARTITION)):
                    producer = random.choice(self._producers_of(partition)).next() if topic == ORDERS else None
                    builder.add(TopicPartition(topic, partition), _record(topic, now_ms + number), producer)
        data, manifest = builder.build(created_ms=now_ms)
        packed = wal_batches(manifest, parse_headers(data, verify=False))
        batches = tuple(commit_batch(one, self._topic_ids[one.topic], RULES) for one in packed)
        return _File(key=new_key(now_ms, os.urandom(RANDOM_BYTES)), data=data, batches=batches, created_ms=now_ms)

    def _producers_of(self, partition: int) -> list[_Producer]:
        if partition not in self._producers:
            self._producers[partition] = [_Producer(random.getrandbits(62)) for _ in range(PRODUCERS)]
        return self._producers[partition]

    async def _topic_id(self, client: DisklessClient, name: str, partitions: int) -> bytes:
        try:
            return (await client.describe_topic(name)).topic_id
        except NotFound:
            place = KafkaPlace(bootstrap_servers=self.kafka, topic=name, properties={}, settings=None)
            topic_id = await asyncio.to_thread(_create_shadow, place, name, partitions)
            return (await client.admin.create_topic(name, partitions, topic_id=topic_id)).topic_id


def _is_refusal(error: Exception) -> bool:
    """Whether a file is not committed however often it comes."""
    has_moved = isinstance(error, ServiceError) and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    return has_moved or isinstance(error, InvalidRequest | SequenceRejected)


def _create_shadow(place: KafkaPlace, name: str, partitions: int) -> bytes:
    with ShadowTopics(place, SHADOW_TIMEOUT_S) as shadows:
        return shadows.create(name, partitions)


def _record(topic: str, timestamp_ms: int) -> Record:
    number = random.randrange(10_000)
    value = {"topic": topic, "number": number, "amount": round(random.uniform(1, 500), 2)}
    return Record(
        timestamp_ms=timestamp_ms, key=f"key-{number % 100}".encode(), value=json.dumps(value).encode(), headers=(("source", b"demo"),)
    )
