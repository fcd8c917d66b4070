"""Snapshots between the wire and the node, which takes and describes them itself (`runtime.snapshot_answers`)."""

from __future__ import annotations

from typing import Final

from coordinator.core.commands import Outcome
from coordinator.operations.declaration import ALTER, DESCRIBE, AnsweredBy, Lane, Operation, declare
from coordinator.protocol.codec import Message
from coordinator.protocol.entity import blank
from coordinator.protocol.messages import (
    DescribeSnapshotsCoordinator,
    DescribeSnapshotsRequest,
    DescribeSnapshotsResponse,
    TakeSnapshotRequest,
    TakeSnapshotResponse,
    TakeSnapshotResult,
)

_ALL = (-1,)
"""The refusal of a request for all coordinators names one that does not exist."""


def _refuse_take(_: int, request: TakeSnapshotRequest, outcome: Outcome) -> Message:
    results = (
        TakeSnapshotResult(error_code=outcome.error, error_message=outcome.message, coordinator_id=one)
        for one in request.coordinator_ids or _ALL
    )
    return TakeSnapshotResponse(results=tuple(results))


def _refuse_describe(_: int, request: DescribeSnapshotsRequest, outcome: Outcome) -> Message:
    described = (
        blank(DescribeSnapshotsCoordinator, error_code=outcome.error, error_message=outcome.message, coordinator_id=one)
        for one in request.coordinator_ids or _ALL
    )
    return blank(DescribeSnapshotsResponse, coordinators=tuple(described))


TAKE_SNAPSHOT: Final[Operation] = declare(
    TakeSnapshotRequest, TakeSnapshotResponse, answered_by=AnsweredBy.COORDINATOR, acl=ALTER, lane=Lane.ALONE, refuse=_refuse_take
)

DESCRIBE_SNAPSHOTS: Final[Operation] = declare(
    DescribeSnapshotsRequest,
    DescribeSnapshotsResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=DESCRIBE,
    is_unbounded=True,
    refuse=_refuse_describe,
)
