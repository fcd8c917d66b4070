"""Steps of the migration of classic partitions, for partitions. Repeating a step is harmless."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from coordinator.client.calls.declared import ByPartitions, read_as
from coordinator.client.errors import Refusal
from coordinator.client.model import PartitionId, Result, SeededProducer
from coordinator.core.commands import LogOrigin
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.migrations import (
    DESCRIBE_DISKLESS_LOG,
    INIT_DISKLESS_LOG,
    REPAIR_DISKLESS_LOG,
    REPORT_PREFIX_START,
    RESET_DISKLESS_LOG,
    origin_of,
)
from coordinator.protocol.messages import (
    DescribeDisklessLogPartition,
    DescribeDisklessLogPartitionResult,
    InitDisklessLogPartition,
    RepairDisklessLogPartition,
    ReportPrefixStartPartition,
    ResetDisklessLogPartition,
    SeededBatchState,
    SeededProducerState,
)

MigrationState = Literal["pending", "initialised", "born"]
_STATES: dict[LogOrigin, MigrationState] = {
    LogOrigin.PENDING: "pending",
    LogOrigin.INITIALISED: "initialised",
    LogOrigin.BORN: "born",
}


class LogToInit(NamedTuple):
    """A classic partition whose diskless log begins at `start_offset` (B0)."""

    partition: PartitionId
    start_offset: int
    prefix_start: int
    leader_epoch: int
    producers: tuple[SeededProducer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DisklessLogState(Result):
    """Where the migration of a partition stands. `start_offset` is B0; offsets and the epoch are -1 where they are not set.

    `prefix_start` is the start of the classic part, `suffix_start` that of the diskless part.
    """

    state: MigrationState = "pending"
    start_offset: int = -1
    prefix_start: int = -1
    suffix_start: int = -1
    high_watermark: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport(Result):
    """The change that a repair makes: the records of `[start_offset, previous_start_offset)` are not in the classic log any more.

    The diskless part goes from `suffix_start` to `high_watermark`.
    """

    previous_start_offset: int = -1
    start_offset: int = -1
    prefix_start: int = -1
    suffix_start: int = -1
    high_watermark: int = -1

    @property
    def lost_offsets(self) -> int:
        """How many offsets no reader finds a record at, between the classic and the diskless part."""
        return max(0, self.suffix_start - self.start_offset)


def init_logs(logs: Sequence[LogToInit]) -> ByPartitions[Result]:
    """Begin diskless logs."""
    return ByPartitions(INIT_DISKLESS_LOG, [(one.partition, _to_init(one)) for one in logs], Result)


def _to_init(one: LogToInit) -> InitDisklessLogPartition:
    producers = tuple(
        SeededProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            batches=tuple(
                SeededBatchState(
                    first_sequence=batch.first_sequence,
                    last_sequence=batch.last_sequence,
                    base_offset=batch.base_offset,
                    last_offset=batch.last_offset,
                    max_timestamp=batch.max_timestamp_ms,
                )
                for batch in producer.batches
            ),
        )
        for producer in one.producers
    )
    return InitDisklessLogPartition(
        partition_index=one.partition.partition,
        start_offset=one.start_offset,
        prefix_start=one.prefix_start,
        leader_epoch=one.leader_epoch,
        producers=producers,
    )


def reset_log(partition: PartitionId, leader_epoch: int) -> ByPartitions[Result]:
    """Make a partition pending again."""
    part = ResetDisklessLogPartition(partition_index=partition.partition, leader_epoch=leader_epoch)
    return ByPartitions(RESET_DISKLESS_LOG, [(partition, part)], Result)


def report_prefix(partition: PartitionId, prefix_start: int, leader_epoch: int) -> ByPartitions[Result]:
    """Report where a classic log begins."""
    part = ReportPrefixStartPartition(partition_index=partition.partition, prefix_start=prefix_start, leader_epoch=leader_epoch)
    return ByPartitions(REPORT_PREFIX_START, [(partition, part)], Result)


def repair_log(partition: PartitionId, start_offset: int, leader_epoch: int, *, is_dry_run: bool) -> ByPartitions[RepairReport]:
    """Lower the start offset of a partition."""
    part = RepairDisklessLogPartition(partition_index=partition.partition, start_offset=start_offset, leader_epoch=leader_epoch)
    return ByPartitions(REPAIR_DISKLESS_LOG, [(partition, part)], RepairReport, dry_run=is_dry_run)


def describe_logs(partitions: Sequence[PartitionId]) -> ByPartitions[DisklessLogState]:
    """Describe where migrations stand."""
    parts = [(partition, DescribeDisklessLogPartition(partition_index=partition.partition)) for partition in partitions]
    return ByPartitions(DESCRIBE_DISKLESS_LOG, parts, DisklessLogState, _described)


def _described(_: PartitionId, one: DescribeDisklessLogPartitionResult) -> DisklessLogState:
    origin = origin_of(one.state)
    described = read_as(DisklessLogState, one, state=_STATES[origin or LogOrigin.PENDING])
    if described.error is ErrorCode.NONE and origin is None:
        text = f"the state {one.state} of a partition's migration is unknown to this client; use a newer one"
        return replace(described, refusal=Refusal(ErrorCode.UNSUPPORTED_VERSION, text))
    return described
