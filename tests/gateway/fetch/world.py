"""A Fetch taker over a log in memory: objects of batches, a finder that waits, and a consumer that speaks through kio's codec."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.client.errors import Refusal
from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import ObjectStore, StoreError, StoreUnavailable
from coordinator.protocol.find_batches import BatchLocation
from coordinator.security.principal import ANONYMOUS
from gateway.fetch.limits import FetchLimits, FetchStats
from gateway.fetch.migrated import MigratedReads
from gateway.fetch.reads import BatchReader
from gateway.fetch.taker import FetchTaker
from gateway.ports import DisklessTopic, Session
from records.compression import Compression
from records.record_batch import Record, encode_batch, parse_headers
from simulation.fakes.objects import FakeObjectStore
from simulation.fakes.snapshots import FakeObjects
from tests.gateway.classic.kafka import KafkaInMemory
from tests.gateway.fetch.kio_fetch import encoded, read_answer, request_module
from tests.waiting import virtual_time

NOW_MS = 1_700_000_000_000
LOG_APPEND = 1
TOPIC = DisklessTopic("orders", bytes(range(16)), 4, {})


def batch_of(size_bytes: int, *, records: int = 1, seed: int = 0, compression: Compression = Compression.NONE) -> bytes:
    """A batch with about so many bytes of values."""
    value = random.Random(seed).randbytes(max(0, size_bytes // records))
    rows = [Record(timestamp_ms=1_000 + place, value=value, key=None) for place in range(records)]
    return encode_batch(rows, compression=compression)


class Log:
    """The partitions of one topic. Implements `Finder`, and counts what it is asked."""

    def __init__(self, topic: DisklessTopic = TOPIC) -> None:
        self.topic = topic
        self.batches: dict[PartitionId, list[BatchLocation]] = {PartitionId(topic.topic_id, n): [] for n in range(topic.partitions)}
        self.errors: dict[int, ErrorCode] = {}
        self.first: dict[int, int] = {}
        """Where partitions begin that do not begin at 0."""
        self.finds: list[tuple[Sequence[FetchFrom], int, int, int]] = []
        self._grown = asyncio.Event()

    def id(self, partition: int) -> PartitionId:
        return PartitionId(self.topic.topic_id, partition)

    def end(self, partition: int) -> int:
        batches = self.batches[self.id(partition)]
        return batches[-1].last_offset + 1 if batches else self.first.get(partition, 0)

    def add(
        self, partition: int, key: str, byte_offset: int, data: bytes, *, kind: int = 0, append_ms: int = NOW_MS
    ) -> list[BatchLocation]:
        """Commit the batches of a partition that lie in an object from a place on."""
        added = []
        for header in parse_headers(data):
            base = self.end(partition)
            where = (byte_offset + header.byte_offset, header.size_bytes, base, base + header.last_offset_delta)
            added.append(BatchLocation(1, key, 2, *where, append_ms, header.max_timestamp_ms, kind))
            self.batches[self.id(partition)].append(added[-1])
        self._grown.set()
        self._grown = asyncio.Event()
        return added

    async def find(self, fetches: Sequence[FetchFrom], *, min_bytes: int, max_bytes: int, max_wait_ms: int) -> Sequence[PartitionBatches]:
        self.finds.append((fetches, min_bytes, max_bytes, max_wait_ms))
        loop = asyncio.get_running_loop()
        end_s = loop.time() + max_wait_ms / 1000
        while True:
            found = self._find(fetches, max_bytes)
            size = sum(batch.byte_size for one in found for batch in one.batches)
            if size >= min_bytes or any(one.error for one in found) or loop.time() >= end_s:
                return found
            try:
                async with asyncio.timeout_at(end_s):
                    await self._grown.wait()
            except TimeoutError:
                continue

    def watch(self, *_: Any) -> None:
        """Promise nothing."""

    def _find(self, fetches: Sequence[FetchFrom], max_bytes: int) -> list[PartitionBatches]:
        """As the service does: the batch that crosses a limit is found, too, and the first of all in any case."""
        found, total, is_first = [], 0, True
        for partition, offset, bytes_max in fetches:
            end, size, some = self.end(partition.partition), 0, []
            error = self.errors.get(partition.partition)
            first = self.first.get(partition.partition, 0)
            if error is None and not first <= offset <= end:
                error = ErrorCode.OFFSET_OUT_OF_RANGE
            room = min(bytes_max, max_bytes - total)
            if error is None:
                for one in self.batches[partition]:
                    if one.last_offset >= offset and size < (max(1, room) if is_first else room):
                        some.append(one)
                        size += one.byte_size
            is_first = is_first and not some
            total += size
            refusal = {} if error is None else {"refusal": Refusal(error, error.name)}
            found.append(PartitionBatches(log_start_offset=first, high_watermark=end, batches=tuple(some), **refusal))
        return found


class Topics:
    """A catalogue of the topics given."""

    def __init__(self, *topics: DisklessTopic) -> None:
        self._topics = topics

    def replace(self, *topics: DisklessTopic) -> None:
        """Have other topics from now on."""
        self._topics = topics

    def named(self, name: str) -> DisklessTopic | None:
        return next((one for one in self._topics if one.name == name), None)

    def identified(self, topic_id: bytes) -> DisklessTopic | None:
        return next((one for one in self._topics if one.topic_id == topic_id), None)

    async def refreshed(self) -> None:
        return


class TopicRights:
    """Rights to all topics but those that are `denied`; the cluster is asked first while `is_known` is false."""

    def __init__(self) -> None:
        self.denied: frozenset[str] = frozenset()
        self.is_known = True
        self.fault: Exception | None = None
        self.asked: list[Collection[str]] = []
        self.until_s = 1e9

    def allowed_until_s(self, session: Session, topics: Collection[str], operation: AclOperation) -> float:
        return 0.0 if self.known(session, topics, operation) != frozenset() else self.until_s

    def known(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str] | None:
        assert operation is AclOperation.READ
        return self.denied & frozenset(topics) if self.is_known else None

    async def forbidden(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str]:
        self.asked.append(topics)
        await virtual_time(0.01)
        if self.fault is not None:
            raise self.fault
        return self.denied & frozenset(topics)


class CountingStore(FakeObjectStore):
    """An object store that notes its reads, each of which takes `takes_s`, and holds them while `is_open` is not set."""

    def __init__(self, objects: FakeObjects, takes_s: float = 0.02) -> None:
        super().__init__(objects)
        self.objects = objects
        self.takes_s = takes_s
        self.reads: list[tuple[str, int, int]] = []
        self.under_way = 0
        self.under_way_max = 0
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.faults: dict[str, StoreError] = {}

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        for start, size_bytes in ranges:
            await self._note(key, start, size_bytes)
        return await super().get_ranges(key, ranges)

    async def get_up_to(self, key: str, start: int, size_bytes: int) -> bytes:
        await self._note(key, start, size_bytes)
        return await super().get_up_to(key, start, size_bytes)

    async def _note(self, key: str, start: int, size_bytes: int) -> None:
        self.reads.append((key, start, size_bytes))
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            await self.is_open.wait()
            await virtual_time(self.takes_s)
        finally:
            self.under_way -= 1
        if key in self.faults:
            raise self.faults[key]


def unavailable() -> StoreUnavailable:
    return StoreUnavailable("fake://: no answer")


class OneSession(NamedTuple):
    """A session of a client that is no more than its number."""

    connection_id: int = 1
    address: str = "test"
    listener: str = "PLAINTEXT"
    relayed_broker_id: int | None = None
    upstream: Any = None
    client_id: str | None = "consumer"
    zone: str | None = None

    def remember(self, *_: Any) -> None:
        """Remember nothing."""


class World:
    """A taker and all it needs."""

    def __init__(self, store: ObjectStore | None = None, *, is_migrated: bool = False, **limits: Any) -> None:
        self.objects = FakeObjects(now_ms=lambda: NOW_MS)
        self.store = CountingStore(self.objects)
        self.log = Log()
        self.rights = TopicRights()
        self.stats = FetchStats()
        self.limits = FetchLimits(**limits)
        self.reader = BatchReader(store or self.store, self.limits, self.stats, now_ms=lambda: NOW_MS)
        self.kafka = KafkaInMemory(TOPIC.topic_id, TOPIC.partitions)
        migrated = MigratedReads(self.kafka.boundaries, self.kafka.parts)
        topics = Topics(TOPIC._replace(is_migrated=is_migrated, leader_epochs=(7,) * TOPIC.partitions if is_migrated else ()))
        self.taker = FetchTaker(topics, self.rights, self.log, self.reader, self.limits, self.stats, migrated)

    def write(self, key: str, parts: Sequence[tuple[int, bytes]], *, kind: int = 0, append_ms: int = NOW_MS, is_own: bool = False) -> bytes:
        """Upload and commit a file: the batches of partitions, in order."""
        data = b"".join(part for _, part in parts)
        self.objects.put(key, data)
        if is_own:
            self.reader.cache.keep_own(key, data)
        at = 0
        for partition, part in parts:
            self.log.add(partition, key, at, part, kind=kind, append_ms=append_ms)
            at += len(part)
        return data

    def send(self, request: Any) -> asyncio.Future[Any]:
        """Send a request as kio writes it; the answer is a body, or None."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.taker.take(OneSession(), incoming(request), answer.set_result)
        return answer

    async def fetch(self, *asked: tuple[int, int], version: int = 12, **more: Any) -> Any:
        """Fetch (partition, offset) pairs; returns the answer as kio reads it."""
        body = await self.send(fetch_request(*asked, version=version, **more))
        assert body is not None
        return read_answer(version, body)

    async def partitions(self, *asked: tuple[int, int], version: int = 12, **more: Any) -> list[Any]:
        """The answer of each partition of the topic."""
        [topic] = (await self.fetch(*asked, version=version, **more)).responses
        return list(topic.partitions)


def incoming(request: Any) -> IncomingRequest:
    """A request as the server hands it over."""
    before = b"header"
    peer = Peer(1, "PLAINTEXT", "test", ANONYMOUS)
    return IncomingRequest(
        1, int(request.__version__), 7, "consumer", before + encoded(request), len(before), 1, asyncio.get_running_loop().time(), peer
    )


def fetch_request(
    *asked: tuple[int, int],
    version: int = 12,
    topic: str = TOPIC.name,
    topic_id: bytes = TOPIC.topic_id,
    partition_max_bytes: int = 1024 * 1024,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 * 1024 * 1024,
    leader_epoch: int = -1,
    **more: Any,
) -> Any:
    """A request for (partition, offset) pairs of one topic."""
    module = request_module(version)
    epoch = {"current_leader_epoch": leader_epoch} if version >= 9 else {}
    partitions = tuple(
        module.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes, **epoch)
        for partition, offset in asked
    )
    name = {"topic": topic} if version < 13 else {"topic_id": uuid.UUID(bytes=topic_id)}
    if version < 15:
        more.setdefault("replica_id", -1)
    if version >= 7:
        more.setdefault("forgotten_topics_data", ())
    return module.FetchRequest(
        max_wait=timedelta(milliseconds=max_wait_ms),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=(module.FetchTopic(**name, partitions=partitions),),
        **more,
    )
