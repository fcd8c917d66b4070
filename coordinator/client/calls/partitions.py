"""ListOffsets, DeleteRecords and FindBatches, for partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, cast

from coordinator.client.calls.declared import ByPartitions, read_as
from coordinator.client.errors import Refusal, refusal_of
from coordinator.client.model import FetchFrom, ListedOffset, PartitionBatches, PartitionId, Result
from coordinator.client.routing.connection import REPLY_ELEMENTS_MAX
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import server_timeout_ms
from coordinator.client.routing.routed_call import READS, RoutedCall, Target
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.partitions import DELETE_RECORDS, FIND_BATCHES, LIST_OFFSETS
from coordinator.protocol.find_batches import (
    BatchLocation,
    FindBatchesBody,
    FoundPartition,
    decode_find_batches_response,
    encode_find_batches,
)
from coordinator.protocol.messages import (
    DeleteRecordsPartition,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
)
from coordinator.protocol.wire import MalformedMessage

POLLS: Final = "poll"
"""The purpose of connections on which requests wait for batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecords(Result):
    """The log start of a partition once records were deleted."""

    low_watermark: int = -1


def list_offsets(queries: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool) -> ByPartitions[ListedOffset]:
    """Look up offsets by timestamp."""

    def read(_: PartitionId, one: ListOffsetsPartitionResponse) -> ListedOffset:
        return read_as(ListedOffset, one, timestamp_ms=one.timestamp)

    parts = [
        (partition, ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)) for partition, timestamp in queries
    ]
    return ByPartitions(LIST_OFFSETS, parts, ListedOffset, read, purpose=READS, wait_for_creation=wait_for_creation)


def delete_records(points: Sequence[tuple[PartitionId, int]], *, wait_for_creation: bool) -> ByPartitions[DeletedRecords]:
    """Move log starts forward. Repeating it is harmless, so an unknown outcome is simply asked again."""
    parts = [(partition, DeleteRecordsPartition(partition_index=partition.partition, offset=offset)) for partition, offset in points]
    return ByPartitions(DELETE_RECORDS, parts, DeletedRecords, purpose=READS, wait_for_creation=wait_for_creation)


class FindBatchesCall(RoutedCall[PartitionBatches]):
    """Find the objects that hold the batches from offsets on. The byte limit holds for each node asked.

    A call that waits goes to one node, since all of them answer it, over a connection of its own. Only its first attempt waits.
    """

    operation = FIND_BATCHES
    purpose = READS

    def __init__(
        self,
        fetches: Sequence[FetchFrom],
        *,
        fetch_bytes_max: int,
        batches_per_partition_max: int,
        wait_for_creation: bool,
        min_bytes: int,
        max_wait_ms: int,
    ) -> None:
        self._fetches = fetches
        self._keys = [one.partition.key for one in fetches]
        self._bytes_max = fetch_bytes_max
        self._batches_max = batches_per_partition_max
        self._min_bytes = min_bytes
        self.wait_for_creation = wait_for_creation
        self.waits_ms = max_wait_ms
        self.goes_together = max_wait_ms > 0

    @property
    def targets(self) -> Sequence[Target]:
        return self._keys

    def refusal_of(self, answer: PartitionBatches) -> Refusal:
        return answer.refusal

    def refused(self, place: int, refusal: Refusal) -> PartitionBatches:
        return PartitionBatches(refusal=refusal)

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[PartitionBatches]:
        asked = [self._fetches[place] for place in places]
        topics = [
            (topic_id, [(one.partition.partition, one.offset, one.bytes_max) for one in group])
            for topic_id, group in groupby(asked, lambda one: one.partition.topic_id)
        ]
        wait_ms, self.waits_ms = self.waits_ms, 0
        serving_s = max(0.001, timeout_s - wait_ms / 1000)
        request = encode_find_batches(
            FindBatchesBody(self._bytes_max, self._batches_max, topics, server_timeout_ms(serving_s), self._min_bytes, wait_ms)
        )
        key, version = self.operation.key, max(self.operation.versions)
        if wait_ms:
            with pool.own_line(line._replace(purpose=POLLS)) as own:
                reply = await pool.request(own, key, version, request, timeout_s)
        else:
            reply = await pool.request(line, key, version, request, timeout_s)
        found = [
            (topic_id, one)
            for topic_id, partitions in decode_find_batches_response(reply, elements_max=REPLY_ELEMENTS_MAX).topics
            for one in partitions
        ]
        if [(topic_id, one.partition_index) for topic_id, one in found] != [one.partition for one in asked]:
            raise MalformedMessage(f"{len(places)} partitions were asked for; the answer has {len(found)}, or others")
        for fetch, (_, one) in zip(asked, found, strict=True):
            _check_order(fetch, one)
        return [_found(fetch.partition, one) for fetch, (_, one) in zip(asked, found, strict=True)]


def _check_order(fetch: FetchFrom, one: FoundPartition) -> None:
    """Raise MalformedMessage unless batches go forward from the offset asked for: readers ask on after the last of them."""
    asked = fetch.offset
    for _, _, _, _, _, base, last, _, _, _ in one.batches:
        if last < asked or last < base or (asked != fetch.offset and base < asked):
            raise MalformedMessage(f"{fetch.partition}: batches from offset {asked} on are due; the answer has offsets {base} to {last}")
        asked = last + 1


def _found(partition: PartitionId, one: FoundPartition) -> PartitionBatches:
    return PartitionBatches(
        refusal=refusal_of(one.error_code, _found_text(partition, one)),
        log_start_offset=one.log_start_offset,
        high_watermark=one.high_watermark,
        batches=cast("tuple[BatchLocation, ...]", tuple(one.batches)),
    )


def _found_text(partition: PartitionId, one: FoundPartition) -> str | None:
    """FindBatches has no texts of its own."""
    match one.error_code:
        case ErrorCode.OFFSET_OUT_OF_RANGE:
            log = f"log start offset {one.log_start_offset}, high watermark {one.high_watermark}"
            return f"{partition}: the offset lies outside the log ({log}); start from one of the two"
        case ErrorCode.OFFSET_NOT_AVAILABLE:
            return f"{partition}: the node does not know yet whether the offset exists; retry"
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED | ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return f"{partition}: this client may not find its batches, which needs {FIND_BATCHES.needs}; ask an operator to allow it"
        case _:
            return None
