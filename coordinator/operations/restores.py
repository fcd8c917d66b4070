"""The restore of a lost log between the wire and the node that leads the directory (`runtime.restore_answers`)."""

from __future__ import annotations

from typing import Final

from coordinator.operations.declaration import ALTER, AnsweredBy, Lane, Operation, declare, refuse_whole
from coordinator.protocol.messages import FinishRestoreRequest, FinishRestoreResponse

NO_RESTORE: Final = bytes(16)
"""Where the id of a restore is due: there is none, or the one that there is is only asked for."""

FINISH_RESTORE: Final[Operation] = declare(
    FinishRestoreRequest,
    FinishRestoreResponse,
    answered_by=AnsweredBy.DIRECTORY,
    acl=ALTER,
    lane=Lane.ALONE,
    refuse=refuse_whole(FinishRestoreResponse),
    only_looks=lambda request: request.restore_id == NO_RESTORE,
)
