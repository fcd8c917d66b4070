"""MovePartitions: moves of partitions are ordered here, and carried out by the worker of the directory."""

from __future__ import annotations

from coordinator.core.commands import Outcome, WantedMove
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import bad_timeout
from coordinator.protocol.entity import blank
from coordinator.protocol.messages import (
    MovePartitionsMove,
    MovePartitionsPartitionResult,
    MovePartitionsRequest,
    MovePartitionsResponse,
)
from coordinator.runtime.node.node import Node


async def move_partitions(node: Node, _: int, request: MovePartitionsRequest) -> MovePartitionsResponse:
    """Order moves, or only check them; tell which are under way afterwards."""
    if request.timeout_ms <= 0:
        return _refused(bad_timeout(request.timeout_ms))
    wanted = [
        WantedMove(topic_id=one.topic_id, partition=one.partition_index, to_coordinator=one.to_coordinator_id) for one in request.partitions
    ]
    outcomes = await node.directory.order_moves(wanted, request.timeout_ms, is_dry_run=request.only_check)
    if isinstance(outcomes, Outcome):
        return _refused(outcomes)
    return MovePartitionsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        partitions=tuple(
            MovePartitionsPartitionResult(
                topic_id=one.topic_id, partition_index=one.partition, error_code=outcome.error, error_message=outcome.message
            )
            for one, outcome in zip(wanted, outcomes, strict=True)
        ),
        under_way=tuple(
            MovePartitionsMove(
                topic_id=one.move.topic_id,
                partition_index=one.move.partition,
                move_id=one.move.move_id,
                from_coordinator_id=one.move.from_coordinator,
                to_coordinator_id=one.move.to_coordinator,
                age_ms=round(age_s * 1000),
                waits_for=one.waits or None,
            )
            for one, age_s in node.directory.moves.progress.under_way()
        ),
    )


def _refused(outcome: Outcome) -> MovePartitionsResponse:
    return blank(MovePartitionsResponse, error_code=outcome.error, error_message=outcome.message)
