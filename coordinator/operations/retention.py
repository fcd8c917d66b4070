"""Retention on demand between the wire and the node, which enforces it itself (`runtime.retention_answers`)."""

from __future__ import annotations

from typing import Final

from coordinator.core.commands import Outcome
from coordinator.operations.declaration import ALTER, AnsweredBy, Lane, Operation, declare
from coordinator.protocol.codec import Message
from coordinator.protocol.entity import blank
from coordinator.protocol.messages import EnforceRetentionRequest, EnforceRetentionResponse, EnforceRetentionResult


def _refuse(_: int, request: EnforceRetentionRequest, outcome: Outcome) -> Message:
    """Refuse each coordinator; the refusal of a request for all names one that does not exist."""
    return EnforceRetentionResponse(
        results=tuple(
            blank(EnforceRetentionResult, error_code=outcome.error, error_message=outcome.message, coordinator_id=one)
            for one in request.coordinator_ids or (-1,)
        )
    )


ENFORCE_RETENTION: Final[Operation] = declare(
    EnforceRetentionRequest,
    EnforceRetentionResponse,
    answered_by=AnsweredBy.COORDINATOR,
    acl=ALTER,
    lane=Lane.ALONE,
    is_unbounded=True,
    refuse=_refuse,
    only_looks=lambda request: bool(request.dry_run),
)
