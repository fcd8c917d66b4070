"""The coordinator's side of a migration in memory, with the rules of the real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.errors import InvalidRequest, ServiceError
from coordinator.client.model import SeededProducer
from coordinator.kafka.errors import ErrorCode


class InMemoryDisklessLogs:
    """`MigrationCalls` of partitions that were created as pending."""

    def __init__(self) -> None:
        self._logs: dict[tuple[bytes, int], DisklessLogState] = {}
        self.seeds: dict[tuple[bytes, int], tuple[SeededProducer, ...]] = {}

    async def init_diskless_log(
        self,
        topic_id: bytes,
        partition: int,
        *,
        start_offset: int,
        prefix_start: int,
        leader_epoch: int,
        producers: Sequence[SeededProducer],
    ) -> None:
        """Set B0 once. Raises `ServiceError` (FENCED_LEADER_EPOCH), `InvalidRequest`."""
        log = await self.describe_diskless_log(topic_id, partition)
        if leader_epoch < log.leader_epoch:
            raise ServiceError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {leader_epoch}; epoch {log.leader_epoch} is known")
        if not 0 <= prefix_start <= start_offset:
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, f"prefix start {prefix_start}, start {start_offset}")
        if log.state == "initialised" and start_offset != log.start_offset:
            raise InvalidRequest(ErrorCode.INVALID_REQUEST, f"the log begins at {log.start_offset}")
        if log.state == "pending":
            self.seeds[topic_id, partition] = tuple(producers)
            prefix = prefix_start
        else:
            prefix = log.prefix_start
        self._logs[topic_id, partition] = DisklessLogState(
            state="initialised",
            start_offset=start_offset,
            prefix_start=prefix,
            suffix_start=start_offset,
            high_watermark=start_offset,
            leader_epoch=leader_epoch,
        )

    async def describe_diskless_log(self, topic_id: bytes, partition: int) -> DisklessLogState:
        """Return the state of a log."""
        pending = DisklessLogState(state="pending", start_offset=-1, prefix_start=-1, suffix_start=-1, high_watermark=-1, leader_epoch=-1)
        return self._logs.get((topic_id, partition), pending)

    def commit(self, topic_id: bytes, partition: int, count: int) -> None:
        """Let diskless records come in."""
        log = self._logs[topic_id, partition]
        self._logs[topic_id, partition] = replace(log, high_watermark=log.high_watermark + count)

    def reset(self, topic_id: bytes, partition: int, leader_epoch: int) -> None:
        """Unset B0, as an operator does."""
        self._logs[topic_id, partition] = DisklessLogState(
            state="pending", start_offset=-1, prefix_start=-1, suffix_start=-1, high_watermark=-1, leader_epoch=leader_epoch
        )
