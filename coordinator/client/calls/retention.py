"""EnforceRetention: one request for the coordinators of a node; `routing.py` decides what goes where and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from coordinator.client.errors import Refusal, refusal_of
from coordinator.client.model import PartitionId, Result
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import server_timeout_ms
from coordinator.client.routing.routed_call import ADMIN, RoutedCall, Target
from coordinator.operations.retention import ENFORCE_RETENTION
from coordinator.protocol.messages import EnforceRetentionRequest, EnforceRetentionResponse
from coordinator.protocol.wire import MalformedMessage


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

    coordinator_id: int
    expired: tuple[ExpiredBatches, ...] = ()
    held: tuple[HeldPartition, ...] = ()


class EnforceRetentionCall(RoutedCall[EnforcedRetention]):
    """Enforce retention in each coordinator, of all topics or of those that are named. Repeating it deletes what expired since."""

    operation = ENFORCE_RETENTION
    purpose = ADMIN
    is_long = True

    def __init__(self, coordinator_ids: Sequence[int], topic_ids: Sequence[bytes], *, is_dry_run: bool) -> None:
        self._coordinator_ids = coordinator_ids
        self._topic_ids = tuple(topic_ids)
        self._is_dry_run = is_dry_run

    @property
    def is_write(self) -> bool:
        return not self._is_dry_run

    @property
    def targets(self) -> Sequence[Target]:
        return self._coordinator_ids

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[EnforcedRetention]:
        asked = tuple(self._coordinator_ids[place] for place in places)
        request = EnforceRetentionRequest(
            coordinator_ids=asked, topic_ids=self._topic_ids, dry_run=self._is_dry_run, timeout_ms=server_timeout_ms(timeout_s)
        )
        response = cast(EnforceRetentionResponse, await pool.call(line, request, timeout_s))
        if tuple(one.coordinator_id for one in response.results) != asked:
            raise MalformedMessage(f"{len(asked)} coordinators were named; the answer has {len(response.results)}, or others")
        return [
            EnforcedRetention(
                refusal=refusal_of(one.error_code, one.error_message),
                coordinator_id=one.coordinator_id,
                expired=tuple(
                    ExpiredBatches(
                        PartitionId(each.topic_id, each.partition_index),
                        each.log_start_offset,
                        each.new_log_start_offset,
                        each.batches,
                        each.size_bytes,
                    )
                    for each in one.partitions
                ),
                held=tuple(
                    HeldPartition(PartitionId(each.topic_id, each.partition_index), each.max_timestamp, each.next_offset)
                    for each in one.held_partitions
                ),
            )
            for one in response.results
        ]

    def refusal_of(self, answer: EnforcedRetention) -> Refusal:
        return answer.refusal

    def refused(self, place: int, refusal: Refusal) -> EnforcedRetention:
        return EnforcedRetention(refusal=refusal, coordinator_id=self._coordinator_ids[place])
