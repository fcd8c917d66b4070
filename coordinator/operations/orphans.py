"""The scan for orphans between the wire and the node that leads the directory (`runtime.orphan_answers`)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from coordinator.operations.declaration import ALTER, AnsweredBy, Lane, Operation, declare, refuse_whole
from coordinator.protocol.messages import ScanOrphansRequest, ScanOrphansResponse


class ScanAction(IntEnum):
    """The action that the request asks for: the state of the scan, a new round, or a look that deletes nothing."""

    TELL = 0
    BEGIN = 1
    LOOK = 2


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
