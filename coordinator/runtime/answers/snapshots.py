"""Answers what operators ask of snapshots: to take them, and what this node knows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from coordinator.core.commands import Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID
from coordinator.operations.declaration import bad_timeout
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import (
    DescribeSnapshotsCoordinator,
    DescribeSnapshotsRequest,
    DescribeSnapshotsResponse,
    DescribeSnapshotsSnapshot,
    TakeSnapshotRequest,
    TakeSnapshotResponse,
    TakeSnapshotResult,
)
from coordinator.runtime.node.node import Node
from coordinator.runtime.snapshots.keeper import KnownSnapshot, PartitionSnapshots


async def take_snapshot(node: Node, _: int, request: TakeSnapshotRequest) -> Message:
    """Answer TakeSnapshot: a snapshot of each coordinator that is named, or of each one led here, is committed or refused."""
    ids = _once(request.coordinator_ids) or node.replicas.led()
    results = await asyncio.gather(*(_take(node, coordinator_id, request.timeout_ms) for coordinator_id in ids))
    return TakeSnapshotResponse(results=tuple(results))


async def _take(node: Node, coordinator_id: int, timeout_ms: int) -> TakeSnapshotResult:
    if timeout_ms <= 0:
        outcome = bad_timeout(timeout_ms)
    else:
        outcome = await node.workers.snapshots.take(coordinator_id, timeout_ms)
    described = node.workers.snapshots.describe(coordinator_id) if outcome.error is ErrorCode.NONE else None
    newest = described.known[-1].snapshot if described is not None and described.known else None
    return TakeSnapshotResult(
        error_code=outcome.error,
        error_message=outcome.message,
        coordinator_id=coordinator_id,
        end_offset=-1 if newest is None else newest.end_offset,
        size_bytes=-1 if newest is None else newest.size_bytes,
    )


async def describe_snapshots(node: Node, _: int, request: DescribeSnapshotsRequest) -> Message:
    """Answer DescribeSnapshots from this node's replicas, which may lag the log."""
    facts = node.topic.facts
    return DescribeSnapshotsResponse(
        cluster_id=None if facts is None else facts.cluster_id,
        topic_id=ZERO_TOPIC_ID if facts is None else facts.topic_id,
        node_id=node.config.node_id,
        coordinators=tuple(_described(node, one) for one in _once(request.coordinator_ids) or node.replicas.ids()),
    )


def _described(node: Node, coordinator_id: int) -> DescribeSnapshotsCoordinator:
    found = node.workers.snapshots.describe(coordinator_id)
    if found is None:
        outcome = _not_known(node, coordinator_id)
        return DescribeSnapshotsCoordinator(
            error_code=outcome.error, error_message=outcome.message, coordinator_id=coordinator_id, snapshots=()
        )
    return described(found)


def _not_known(node: Node, coordinator_id: int) -> Outcome:
    if node.replicas.follows(coordinator_id):
        message = f"coordinator {coordinator_id} is being loaded on node {node.config.node_id}; retry, or ask another node"
        return Outcome(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message=message)
    if node.replicas.exists(coordinator_id):
        message = f"node {node.config.node_id} does not follow coordinator {coordinator_id}; ask another node"
        return Outcome(error=ErrorCode.NOT_COORDINATOR, message=message)
    message = f"there is no coordinator {coordinator_id}, as far as node {node.config.node_id} knows; list them and name one of those"
    return Outcome(error=ErrorCode.RESOURCE_NOT_FOUND, message=message)


def described(found: PartitionSnapshots) -> DescribeSnapshotsCoordinator:
    """Return what a node knows of the snapshots of a coordinator as its part of the response, the newest snapshot first."""
    return DescribeSnapshotsCoordinator(
        error_code=ErrorCode.NONE,
        coordinator_id=found.partition,
        log_start_offset=found.log_start,
        applied_offset=found.applied_offset,
        bytes_since_snapshot=found.log_bytes,
        age_ms=found.age_ms,
        step=found.step,
        last_error=found.last_error or None,
        prune_target=found.prune_target,
        prune_reason=found.prune_reason or None,
        snapshots=tuple(map(_snapshot, reversed(found.known))),
    )


def _snapshot(known: KnownSnapshot) -> DescribeSnapshotsSnapshot:
    one = known.snapshot
    return DescribeSnapshotsSnapshot(
        mark_offset=one.mark_offset,
        end_offset=one.end_offset,
        epoch=one.epoch,
        size_bytes=one.size_bytes,
        sha256=one.sha256,
        digest=one.digest,
        location=one.location,
        is_verified=known.is_verified,
        is_local=known.is_local,
    )


def _once(coordinator_ids: Iterable[int]) -> list[int]:
    """The ids without repetitions, in their order: a request that names one twice asks for one snapshot."""
    return list(dict.fromkeys(coordinator_ids))
