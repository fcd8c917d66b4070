"""ListOffsets, DeleteRecords and FindBatches, for partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.client.calls.declared import ByPartitions, read_as
from coordinator.client.errors import refusal_of
from coordinator.client.model import FetchFrom, ListedOffset, PartitionBatches, PartitionId, Result
from coordinator.client.routing.routed_call import READS
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.partitions import DELETE_RECORDS, FIND_BATCHES, LIST_OFFSETS
from coordinator.protocol.find_batches import BatchLocation
from coordinator.protocol.messages import (
    DeleteRecordsPartition,
    FindBatchesBatchInfo,
    FindBatchesPartition,
    FindBatchesPartitionResponse,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
)


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


def find_batches(
    fetches: Sequence[FetchFrom], *, fetch_bytes_max: int, batches_per_partition_max: int, wait_for_creation: bool
) -> ByPartitions[PartitionBatches]:
    """Find the objects that hold the batches from an offset on. The byte limit holds for each node asked."""
    parts = [
        (
            partition,
            FindBatchesPartition(partition_index=partition.partition, offset=offset, max_partition_fetch_bytes=bytes_max),
        )
        for partition, offset, bytes_max in fetches
    ]
    return ByPartitions(
        FIND_BATCHES,
        parts,
        PartitionBatches,
        _found,
        purpose=READS,
        wait_for_creation=wait_for_creation,
        fetch_max_bytes=fetch_bytes_max,
        max_batches_per_partition=batches_per_partition_max,
    )


def _found(partition: PartitionId, one: FindBatchesPartitionResponse) -> PartitionBatches:
    return PartitionBatches(
        refusal=refusal_of(one.error_code, _found_text(partition, one)),
        log_start_offset=one.log_start_offset,
        high_watermark=one.high_watermark,
        batches=tuple(_location(batch) for batch in one.batches),
    )


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


def _location(one: FindBatchesBatchInfo) -> BatchLocation:
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
