"""What operators have nodes do in the background, between the wire and the nodes, which do it themselves (`runtime.answers`).

Snapshots of coordinators, retention on demand, the scan for orphans, and the end of the restore of a lost log.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from coordinator.core.commands import Outcome
from coordinator.operations.declaration import ALTER, DESCRIBE, AnsweredBy, Lane, Operation, Refuse, declare, refuse_whole
from coordinator.operations.nesting import list_in
from coordinator.protocol.codec import Message
from coordinator.protocol.entity import ResponsePart, blank
from coordinator.protocol.messages import (
    DescribeSnapshotsRequest,
    DescribeSnapshotsResponse,
    EnforceRetentionRequest,
    EnforceRetentionResponse,
    FinishRestoreRequest,
    FinishRestoreResponse,
    ScanOrphansRequest,
    ScanOrphansResponse,
    TakeSnapshotRequest,
    TakeSnapshotResponse,
)

NO_RESTORE: Final = bytes(16)
"""Where the id of a restore is due: there is none, or the one that there is is only asked for."""


class ScanAction(IntEnum):
    """The action that a request about orphans asks for: the state of the scan, a new round, or a look that deletes nothing."""

    TELL = 0
    BEGIN = 1
    LOOK = 2


def _refuse_each(response: type[ResponsePart]) -> Refuse:
    """Return the refusal of a request on coordinators for each of them; that of a request for all names one that does not exist."""
    results, make = list_in(response)

    def refuse(_: int, request: Any, outcome: Outcome) -> Message:
        known = {"error_code": outcome.error, "error_message": outcome.message}
        refused = tuple(blank(make, coordinator_id=one, **known) for one in request.coordinator_ids or (-1,))
        return blank(response, **{results: refused})

    return refuse


TAKE_SNAPSHOT: Final[Operation] = declare(
    TakeSnapshotRequest,
    TakeSnapshotResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=ALTER,
    lane=Lane.ALONE,
    refuse=_refuse_each(TakeSnapshotResponse),
)

DESCRIBE_SNAPSHOTS: Final[Operation] = declare(
    DescribeSnapshotsRequest,
    DescribeSnapshotsResponse,
    answered_by=AnsweredBy.ANY_NODE,
    acl=DESCRIBE,
    is_unbounded=True,
    refuse=_refuse_each(DescribeSnapshotsResponse),
)

ENFORCE_RETENTION: Final[Operation] = declare(
    EnforceRetentionRequest,
    EnforceRetentionResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=ALTER,
    lane=Lane.ALONE,
    is_unbounded=True,
    refuse=_refuse_each(EnforceRetentionResponse),
    only_looks=lambda request: bool(request.dry_run),
)

SCAN_ORPHANS: Final[Operation] = declare(
    ScanOrphansRequest,
    ScanOrphansResponse,
    answered_by=AnsweredBy.DIRECTORY,
    acl=ALTER,
    lane=Lane.ALONE,
    is_unbounded=True,
    refuse=refuse_whole(ScanOrphansResponse),
    only_looks=lambda request: request.action != ScanAction.BEGIN,
)

FINISH_RESTORE: Final[Operation] = declare(
    FinishRestoreRequest,
    FinishRestoreResponse,
    answered_by=AnsweredBy.DIRECTORY,
    acl=ALTER,
    lane=Lane.ALONE,
    refuse=refuse_whole(FinishRestoreResponse),
    only_looks=lambda request: request.restore_id == NO_RESTORE,
)
