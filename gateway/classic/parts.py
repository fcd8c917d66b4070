"""What brokers have of classic parts: records below B0 as they stand there, offsets by time, and the deletion of records."""

from __future__ import annotations

import asyncio
import logging
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import kio.schema.delete_records.v2 as delete_records
import kio.schema.fetch.v13 as fetch
import kio.schema.list_offsets.v7 as list_offsets
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from coordinator.client.model import PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import topic_id_text
from gateway.classic.leading import AT_ONCE_MAX, AskedOf, LeadingBrokers, Question

LOG = logging.getLogger(__name__)

CONSUMER: Final = BrokerId(-1)
READ_TIMEOUT_S: Final = 10.0
READ_BYTES_LEAST: Final = 1024 * 1024
NO_WAIT: Final = i32Timedelta.parse(timedelta(0))
_BATCH: Final = struct.Struct(">qi")
_INT: Final = struct.Struct(">i")
_MAGIC_AT: Final = 16
_DELTA_AT: Final = 23
_HEAD_BYTES: Final = 27

T = TypeVar("T")


class PieceWanted(NamedTuple):
    """Records of a partition from an offset on, which is below `start` (B0)."""

    offset: int
    bytes_max: int
    start: int


class ClassicPiece(NamedTuple):
    """What a broker has of a partition from an offset on: whole batches below B0, unchanged.

    `is_passed`: there is no record from the offset to B0. `is_short`: the log ends at the offset, or before. `lies_across`: the next batch
    goes over B0, which was set by hand.
    """

    records: bytes
    log_start: int
    aborted: tuple[tuple[int, int], ...] = ()
    is_passed: bool = False
    is_short: bool = False
    lies_across: bool = False


Flight: TypeAlias = "asyncio.Future[ClassicPiece | ErrorCode]"
"""A read that is under way."""


class OffsetAtBroker(NamedTuple):
    """An offset that a broker has found, -1 for none, with its time and leader epoch."""

    offset: int
    timestamp: int
    epoch: int


class ClassicParts:
    """See the module. Used on one event loop."""

    def __init__(self, brokers: LeadingBrokers, bytes_max: int) -> None:
        """`bytes_max` bounds all reads that are under way; each broker has an equal part of it, and one megabyte for a read at least."""
        self._brokers = brokers
        self._bytes_max = bytes_max
        self.bytes_read = 0
        """Of records below B0."""
        self.failures = 0
        """Partitions that a broker refused, or that had no leader for too long."""
        self._flights: dict[tuple[PartitionId, int, int], Flight] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """End all reads."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._brokers.close()

    # ---- records

    def read(self, wanted: Mapping[PartitionId, PieceWanted], isolation: int, bytes_max: int) -> dict[PartitionId, Flight]:
        """Begin to read, or join a read that is under way for another; `bytes_max` for all, and the first batch of each broker anyway.

        A reader that did not wait for the end finds the read still under way when it asks again.
        """
        loop = asyncio.get_running_loop()
        flights: dict[PartitionId, Flight] = {}
        new: dict[PartitionId, Flight] = {}
        for partition, one in wanted.items():
            key = (partition, one.offset, isolation)
            flight = self._flights.get(key)
            if flight is None:
                flight = self._flights[key] = new[partition] = loop.create_future()
            flights[partition] = flight
        if new:
            task = loop.create_task(self._read(wanted, new, isolation, bytes_max), name="read-classic")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return flights

    async def _read(
        self, asked: Mapping[PartitionId, PieceWanted], flights: Mapping[PartitionId, Flight], isolation: int, bytes_max: int
    ) -> None:
        wanted = {partition: asked[partition] for partition in flights}

        def landed(partition: PartitionId, result: ClassicPiece | ErrorCode) -> None:
            self._note(partition, result)
            del self._flights[partition, wanted[partition].offset, isolation]
            flights[partition].set_result(result)

        try:
            leading = await self._brokers.leading(wanted)
            room = max(READ_BYTES_LEAST, self._bytes_max // (self._brokers.count * AT_ONCE_MAX))
            ask = partial(_fetch, isolation=isolation, bytes_max=max(1, min(room, bytes_max // leading)))
            await self._brokers.settle(wanted, Question(ask, fetch.FetchResponse, _pieces), landed, timeout_s=READ_TIMEOUT_S)
        finally:
            for partition, flight in flights.items():
                if not flight.done():  # this task ends before its time
                    del self._flights[partition, wanted[partition].offset, isolation]
                    flight.cancel()

    def _note(self, partition: PartitionId, result: object) -> None:
        if isinstance(result, ClassicPiece):
            self.bytes_read += len(result.records)
        elif isinstance(result, ErrorCode) and result is not ErrorCode.OFFSET_OUT_OF_RANGE:
            self.failures += 1
        if result is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            LOG.error(
                "the gateway's own login may not use the classic part topic=%s partition=%d: allow it Read, and Delete for DeleteRecords",
                topic_id_text(partition.topic_id),
                partition.partition,
            )

    # ---- offsets

    async def offsets(self, wanted: Mapping[PartitionId, int], timeout_s: float) -> dict[PartitionId, OffsetAtBroker | ErrorCode]:
        """Look up offsets by time, EARLIEST or MAX_TIMESTAMP."""
        return await self._ask(wanted, Question(_list_offsets, list_offsets.ListOffsetsResponse, _found_offsets), timeout_s)

    async def delete(self, wanted: Mapping[PartitionId, int], timeout_s: float) -> dict[PartitionId, int | ErrorCode]:
        """Delete records before offsets; returns where the logs begin then."""
        return await self._ask(wanted, Question(_delete_records, delete_records.DeleteRecordsResponse, _low_watermarks), timeout_s)

    async def _ask(
        self, wanted: Mapping[PartitionId, int], question: Question[int, T], timeout_s: float
    ) -> dict[PartitionId, T | ErrorCode]:
        results: dict[PartitionId, T | ErrorCode] = {}

        def landed(partition: PartitionId, result: T | ErrorCode) -> None:
            self._note(partition, result)
            results[partition] = result

        await self._brokers.settle(wanted, question, landed, timeout_s=timeout_s)
        return results


def cut_below(data: bytes, start: int) -> tuple[int, bool, bool]:
    """Return how many bytes of whole batches end below B0, whether a batch from B0 on follows, and whether one lies across B0."""
    at, size = 0, len(data)
    while at + _HEAD_BYTES <= size:
        base, length = _BATCH.unpack_from(data, at)
        if length < _HEAD_BYTES - _BATCH.size or at + _BATCH.size + length > size:
            break  # brokers may cut the last batch off
        # Batches of Kafka before 0.11 have the offset of their last record.
        last = base + _INT.unpack_from(data, at + _DELTA_AT)[0] if data[at + _MAGIC_AT] == 2 else base
        if base >= start:
            return at, True, False
        if last >= start:
            return at, False, True
        at += _BATCH.size + length
    return at, False, False


def _by_topic(asked: Sequence[AskedOf[T]], make: Callable[[AskedOf[T]], Any]) -> dict[tuple[bytes, str], tuple[Any, ...]]:
    topics: dict[tuple[bytes, str], list[Any]] = {}
    for one in asked:
        topics.setdefault((one.partition.topic_id, one.led.topic), []).append(make(one))
    return {key: tuple(parts) for key, parts in topics.items()}


def _fetch(asked: Sequence[AskedOf[PieceWanted]], *, isolation: int, bytes_max: int) -> fetch.FetchRequest:
    def part(one: AskedOf[PieceWanted]) -> fetch.request.FetchPartition:
        return fetch.request.FetchPartition(
            partition=i32(one.partition.partition),
            current_leader_epoch=i32(one.led.epoch),
            fetch_offset=i64(one.value.offset),
            partition_max_bytes=i32(max(1, min(one.value.bytes_max, bytes_max))),
        )

    topics = tuple(
        fetch.request.FetchTopic(topic_id=uuid.UUID(bytes=topic_id), partitions=parts)
        for (topic_id, _), parts in _by_topic(asked, part).items()
    )
    return fetch.FetchRequest(
        replica_id=CONSUMER,
        max_wait=NO_WAIT,
        min_bytes=i32(0),
        max_bytes=i32(max(1, bytes_max)),
        isolation_level=i8(isolation),
        topics=topics,
        forgotten_topics_data=(),
    )


def _pieces(answer: fetch.FetchResponse, asked: Sequence[AskedOf[PieceWanted]]) -> dict[PartitionId, tuple[KafkaError, ClassicPiece]]:
    wanted = {one.partition: one.value for one in asked}
    return {
        partition: (answer.error_code if answer.error_code is not KafkaError.none else one.error_code, _piece(one, wanted[partition]))
        for topic in answer.responses
        for one in topic.partitions
        if topic.topic_id is not None and (partition := PartitionId(topic.topic_id.bytes, int(one.partition_index))) in wanted
    }


def _piece(one: fetch.response.PartitionData, wanted: PieceWanted) -> ClassicPiece:
    data = bytes(one.records or b"")
    size, has_more, lies_across = cut_below(data, wanted.start)
    return ClassicPiece(
        records=data if size == len(data) else data[:size],
        log_start=int(one.log_start_offset),
        aborted=tuple((int(each.producer_id), int(each.first_offset)) for each in one.aborted_transactions or ()),
        is_passed=not size and has_more,
        is_short=not data and int(one.high_watermark) <= wanted.offset,
        lies_across=not size and lies_across,
    )


def _list_offsets(asked: Sequence[AskedOf[int]]) -> list_offsets.ListOffsetsRequest:
    def part(one: AskedOf[int]) -> list_offsets.request.ListOffsetsPartition:
        return list_offsets.request.ListOffsetsPartition(
            partition_index=i32(one.partition.partition), current_leader_epoch=i32(one.led.epoch), timestamp=i64(one.value)
        )

    topics = tuple(
        list_offsets.request.ListOffsetsTopic(name=TopicName(name), partitions=parts) for (_, name), parts in _by_topic(asked, part).items()
    )
    return list_offsets.ListOffsetsRequest(replica_id=CONSUMER, isolation_level=i8(0), topics=topics)


def _found_offsets(
    answer: list_offsets.ListOffsetsResponse, asked: Sequence[AskedOf[int]]
) -> dict[PartitionId, tuple[KafkaError, OffsetAtBroker]]:
    return _named(answer, asked, lambda one: OffsetAtBroker(int(one.offset), int(one.timestamp), int(one.leader_epoch)))


def _delete_records(asked: Sequence[AskedOf[int]]) -> delete_records.DeleteRecordsRequest:
    def part(one: AskedOf[int]) -> delete_records.request.DeleteRecordsPartition:
        return delete_records.request.DeleteRecordsPartition(partition_index=i32(one.partition.partition), offset=i64(one.value))

    topics = tuple(
        delete_records.request.DeleteRecordsTopic(name=TopicName(name), partitions=parts)
        for (_, name), parts in _by_topic(asked, part).items()
    )
    return delete_records.DeleteRecordsRequest(topics=topics, timeout=i32Timedelta.parse(timedelta(seconds=5)))


def _low_watermarks(
    answer: delete_records.DeleteRecordsResponse, asked: Sequence[AskedOf[int]]
) -> dict[PartitionId, tuple[KafkaError, int]]:
    return _named(answer, asked, lambda one: int(one.low_watermark))


def _named(answer: Any, asked: Sequence[AskedOf[int]], read: Callable[[Any], T]) -> dict[PartitionId, tuple[KafkaError, T]]:
    ids = {(one.led.topic, one.partition.partition): one.partition for one in asked}
    return {
        partition: (one.error_code, read(one))
        for topic in answer.topics
        for one in topic.partitions
        if (partition := ids.get((str(topic.name), int(one.partition_index)))) is not None
    }
