"""Answers what operators ask of a restored log: what was restored, and to call that finished."""

from __future__ import annotations

from typing import cast

from coordinator.core.commands import OK, FinishRestore, Outcome
from coordinator.core.directory.content import Restoration
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.operations.declaration import bad_timeout
from coordinator.operations.maintenance import NO_RESTORE
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import FinishRestoreCoordinator, FinishRestoreRequest, FinishRestoreResponse
from coordinator.runtime.node.node import Node


async def finish_restore(node: Node, _: int, request: FinishRestoreRequest) -> Message:
    """Answer FinishRestore: what became of it, and the restore as this node knows it then."""
    outcome = bad_timeout(request.timeout_ms) if request.timeout_ms <= 0 else await _finish(node, request)
    restored = {partition: one for partition in node.replicas.ids() if (one := _restoration(node, partition)) is not None}
    first = restored.get(DIRECTORY_PARTITION)
    return FinishRestoreResponse(
        error_code=outcome.error,
        error_message=outcome.message,
        restore_id=NO_RESTORE if first is None else first.begun.restore_id,
        is_finished=first is not None and first.is_finished,
        old_cluster_id="" if first is None else first.begun.old_cluster_id,
        old_topic_id=ZERO_TOPIC_ID if first is None else first.begun.old_topic_id,
        coordinators=tuple(
            FinishRestoreCoordinator(
                coordinator_id=partition,
                old_end_offset=one.begun.old_end_offset,
                file_id_base=one.begun.file_id_base,
                location=one.begun.location,
            )
            for partition, one in sorted(restored.items())
        ),
    )


async def _finish(node: Node, request: FinishRestoreRequest) -> Outcome:
    if not node.replicas.is_leading(DIRECTORY_PARTITION):
        return node.router.not_led(DIRECTORY_PARTITION)
    if request.restore_id == NO_RESTORE:
        return OK
    first = _restoration(node, DIRECTORY_PARTITION)
    if first is not None:
        # A partition that is still missing could never be distinguished from an empty one again.
        missing = [one for one in range(first.begun.partition_count) if not _is_of(_restoration(node, one), first)]
        if missing:
            message = (
                f"coordinators {', '.join(map(str, missing))} are not restored, as far as node {node.config.node_id} has loaded them:"
                " wait until it is ready, or run `diskless restore start` again"
            )
            return Outcome(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message=message)
    return cast(Outcome, await node.replicas[DIRECTORY_PARTITION].ask(FinishRestore(restore_id=request.restore_id), request.timeout_ms))


def _is_of(one: Restoration | None, first: Restoration) -> bool:
    return one is not None and one.begun.restore_id == first.begun.restore_id


def _restoration(node: Node, partition: int) -> Restoration | None:
    view = node.replicas.shard(partition)
    return None if view is None else view.restoration
