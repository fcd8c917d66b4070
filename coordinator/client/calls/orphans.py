"""ScanOrphans, which the leader of the directory answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from coordinator.client.errors import Refusal, refusal_of
from coordinator.client.model import Result
from coordinator.client.routing.discovery import DIRECTORY
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.client.routing.retry import server_timeout_ms
from coordinator.client.routing.routed_call import ADMIN, RoutedCall, Target
from coordinator.operations.orphans import SCAN_ORPHANS, ScanAction
from coordinator.protocol.messages import ScanOrphansObject, ScanOrphansRequest, ScanOrphansResponse

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


class ScanOrphansCall(RoutedCall[OrphanScanState]):
    """Begin a scan, be told how far it is, or look for orphans after a key. Repeating it is harmless."""

    operation = SCAN_ORPHANS
    purpose = ADMIN

    def __init__(self, action: ScanAction, *, is_forced: bool = False, after_key: str | None = None) -> None:
        self._action = action
        self._is_forced = is_forced
        self._after_key = after_key

    @property
    def is_write(self) -> bool:
        return self._action is ScanAction.BEGIN

    @property
    def targets(self) -> Sequence[Target]:
        return [DIRECTORY]

    async def send(self, pool: ConnectionPool, line: Line, places: Sequence[int], timeout_s: float) -> Sequence[OrphanScanState]:
        request = ScanOrphansRequest(
            action=self._action, is_forced=self._is_forced, after_key=self._after_key, timeout_ms=server_timeout_ms(timeout_s)
        )
        response = cast(ScanOrphansResponse, await pool.call(line, request, timeout_s))
        return [
            OrphanScanState(
                refusal=refusal_of(response.error_code, response.error_message),
                older_than_ms=response.older_than_ms,
                is_running=response.is_running,
                started_ms=response.started_ms,
                finished_ms=response.finished_ms,
                last_error=response.last_error,
                after_key=response.after_key,
                is_end=response.is_end,
                examined=response.examined,
                young=response.young,
                known=response.known,
                skipped=response.skipped,
                unusual=response.unusual,
                unusual_keys=response.unusual_keys,
                orphans=response.orphans,
                orphan_bytes=response.orphan_bytes,
                deleted=response.deleted,
                deleted_bytes=response.deleted_bytes,
                found=response.found,
            )
        ]

    def refusal_of(self, answer: OrphanScanState) -> Refusal:
        return answer.refusal

    def refused(self, place: int, refusal: Refusal) -> OrphanScanState:
        return OrphanScanState(refusal=refusal)
