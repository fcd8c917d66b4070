"""ListOffsets, DeleteRecords and FindBatches: one request for the partitions of a node; `routing.py` decides what goes where and when.

Invariant: a response that does not name exactly the partitions of its request is a malformed message, never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar, cast

from coordinator.client.errors import Refusal, refusal_of
from coordinator.client.model import FetchFrom, PartitionId, Result
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import server_timeout_ms
from coordinator.client.routing.routed_call import READS, RoutedCall, Target
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.partitions import DELETE_RECORDS, FIND_BATCHES, LIST_OFFSETS
from coordinator.protocol.find_batches import BatchLocation
from coordinator.protocol.messages import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    FindBatchesBatchInfo,
    FindBatchesPartition,
    FindBatchesPartitionResponse,
    FindBatchesRequest,
    FindBatchesResponse,
    FindBatchesTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coordinator.protocol.wire import MalformedMessage

A = TypeVar("A", bound=Result)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset(Result):
    """The offset that was looked up in a partition, and the timestamp there."""

    timestamp_ms: int = -1
    offset: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecords(Result):
    """The log start of a partition once records were deleted."""

    low_watermark: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBatches(Result):
    """Where the batches of a partition are, from the offset asked for on, and the bounds of its log."""

    log_start_offset: int = -1
    high_watermark: int = -1
    batches: tuple[BatchLocation, ...] = ()


class PartitionsCall(RoutedCall[A]):
    """An operation whose elements are partitions."""

    purpose = READS

    def __init__(self, partitions: Sequence[PartitionId], *, wait_for_creation: bool) -> None:
        self._partitions = partitions
        self.wait_for_creation = wait_for_creation

    @property
    def targets(self) -> Sequence[Target]:
        return [partition.key for partition in self._partitions]

    def refusal_of(self, answer: A) -> Refusal:
        return answer.refusal

    def _by_topic(self, places: Sequence[int]) -> list[tuple[bytes, list[int]]]:
        """Neighbours of one topic together; the order stays."""
        return [(topic_id, list(group)) for topic_id, group in groupby(places, lambda place: self._partitions[place].topic_id)]

    def _checked(self, places: Sequence[int], rows: Sequence[tuple[bytes, int, A]]) -> list[A]:
        """The answers of (topic id, index, answer) rows, which must name the partitions asked for in their order."""
        asked = [self._partitions[place] for place in places]
        if [(topic_id, index) for topic_id, index, _ in rows] != asked:
            raise MalformedMessage(f"{len(asked)} partitions were asked for; the answer has {len(rows)}, or others")
        return [answer for _, _, answer in rows]


class ListOffsetsCall(PartitionsCall[ListedOffset]):
    """Offsets by timestamp."""

    operation = LIST_OFFSETS

    def __init__(self, queries: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool) -> None:
        super().__init__([partition for partition, _ in queries], wait_for_creation=wait_for_creation)
        self._timestamps = [timestamp for _, timestamp in queries]

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[ListedOffset]:
        topics = []
        for topic_id, group in self._by_topic(places):
            asked = [ListOffsetsPartition(partition_index=self._partitions[p].partition, timestamp=self._timestamps[p]) for p in group]
            topics.append(ListOffsetsTopic(topic_id=topic_id, partitions=tuple(asked)))
        request = ListOffsetsRequest(topics=tuple(topics), timeout_ms=server_timeout_ms(timeout_s))
        response = cast(ListOffsetsResponse, await pool.call(line, request, timeout_s))
        rows = []
        for topic in response.topics:
            for one in topic.partitions:
                refusal = refusal_of(one.error_code, one.error_message)
                answer = ListedOffset(refusal=refusal, timestamp_ms=one.timestamp, offset=one.offset)
                rows.append((topic.topic_id, one.partition_index, answer))
        return self._checked(places, rows)

    def refused(self, place: int, refusal: Refusal) -> ListedOffset:
        return ListedOffset(refusal=refusal)


class DeleteRecordsCall(PartitionsCall[DeletedRecords]):
    """Move log starts forward. Repeating it is harmless, so an unknown outcome is simply asked again."""

    operation = DELETE_RECORDS

    def __init__(self, points: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool) -> None:
        super().__init__([partition for partition, _ in points], wait_for_creation=wait_for_creation)
        self._offsets = [offset for _, offset in points]

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[DeletedRecords]:
        topics = []
        for topic_id, group in self._by_topic(places):
            asked = [DeleteRecordsPartition(partition_index=self._partitions[p].partition, offset=self._offsets[p]) for p in group]
            topics.append(DeleteRecordsTopic(topic_id=topic_id, partitions=tuple(asked)))
        request = DeleteRecordsRequest(topics=tuple(topics), timeout_ms=server_timeout_ms(timeout_s))
        response = cast(DeleteRecordsResponse, await pool.call(line, request, timeout_s))
        rows = []
        for topic in response.topics:
            for one in topic.partitions:
                answer = DeletedRecords(refusal=refusal_of(one.error_code, one.error_message), low_watermark=one.low_watermark)
                rows.append((topic.topic_id, one.partition_index, answer))
        return self._checked(places, rows)

    def refused(self, place: int, refusal: Refusal) -> DeletedRecords:
        return DeletedRecords(refusal=refusal)


class FindBatchesCall(PartitionsCall[PartitionBatches]):
    """Which objects hold the batches from an offset on. The byte limit holds for each node asked."""

    operation = FIND_BATCHES

    def __init__(
        self, fetches: Sequence[FetchFrom], *, fetch_bytes_max: int, batches_per_partition_max: int, wait_for_creation: bool
    ) -> None:
        super().__init__([fetch.partition for fetch in fetches], wait_for_creation=wait_for_creation)
        self._fetches = fetches
        self._fetch_bytes_max = fetch_bytes_max
        self._batches_per_partition_max = batches_per_partition_max

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[PartitionBatches]:
        topics = []
        for topic_id, group in self._by_topic(places):
            asked = [
                FindBatchesPartition(
                    partition_index=fetch.partition.partition, offset=fetch.offset, max_partition_fetch_bytes=fetch.bytes_max
                )
                for fetch in (self._fetches[place] for place in group)
            ]
            topics.append(FindBatchesTopic(topic_id=topic_id, partitions=tuple(asked)))
        request = FindBatchesRequest(
            fetch_max_bytes=self._fetch_bytes_max,
            max_batches_per_partition=self._batches_per_partition_max,
            topics=tuple(topics),
            timeout_ms=server_timeout_ms(timeout_s),
        )
        response = cast(FindBatchesResponse, await pool.call(line, request, timeout_s))
        rows = []
        for topic in response.topics:
            for one in topic.partitions:
                partition = PartitionId(topic.topic_id, one.partition_index)
                answer = PartitionBatches(
                    refusal=refusal_of(one.error_code, _found_text(partition, one)),
                    log_start_offset=one.log_start_offset,
                    high_watermark=one.high_watermark,
                    batches=tuple(_found(batch) for batch in one.batches),
                )
                rows.append((topic.topic_id, one.partition_index, answer))
        return self._checked(places, rows)

    def refused(self, place: int, refusal: Refusal) -> PartitionBatches:
        return PartitionBatches(refusal=refusal)


def _found_text(partition: PartitionId, one: FindBatchesPartitionResponse) -> str | None:
    """FindBatches has no texts of its own."""
    match one.error_code:
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            log = f"log start offset {one.log_start_offset}, high watermark {one.high_watermark}"
            return f"{partition}: the offset lies outside the log ({log}); start from one of the two"
        case ErrorCode.OFFSET_NOT_AVAILABLE:
            return f"{partition}: the node does not know yet whether the offset exists; retry"
        case _:
            return None


def _found(one: FindBatchesBatchInfo) -> BatchLocation:
    return BatchLocation(
        one.batch_id,
        one.object_key,
        one.magic,
        one.byte_offset,
        one.byte_size,
        one.base_offset,
        one.last_offset,
        one.log_append_timestamp,
        one.batch_max_timestamp,
        one.timestamp_type,
    )
