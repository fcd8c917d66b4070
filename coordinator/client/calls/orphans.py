"""ScanOrphans, which the leader of the directory answers."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.client.calls.declared import OneByOne, by_directory
from coordinator.client.model import Result
from coordinator.operations.maintenance import SCAN_ORPHANS, ScanAction
from coordinator.protocol.messages import ScanOrphansObject, ScanOrphansRequest

OrphanObject = ScanOrphansObject


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanScanState(Result):
    """How far the scan for orphans is, with the counts of the round under way or else of the last one; or what one look has found."""

    older_than_ms: int = -1
    is_running: bool = False
    started_ms: int = -1
    finished_ms: int = -1
    last_error: str | None = None
    after_key: str | None = None
    is_end: bool = False
    examined: int = 0
    young: int = 0
    known: int = 0
    skipped: int = 0
    unusual: int = 0
    unusual_keys: tuple[str, ...] = ()
    orphans: int = 0
    orphan_bytes: int = 0
    deleted: int = 0
    deleted_bytes: int = 0
    found: tuple[OrphanObject, ...] = ()


def scan_orphans(action: ScanAction, *, is_forced: bool = False, after_key: str | None = None) -> OneByOne[OrphanScanState]:
    """Begin a scan, ask how far it is, or look for orphans after a key. Repeating it is harmless."""
    return by_directory(
        SCAN_ORPHANS,
        lambda timeout_ms: ScanOrphansRequest(action=action, is_forced=is_forced, after_key=after_key, timeout_ms=timeout_ms),
        OrphanScanState,
    )
