"""What doctor says of files and of the scan for orphans."""

from __future__ import annotations

import pytest

from cli.doctor.diagnosis import CHECK_ORDER, Diagnosis, Health
from cli.doctor.files import FILES, ORPHANS, diagnose_files, diagnose_orphan_scan
from coordinator.client.calls.orphans import OrphanScanState
from coordinator.client.errors import Refusal
from coordinator.core.file_state import FileState
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import ListFilesFile

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000


def file(key: str, state: FileState, hours: float, coordinator_id: int = 2) -> ListFilesFile:
    """A file whose times were over so many hours ago."""
    return ListFilesFile(
        object_key=key,
        coordinator_id=coordinator_id,
        size=1,
        batch_count=1,
        live_batches=0,
        append_time_ms=0,
        owner_ids=(1, 2),
        state=state,
        since_ms=0,
        until_ms=int(NOW_MS - hours * HOUR_MS),
        owners_before=(1,) if state is FileState.WAITING else (),
    )


def checked(found: list[Diagnosis]) -> list[str]:
    """The findings; each is of a known check and says what to do."""
    assert all(one.check in CHECK_ORDER and (one.remedy or one.health in (Health.OK, Health.SKIPPED)) for one in found)
    return [one.finding for one in found if one.health is Health.WARNING]


@pytest.mark.parametrize(
    "files",
    [
        [],
        [file("a", FileState.DELETABLE, 0.9), file("b", FileState.WAITING, 100)],
        [file("a", FileState.EMPTY, 10_000)],
        [file("a", FileState.LIVE, 10_000), file("b", FileState.REMOVED, 10_000)],
    ],
)
def test_files_that_are_not_overdue_are_no_finding(files: list[ListFilesFile]) -> None:
    [found] = diagnose_files(files, NOW_MS)
    assert (found.health, found.check) == (Health.OK, FILES)


def test_files_that_nobody_deletes_are_told_for_each_coordinator() -> None:
    files = [file("a", FileState.DELETABLE, 2), file("b", FileState.DELETABLE, 3), file("c", FileState.DELETABLE, 3, coordinator_id=0)]
    assert checked(diagnose_files(files, NOW_MS)) == [
        "coordinator 0: 1 of its first files could have been deleted an hour ago, c first",
        "coordinator 2: 2 of its first files could have been deleted an hour ago, b first",
    ]


def test_files_that_wait_for_days_are_told_with_the_owner() -> None:
    files = [file("a", FileState.WAITING, 24 * 7 + 1), file("b", FileState.WAITING, 24 * 8), file("c", FileState.WAITING, 1)]
    [found] = checked(diagnose_files(files, NOW_MS))
    assert found == "coordinator 2: 2 of its first files wait for another owner for more than 7 days, b for coordinator 1"


SCANS: dict[str, tuple[OrphanScanState, Health, str]] = {
    "none yet": (OrphanScanState(), Health.OK, "no scan for orphans has finished yet"),
    "finished": (OrphanScanState(finished_ms=NOW_MS - 9 * HOUR_MS, deleted=3), Health.OK, "the last scan deleted 3 orphans"),
    "under way": (OrphanScanState(started_ms=NOW_MS - HOUR_MS, is_running=True), Health.OK, "no scan for orphans has finished yet"),
    "for long": (
        OrphanScanState(started_ms=NOW_MS - 7 * HOUR_MS, is_running=True, examined=9),
        Health.WARNING,
        "the scan for orphans began 7 hours ago and has looked at 9 objects",
    ),
    "interrupted": (
        OrphanScanState(started_ms=NOW_MS, last_error="coordinator 3 cannot answer"),
        Health.WARNING,
        "the scan for orphans was interrupted: coordinator 3 cannot answer",
    ),
    "unusual keys": (
        OrphanScanState(finished_ms=NOW_MS, unusual=12, unusual_keys=("wal//x", "wal/\t")),
        Health.WARNING,
        "12 objects below object.store.wal.prefix have keys that no file can have, 'wal//x' first",
    ),
    "refused": (
        OrphanScanState(refusal=Refusal(ErrorCode.INVALID_REQUEST, "no store")),
        Health.SKIPPED,
        "the scan cannot be asked for: no store",
    ),
}


@pytest.mark.parametrize(("scan", "health", "text"), SCANS.values(), ids=SCANS)
def test_scans(scan: OrphanScanState, health: Health, text: str) -> None:
    [found] = diagnose_orphan_scan(scan, NOW_MS)
    assert (found.check, found.health, found.finding) == (ORPHANS, health, text)
    checked([found])
