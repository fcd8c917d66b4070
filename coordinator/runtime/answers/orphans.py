"""Answers what operators ask of the scan for orphans: to begin one, how far it is, and what it would find."""

from __future__ import annotations

from coordinator.core.commands import OK, Outcome
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import bad_timeout
from coordinator.operations.maintenance import ScanAction
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import ScanOrphansObject, ScanOrphansRequest, ScanOrphansResponse
from coordinator.runtime.files.orphan_scan import LookedPages
from coordinator.runtime.files.scan_record import ScanCounts
from coordinator.runtime.node.node import Node

LOOK_PATIENCE_S = 5.0
"""A look ends after so long, or half of the request's timeout if that is less, and says where the next one begins."""


async def scan_orphans(node: Node, _: int, request: ScanOrphansRequest) -> Message:
    """Answer ScanOrphans."""
    if request.timeout_ms <= 0:
        return _told(node, bad_timeout(request.timeout_ms))
    if not node.replicas.is_leading(DIRECTORY_PARTITION):
        return _told(node, node.router.not_led(DIRECTORY_PARTITION))
    match request.action:
        case ScanAction.TELL:
            return _told(node, OK)
        case ScanAction.BEGIN:
            return _told(node, node.workers.orphans.begin(is_forced=request.is_forced))
        case ScanAction.LOOK:
            looked = await node.workers.orphans.look(request.after_key or "", min(LOOK_PATIENCE_S, request.timeout_ms / 2000))
            return _told(node, looked) if isinstance(looked, Outcome) else _looked(node, looked)
        case _:
            message = f"action {request.action}; it must be one of {', '.join(f'{one.value} ({one.name.lower()})' for one in ScanAction)}"
            return _told(node, Outcome(error=ErrorCode.INVALID_REQUEST, message=message))


def _told(node: Node, outcome: Outcome) -> ScanOrphansResponse:
    """Return how far the scan is."""
    status = node.workers.orphans.status()
    record = status.record
    counts = ScanCounts() if record is None else record.counts
    return ScanOrphansResponse(
        error_code=outcome.error,
        error_message=outcome.message,
        older_than_ms=status.older_than_ms,
        is_running=status.is_running,
        started_ms=-1 if record is None else record.started_ms,
        finished_ms=-1 if record is None else record.finished_ms,
        last_error=status.error or None,
        after_key=None if record is None else record.after or None,
        is_end=False,
        examined=counts.examined,
        young=counts.young,
        known=counts.known,
        skipped=counts.skipped,
        unusual=counts.unusual,
        unusual_keys=() if record is None else record.unusual_keys,
        orphans=counts.orphans,
        orphan_bytes=counts.orphan_bytes,
        deleted=counts.deleted,
        deleted_bytes=counts.deleted_bytes,
        found=(),
    )


def _looked(node: Node, looked: LookedPages) -> ScanOrphansResponse:
    counts = looked.counts
    found = tuple(
        ScanOrphansObject(object_key=one.object_key, size_bytes=one.size_bytes, time_ms=one.time_ms, reason=one.reason)
        for one in looked.orphans
    )
    return ScanOrphansResponse(
        error_code=ErrorCode.NONE,
        older_than_ms=node.workers.orphans.status().older_than_ms,
        is_running=node.workers.orphans.status().is_running,
        after_key=looked.after or None,
        is_end=looked.is_end,
        examined=counts.examined,
        young=counts.young,
        known=counts.known,
        skipped=counts.skipped,
        unusual=counts.unusual,
        unusual_keys=tuple(looked.unusual_keys),
        orphans=counts.orphans,
        orphan_bytes=counts.orphan_bytes,
        found=found,
    )
