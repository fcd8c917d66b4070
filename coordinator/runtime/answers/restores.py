"""Answers what operators ask of a restored log: what was restored, and to call that finished."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, cast

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
from coordinator.runtime.ports import PeerUnavailable
from records.model import Endpoint

ASK_TIMEOUT_MS: Final = 2_000
"""Other nodes are asked for what they follow; one that does not answer in this time may be dead."""


async def finish_restore(node: Node, _: int, request: FinishRestoreRequest) -> Message:
    """Answer FinishRestore: what became of it, and what was restored as the leader of the directory knows or learns it then."""
    if request.timeout_ms <= 0:
        return _answer(node, bad_timeout(request.timeout_ms), {})
    restored = _restored_here(node)
    if request.only_here:
        return _answer(node, OK, restored)
    if not node.replicas.is_leading(DIRECTORY_PARTITION):
        return _answer(node, node.router.not_led(DIRECTORY_PARTITION), restored)
    first = _restoration(node, DIRECTORY_PARTITION)
    if first is not None:
        restored = await _restored_anywhere(node, first) | restored
    return _answer(node, OK if request.restore_id == NO_RESTORE else await _finish(node, request, first, restored), restored)


def _answer(node: Node, outcome: Outcome, restored: Mapping[int, FinishRestoreCoordinator]) -> FinishRestoreResponse:
    first = _restoration(node, DIRECTORY_PARTITION)
    return FinishRestoreResponse(
        error_code=outcome.error,
        error_message=outcome.message,
        restore_id=NO_RESTORE if first is None else first.begun.restore_id,
        is_finished=first is not None and first.is_finished,
        old_cluster_id="" if first is None else first.begun.old_cluster_id,
        old_topic_id=ZERO_TOPIC_ID if first is None else first.begun.old_topic_id,
        coordinators=tuple(restored[partition] for partition in sorted(restored)),
    )


def _restored_here(node: Node) -> dict[int, FinishRestoreCoordinator]:
    """The coordinators followed here that were restored together with the directory."""
    first = _restoration(node, DIRECTORY_PARTITION)
    return {
        partition: FinishRestoreCoordinator(
            coordinator_id=partition,
            old_end_offset=one.begun.old_end_offset,
            file_id_base=one.begun.file_id_base,
            location=one.begun.location,
        )
        for partition in node.replicas.ids()
        if first is not None and (one := _restoration(node, partition)) is not None and one.begun.restore_id == first.begun.restore_id
    }


async def _restored_anywhere(node: Node, first: Restoration) -> dict[int, FinishRestoreCoordinator]:
    """What the other nodes say was restored together with the directory; nothing of those that do not answer."""
    if all(node.replicas.follows(partition) for partition in node.replicas.ids()):
        return {}
    request = FinishRestoreRequest(restore_id=NO_RESTORE, timeout_ms=ASK_TIMEOUT_MS, only_here=True)

    async def ask(endpoint: Endpoint) -> Message | None:
        try:
            return await node.context.peers.call(endpoint.host, endpoint.port, request, ASK_TIMEOUT_MS)
        except PeerUnavailable:
            return None

    others = [node.view.node_endpoint(one.endpoints) for one in node.context.other_nodes() if one.endpoints]
    answers = await asyncio.gather(*map(ask, others))
    return {
        one.coordinator_id: one
        for answer in answers
        if isinstance(answer, FinishRestoreResponse) and answer.restore_id == first.begun.restore_id
        for one in answer.coordinators
    }


async def _finish(
    node: Node, request: FinishRestoreRequest, first: Restoration | None, restored: Mapping[int, FinishRestoreCoordinator]
) -> Outcome:
    if first is not None:
        # A partition that is still missing could never be distinguished from an empty one again.
        missing = [one for one in range(first.begun.partition_count) if one not in restored]
        if missing:
            message = (
                f"coordinators {', '.join(map(str, missing))} are not restored, as far as the nodes that follow them have loaded them:"
                " wait until those are ready, or run `diskless restore start` again"
            )
            return Outcome(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message=message)
    return cast(Outcome, await node.replicas[DIRECTORY_PARTITION].ask(FinishRestore(restore_id=request.restore_id), request.timeout_ms))


def _restoration(node: Node, partition: int) -> Restoration | None:
    view = node.replicas.shard(partition)
    return None if view is None else view.restoration
