"""Speaking the wire protocol in tests: connections, and short builders for requests, on codec level only.

Nothing here retries, discovers or hides an answer: a test sees exactly what one request to one node was answered.
Error numbers are spelled out here once more on purpose, so that a test does not get its expectations from the product.
"""

from __future__ import annotations

import asyncio
import os
import struct
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from coordinator.client.routing.connection import ClientConnection
from coordinator.protocol import messages as m
from coordinator.protocol.commit_file import CommitFileBody, batch_rows, decode_commit_response, encode_commit_file
from coordinator.protocol.framing import request_frame
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity

OK = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
REQUEST_TIMED_OUT = 7
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
INVALID_TOPIC = 17
UNSUPPORTED_VERSION = 35
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REQUEST = 42
OUT_OF_ORDER_SEQUENCE = 45
INVALID_PRODUCER_EPOCH = 47
FENCED_LEADER_EPOCH = 74
OFFSET_NOT_AVAILABLE = 78
RESOURCE_NOT_FOUND = 91
DUPLICATE_RESOURCE = 92
UNKNOWN_TOPIC_ID = 100

TIMEOUT_S = 60
TIMEOUT_MS = 10_000
KIP_COMMIT_FILE, COMMIT_FILE = 95, 10095
SEQUENCE_END = 2**31

SECURED: dict[str, ClientSecurity] = {}
"""How tests connect to nodes that want a login, by address."""


@dataclass(frozen=True)
class Topic:
    """A topic as it was created; `coordinators` by partition."""

    id: bytes
    name: str
    coordinators: tuple[int, ...] = ()

    def partition_at(self, coordinator: int, nth: int = 0) -> int:
        """The nth partition that a coordinator owns."""
        return [partition for partition, owner in enumerate(self.coordinators) if owner == coordinator][nth]


@dataclass(frozen=True)
class Batch:
    """One batch of a commit; `last_sequence` and `at` (byte offset) follow from the others unless given."""

    topic: Topic
    partition: int = 0
    count: int = 1
    size: int = 100
    timestamp: int = 1_000
    is_append_time: bool = False
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    last_sequence: int | None = None
    at: int | None = None
    base: int = 0
    last: int | None = None
    magic: int = 2
    request_id: int = 0
    timestamp_type: int | None = None


class Result(NamedTuple):
    """A batch's result in a CommitFile response."""

    error: int
    base: int
    time: int
    log_start: int
    is_duplicate: bool


class Found(NamedTuple):
    """A partition's result in a FindBatches response."""

    error: int
    log_start: int
    high_watermark: int
    batches: tuple[m.FindBatchesBatchInfo, ...]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """(base offset, last offset) of each batch."""
        return [(one.base_offset, one.last_offset) for one in self.batches]


def refused(error: int) -> Result:
    """What every batch that was not accepted gets."""
    return Result(error, -1, -1, -1, False)


def new_key() -> str:
    """An object key that tells no creation time."""
    return f"wal/file-{uuid.uuid4().hex}"


def file(batches: Sequence[Batch], key: str | None = None, *, owners: Sequence[int] | None = None, **fields: Any) -> CommitFileBody:
    """A CommitFile request whose batches lie one behind the other; `fields` override what follows from them."""
    rows: list[m.CommitBatch] = []
    end = 0
    for one in batches:
        at = end if one.at is None else one.at
        end = max(end, at + one.size)
        spanned = (one.sequence + one.count - 1) % SEQUENCE_END if one.sequence >= 0 else -1
        rows.append(
            m.CommitBatch(
                magic=one.magic,
                request_id=one.request_id,
                topic_id=one.topic.id,
                partition_index=one.partition,
                byte_offset=at,
                size=one.size,
                base_offset=one.base,
                last_offset=one.base + one.count - 1 if one.last is None else one.last,
                batch_max_timestamp=one.timestamp,
                timestamp_type=int(one.is_append_time) if one.timestamp_type is None else one.timestamp_type,
                producer_id=one.producer,
                producer_epoch=one.epoch,
                base_sequence=one.sequence,
                last_sequence=spanned if one.last_sequence is None else one.last_sequence,
            )
        )
    if owners is None:
        known = {one.topic.coordinators[one.partition] for one in batches if one.partition < len(one.topic.coordinators)}
        owners = sorted(known) or [0]
    request = CommitFileBody(
        object_key=new_key() if key is None else key,
        object_format=1,
        file_size=end,
        owner_ids=list(owners),
        batches=batch_rows(rows),
        timeout_ms=TIMEOUT_MS,
    )
    return request._replace(**fields)


class Wire:
    """One connection to one node."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def call(self, message: Any, api_key: int | None = None) -> Any:
        """Send a message and return the response message."""
        return await self.connection.call(message, TIMEOUT_S, api_key=api_key)

    # ---- topics

    async def create(self, *topics: tuple[bytes, str, int], timeout_ms: int = TIMEOUT_MS, api_key: int | None = None) -> list[int]:
        """CreatePartitions with (topic id, name, total) each; returns the error codes."""
        wanted = tuple(m.CreatablePartitions(topic_id=i, name=n, num_partitions=c) for i, n, c in topics)
        response = await self.call(m.CreatePartitionsRequest(topics=wanted, timeout_ms=timeout_ms), api_key)
        assert [one.topic_id for one in response.topics] == [one[0] for one in topics]
        assert [one.error_message is None for one in response.topics] == [one.error_code == OK for one in response.topics]
        return [one.error_code for one in response.topics]

    async def delete(self, *topic_ids: bytes, timeout_ms: int = TIMEOUT_MS, api_key: int | None = None) -> list[int]:
        """DeleteTopics; returns the error codes."""
        wanted = tuple(m.DeletableTopicState(topic_id=one) for one in topic_ids)
        response = await self.call(m.DeleteTopicsRequest(topics=wanted, timeout_ms=timeout_ms), api_key)
        assert [one.topic_id for one in response.responses] == list(topic_ids)
        assert [one.error_message is None for one in response.responses] == [one.error_code == OK for one in response.responses]
        return [one.error_code for one in response.responses]

    async def new_topic(self, partitions: int = 1, name: str | None = None) -> Topic:
        """Create a topic and look up where its partitions went."""
        topic_id, name = os.urandom(16), name or f"topic-{uuid.uuid4().hex[:12]}"
        assert await self.create((topic_id, name, partitions)) == [OK]
        return await self.look_up(topic_id)

    async def look_up(self, topic_id: bytes) -> Topic:
        """The topic with the coordinators of its partitions."""
        topic = await self.describe_topic(topic_id)
        assert topic.error_code == OK
        assert [one.partition_index for one in topic.partitions] == list(range(len(topic.partitions)))
        return Topic(topic_id, topic.name or "", tuple(one.coordinator_id for one in topic.partitions))

    async def describe_topic(self, topic_id: bytes, name: str | None = None) -> m.DescribeTopicsTopicResult:
        """DescribeTopics of one topic."""
        asked = (m.DescribeTopicsTopic(topic_id=topic_id, name=name),)
        response = cast(m.DescribeTopicsResponse, await self.call(m.DescribeTopicsRequest(topics=asked, timeout_ms=TIMEOUT_MS)))
        (topic,) = response.topics
        return topic

    # ---- commits

    async def send(self, request: CommitFileBody, api_key: int = COMMIT_FILE) -> list[Result]:
        """Commit a file; every error must come with a message, every success without one."""
        body = await self.connection.request(api_key, 0, encode_commit_file(request), TIMEOUT_S)
        response = decode_commit_response(body)
        rows = response.results.tolist()
        results = [Result(error, base, time, start, bool(duplicate)) for error, _, base, time, start, duplicate, _ in rows]
        assert len(results) == len(request.batches)
        assert set(response.error_messages) == {place for place, one in enumerate(results) if one.error}
        return results

    async def commit(self, *batches: Batch, key: str | None = None, **fields: Any) -> list[Result]:
        """Commit these batches as one file; `fields` as for `file`."""
        return await self.send(file(batches, key, **fields))

    # ---- reads and deletes by partition

    async def offsets(
        self, topic: Topic, *timestamps: int, partition: int = 0, timeout_ms: int = TIMEOUT_MS, api_key: int | None = None
    ) -> list[tuple[int, int, int]]:
        """ListOffsets of one partition; (error, timestamp, offset) for each timestamp asked."""
        asked = tuple(m.ListOffsetsPartition(partition_index=partition, timestamp=one) for one in timestamps)
        request = m.ListOffsetsRequest(topics=(m.ListOffsetsTopic(topic_id=topic.id, partitions=asked),), timeout_ms=timeout_ms)
        response = await self.call(request, api_key)
        (answered,) = response.topics
        assert answered.topic_id == topic.id
        assert {one.partition_index for one in answered.partitions} == {partition}
        return [(one.error_code, one.timestamp, one.offset) for one in answered.partitions]

    async def ends(self, topic: Topic, partition: int = 0) -> tuple[int, int]:
        """(log start, high watermark), strictly."""
        (error, _, start), (_, _, end) = await self.offsets(topic, -2, -1, partition=partition)
        assert error == OK
        return start, end

    async def truncate(
        self, *points: tuple[Topic, int, int], timeout_ms: int = TIMEOUT_MS, api_key: int | None = None
    ) -> list[tuple[int, int]]:
        """DeleteRecords with (topic, partition, offset) each; returns (error, low watermark)."""
        topics = tuple(
            m.DeleteRecordsTopic(topic_id=t.id, partitions=(m.DeleteRecordsPartition(partition_index=p, offset=o),)) for t, p, o in points
        )
        response = await self.call(m.DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), api_key)
        assert [(one.topic_id, one.partitions[0].partition_index) for one in response.topics] == [(t.id, p) for t, p, _ in points]
        return [(one.partitions[0].error_code, one.partitions[0].low_watermark) for one in response.topics]

    async def find(
        self,
        *points: tuple[Topic, int, int] | tuple[Topic, int, int, int],
        max_bytes: int = 1 << 30,
        max_batches: int = 0,
        timeout_ms: int = TIMEOUT_MS,
        min_bytes: int = 1,
        max_wait_ms: int = 0,
        api_key: int | None = None,
    ) -> list[Found]:
        """FindBatches with (topic, partition, offset[, max bytes]) each."""
        topics = []
        for topic, partition, offset, *limit in points:
            asked = m.FindBatchesPartition(
                partition_index=partition, offset=offset, max_partition_fetch_bytes=limit[0] if limit else 1 << 30
            )
            topics.append(m.FindBatchesTopic(topic_id=topic.id, partitions=(asked,)))
        request = m.FindBatchesRequest(
            fetch_max_bytes=max_bytes,
            max_batches_per_partition=max_batches,
            topics=tuple(topics),
            timeout_ms=timeout_ms,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
        )
        response = await self.call(request, api_key)
        assert [(one.topic_id, one.partitions[0].partition_index) for one in response.topics] == [(p[0].id, p[1]) for p in points]
        flat = [one.partitions[0] for one in response.topics]
        return [Found(one.error_code, one.log_start_offset, one.high_watermark, one.batches) for one in flat]

    async def files(self, *keys: str, timeout_ms: int = TIMEOUT_MS, api_key: int | None = None) -> list[tuple[int, bool]]:
        """DescribeFiles; returns (error, has live batches)."""
        asked = tuple(m.DescribeFileEntry(object_key=key) for key in keys)
        response = await self.call(m.DescribeFilesRequest(files=asked, timeout_ms=timeout_ms), api_key)
        assert [one.object_key for one in response.files] == list(keys)
        return [(one.error_code, one.has_live_batches) for one in response.files]

    async def coordinators(self) -> list[m.DescribeCoordinatorsCoordinator]:
        """DescribeCoordinators of all."""
        request = m.DescribeCoordinatorsRequest(coordinator_ids=(), timeout_ms=TIMEOUT_MS)
        response = cast(m.DescribeCoordinatorsResponse, await self.call(request))
        assert response.error_code == OK
        return list(response.coordinators)


def properties_at(address: str) -> dict[str, str]:
    """The properties of another client for the node at an address, by librdkafka's names; none where nobody logs in."""
    return SECURED.get(address, PLAIN_TEXT).properties


@asynccontextmanager
async def connected(address: str, client_id: str | None = "test", security: ClientSecurity | None = None) -> AsyncIterator[Wire]:
    """A connection to a node for the length of a block; by default it has the security that `SECURED` names for the address."""
    host, _, port = address.rpartition(":")
    how = security or SECURED.get(address, PLAIN_TEXT)
    connection = await ClientConnection.connect(host, int(port), client_id=client_id, timeout_s=TIMEOUT_S, security=how)
    try:
        yield Wire(connection)
    finally:
        await connection.close()


async def exchange(address: str, frame: bytes) -> bytes:
    """Send raw bytes on a connection of their own, and return everything that comes until the node closes it, or one reply."""
    reader, writer = await open_raw(address)
    try:
        writer.write(frame)
        async with asyncio.timeout(TIMEOUT_S):
            size = await reader.read(4)
            return size + await reader.readexactly(int.from_bytes(size, "big")) if size else b""
    finally:
        writer.close()
        await writer.wait_closed()


async def open_raw(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection for raw bytes, which has logged in where `SECURED` says so."""
    host, _, port = address.rpartition(":")
    security = SECURED.get(address, PLAIN_TEXT)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=security.context())
    if security.mechanism is not None:
        await _log_in(reader, writer, security)
    return reader, writer


async def _log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, security: ClientSecurity) -> None:
    """Log in by PLAIN, whatever mechanism the security has."""
    mechanism = b"PLAIN"
    (password,) = ClientSecurity({**security.properties, "sasl.mechanism": "PLAIN"}).login()
    bodies = [(17, 1, struct.pack(">h", len(mechanism)) + mechanism), (36, 0, struct.pack(">i", len(password)) + password)]
    for key, version, body in bodies:
        writer.write(request_frame(key, version, 0, "test", body, flexible=False))
        size = int.from_bytes(await reader.readexactly(4), "big")
        assert struct.unpack_from(">ih", await reader.readexactly(size)) == (0, OK)
