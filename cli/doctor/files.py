"""The conclusions of `diskless doctor` about files: those that wait too long, deletions that do not happen, scans that do not finish.

Only the first files by key of each coordinator are looked at: uploaders that put the time into their keys have the oldest ones there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.doctor.diagnosis import Diagnosis, Health
from coordinator.core.file_state import FileState

if TYPE_CHECKING:
    from coordinator.client.calls.files import ListedFile
    from coordinator.client.calls.orphans import OrphanScanState

FILES = "files"
ORPHANS = "orphans"
LOOKED_AT = 1_000
"""Files that are looked at, of each coordinator."""
DELETABLE_MS_MAX = 3_600_000
WAITING_MS_MAX = 7 * 86_400_000
SCAN_MS_MAX = 6 * 3_600_000


def diagnose_files(files: Sequence[ListedFile], now_ms: int) -> list[Diagnosis]:
    """Findings about the waiting and deletable files among those that were looked at."""
    found = []
    for coordinator_id in sorted({file.coordinator_id for file in files}):
        here = [file for file in files if file.coordinator_id == coordinator_id]
        kept = _overdue(here, FileState.DELETABLE, now_ms - DELETABLE_MS_MAX)
        if kept:
            found.append(
                _warning(
                    FILES,
                    f"coordinator {coordinator_id}: {len(kept)} of its first files could have been deleted an hour ago,"
                    f" {kept[0].object_key} first",
                    "see the log of its leader: the object store may refuse deletions; `diskless files describe` tells who has the file",
                )
            )
        waiting = _overdue(here, FileState.WAITING, now_ms - WAITING_MS_MAX)
        if waiting:
            owner = waiting[0].owners_before[0]
            found.append(
                _warning(
                    FILES,
                    f"coordinator {coordinator_id}: {len(waiting)} of its first files wait for another owner for more than 7 days,"
                    f" {waiting[0].object_key} for coordinator {owner}",
                    "the whole object stays as long as one owner has batches of it: compare the retention of the topics that share files,"
                    f" and see whether coordinator {owner} has a leader",
                )
            )
    return found or [Diagnosis(health=Health.OK, check=FILES, finding=f"none of the first {LOOKED_AT} files of a coordinator is overdue")]


def diagnose_orphan_scan(scan: OrphanScanState, now_ms: int) -> list[Diagnosis]:
    """Findings about the scan for orphans, as the leader of the directory tells it."""
    if scan.error:
        return [Diagnosis(health=Health.SKIPPED, check=ORPHANS, finding=f"the scan cannot be asked for: {scan.message}")]
    if scan.last_error:
        return [
            _warning(
                ORPHANS,
                f"the scan for orphans was interrupted: {scan.last_error}",
                "it goes on by itself where it was; uploads that were never committed stay in the object store until then",
            )
        ]
    if scan.started_ms >= 0 and now_ms - scan.started_ms > SCAN_MS_MAX:
        return [
            _warning(
                ORPHANS,
                f"the scan for orphans began {(now_ms - scan.started_ms) // 3_600_000} hours ago and has looked at {scan.examined} objects",
                "`diskless orphans status` shows whether it moves; one over very many objects may last",
            )
        ]
    if scan.unusual:
        return [
            _warning(
                ORPHANS,
                f"{scan.unusual} objects below object.store.wal.prefix have keys that no file can have, {scan.unusual_keys[0]!r} first",
                "nothing of the service stored them, and it does not delete them: delete them with a tool of the store",
            )
        ]
    last = "no scan for orphans has finished yet" if scan.finished_ms < 0 else f"the last scan deleted {scan.deleted} orphans"
    return [Diagnosis(health=Health.OK, check=ORPHANS, finding=last)]


def _overdue(files: Sequence[ListedFile], state: FileState, before_ms: int) -> list[ListedFile]:
    """Files in a state whose times were over before, the longest first."""
    return sorted((file for file in files if file.state == state and 0 <= file.until_ms < before_ms), key=lambda file: file.until_ms)


def _warning(check: str, finding: str, remedy: str) -> Diagnosis:
    return Diagnosis(health=Health.WARNING, check=check, finding=finding, remedy=remedy)
