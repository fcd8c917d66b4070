"""EnforceRetention as a node answers it."""

from __future__ import annotations

from typing import cast

from coordinator.kafka.errors import ErrorCode
from coordinator.operations.maintenance import ENFORCE_RETENTION
from coordinator.protocol.codec import decode, encode
from coordinator.protocol.messages import (
    EnforceRetentionPartition,
    EnforceRetentionRequest,
    EnforceRetentionResponse,
    EnforceRetentionResult,
)
from coordinator.runtime.answers.serving import serve
from tests.core.build import TOPIC
from tests.patient_loop import loop_ms
from tests.runtime.nodes import TIMEOUT_MS
from tests.runtime.test_retention import CENTURY_MS, NEVER, Service, service


async def enforce(
    to: Service, *coordinator_ids: int, topic_ids: tuple[bytes, ...] = (), dry_run: bool = False, timeout_ms: int = TIMEOUT_MS
) -> list[EnforceRetentionResult]:
    request = EnforceRetentionRequest(coordinator_ids=coordinator_ids, topic_ids=topic_ids, dry_run=dry_run, timeout_ms=timeout_ms)
    response = cast(EnforceRetentionResponse, await serve(to.node, ENFORCE_RETENTION, 0, request))
    assert decode(EnforceRetentionResponse, encode(response)) == response
    return list(response.results)


async def test_each_coordinator_tells_what_went() -> None:
    async with service(NEVER, retention_ms="60000") as to:
        for partition in (0, 1):
            await to.commit(partition, 90_000, 1_000)
        gone = [
            EnforceRetentionPartition(
                topic_id=TOPIC, partition_index=partition, log_start_offset=0, new_log_start_offset=1, batches=1, size_bytes=10
            )
            for partition in (0, 1)
        ]
        owners = [to.owner(0), to.owner(1)]
        assert sorted(owners) == [0, 1]
        for dry_run in (True, False):
            told = await enforce(to, *owners, owners[0], dry_run=dry_run)
            assert [(one.coordinator_id, one.error_code, one.partitions) for one in told] == [
                (owners[0], 0, (gone[0],)),
                (owners[1], 0, (gone[1],)),
            ]
        assert [(one.coordinator_id, one.partitions) for one in await enforce(to)] == [(0, ()), (1, ())]


async def test_a_partition_that_a_time_in_the_future_keeps_is_told() -> None:
    async with service(NEVER, retention_ms="60000") as to:
        await to.commit(0, -CENTURY_MS, 90_000)
        [told] = await enforce(to, to.owner(0), dry_run=True)
        assert told.partitions == ()
        [held] = told.held_partitions
        assert (held.topic_id, held.partition_index, held.next_offset) == (TOPIC, 0, 1)
        assert held.max_timestamp > loop_ms()


async def test_topics_that_are_not_named_stay() -> None:
    async with service(NEVER, retention_ms="60000") as to:
        await to.commit(0, 90_000)
        [told] = await enforce(to, to.owner(0), topic_ids=(b"x" * 16,))
        assert told.partitions == ()
        [told] = await enforce(to, to.owner(0), topic_ids=(TOPIC,))
        assert len(told.partitions) == 1


async def test_what_cannot_be_served_is_refused_alone() -> None:
    async with service(NEVER, retention_ms="60000") as to:
        first, second = await enforce(to, 0, 7)
        assert first.error_code == ErrorCode.NONE
        assert second.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        [refused] = await enforce(to, 0, timeout_ms=0)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
