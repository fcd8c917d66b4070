"""Answers an operator who wants retention enforced at once, or asks what it would delete."""

from __future__ import annotations

import asyncio

from coordinator.core.commands import Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import bad_timeout
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    EnforceRetentionHeldPartition,
    EnforceRetentionPartition,
    EnforceRetentionRequest,
    EnforceRetentionResponse,
    EnforceRetentionResult,
)
from coordinator.runtime.node.node import Node
from coordinator.runtime.retention.enforcer import Enforced


async def enforce_retention(node: Node, _: int, request: EnforceRetentionRequest) -> Message:
    """Answer EnforceRetention, of each coordinator that is named or of each one led here, one after the other."""
    ids = list(dict.fromkeys(request.coordinator_ids)) or node.replicas.led()
    deadline_s = asyncio.get_running_loop().time() + request.timeout_ms / 1000
    return EnforceRetentionResponse(results=tuple([_result(one, await _enforced(node, one, request, deadline_s)) for one in ids]))


async def _enforced(node: Node, coordinator_id: int, request: EnforceRetentionRequest, deadline_s: float) -> Enforced:
    if request.timeout_ms <= 0:
        return Enforced(bad_timeout(request.timeout_ms), [])
    try:
        async with asyncio.timeout_at(deadline_s):
            return await node.workers.retention.enforce(coordinator_id, frozenset(request.topic_ids), is_dry_run=request.dry_run)
    except TimeoutError:
        message = (
            f"coordinator {coordinator_id}: not every partition was looked at in {request.timeout_ms} ms; what was deleted stays deleted"
        )
        return Enforced(Outcome(error=ErrorCode.REQUEST_TIMED_OUT, message=f"{message}; repeat it with more time"), [])


def _result(coordinator_id: int, enforced: Enforced) -> EnforceRetentionResult:
    partitions = tuple(
        EnforceRetentionPartition(
            topic_id=one.topic_id,
            partition_index=one.partition,
            log_start_offset=one.log_start,
            new_log_start_offset=one.new_log_start,
            batches=one.batches,
            size_bytes=one.size_bytes,
        )
        for one in enforced.expired
    )
    return EnforceRetentionResult(
        error_code=enforced.outcome.error,
        error_message=enforced.outcome.message,
        coordinator_id=coordinator_id,
        partitions=partitions,
        held_partitions=tuple(
            EnforceRetentionHeldPartition(
                topic_id=one.topic_id, partition_index=one.partition, max_timestamp=one.timestamp_ms, next_offset=one.next_offset
            )
            for one in enforced.held
        ),
    )
