"""EnforceRetention, for coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.client.calls.declared import ByCoordinators, read_as
from coordinator.client.model import PartitionId, Result
from coordinator.operations.maintenance import ENFORCE_RETENTION
from coordinator.protocol.messages import EnforceRetentionResult


class ExpiredBatches(NamedTuple):
    """Batches of a partition that were past its retention: the records of `[log_start_offset, new_log_start_offset)`."""

    partition: PartitionId
    log_start_offset: int
    new_log_start_offset: int
    batches: int
    size_bytes: int


class HeldPartition(NamedTuple):
    """A partition whose first batch, which ends before `next_offset`, has a timestamp in the future: retention by time deletes nothing."""

    partition: PartitionId
    timestamp_ms: int
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnforcedRetention(Result):
    """The batches of a coordinator that were deleted, or would be; with an error perhaps not all of them, and no `held` partition."""

    coordinator_id: int = -1
    expired: tuple[ExpiredBatches, ...] = ()
    held: tuple[HeldPartition, ...] = ()


def enforce_retention(coordinator_ids: Sequence[int], topic_ids: Sequence[bytes], *, is_dry_run: bool) -> ByCoordinators[EnforcedRetention]:
    """Enforce retention in each coordinator, of all topics or of those that are named. Repeating it deletes what expired since."""

    def read(_: int, one: EnforceRetentionResult) -> EnforcedRetention:
        expired = tuple(
            ExpiredBatches(
                PartitionId(each.topic_id, each.partition_index),
                each.log_start_offset,
                each.new_log_start_offset,
                each.batches,
                each.size_bytes,
            )
            for each in one.partitions
        )
        held = tuple(
            HeldPartition(PartitionId(each.topic_id, each.partition_index), each.max_timestamp, each.next_offset)
            for each in one.held_partitions
        )
        return read_as(EnforcedRetention, one, expired=expired, held=held)

    return ByCoordinators(ENFORCE_RETENTION, coordinator_ids, EnforcedRetention, read, topic_ids=tuple(topic_ids), dry_run=is_dry_run)
