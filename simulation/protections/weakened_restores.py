"""Protections of what is not known yet after a restore, each with the way to leave it out: see `weakened`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from coordinator.core.commands import Outcome
from coordinator.core.view import ShardView
from coordinator.runtime.files.cleaner import FileCleaner
from coordinator.runtime.files.orphan_scan import OrphanScan
from coordinator.runtime.retention.enforcer import RetentionEnforcer
from simulation.protections.protection import Protection, around
from simulation.scenario import Fault

OPEN_S = 15.0


@around(OrphanScan, "refusal")
def _orphans_looked_for(refusal: Callable[..., Outcome | None], scan: OrphanScan, *, is_forced: bool) -> Outcome | None:
    return refusal(scan, is_forced=True)


def _directory_lost_and_unread() -> Iterator[Fault]:
    """Every node builds its replica of the directory anew, and gets nothing of the log to read for a while; the others lead on."""
    for at_s in (5.0, 9.0):
        yield from (Fault(at_s=at_s, kind="disk", node=node, partition=0) for node in range(3))
        yield from (Fault(at_s=at_s + 0.2, kind="lag", node=node, duration_s=2.0) for node in range(3))


RESTORE_PROTECTIONS: dict[str, Protection] = {
    "restore-files": Protection(
        rule="no file is removed while a restore is open",
        patches=lambda: [(FileCleaner, "is_held", False)],
        kinds=("slow",),
        files={"grace_s": 0.6, "pruners": 2},
        restore={"finished_s": OPEN_S},
    ),
    "restore-orphans": Protection(
        rule="no orphans are looked for while a restore is open",
        patches=_orphans_looked_for,
        kinds=("slow",),
        files={"scan_s": 2.0},
        restore={"finished_s": OPEN_S},
    ),
    "restore-retention": Protection(
        rule="retention lets nothing go while a restore is open",
        patches=lambda: [(RetentionEnforcer, "check_ready", lambda _retention, _coordinator_id: None)],
        kinds=("slow",),
        retention={"default_ms": 1_000, "check_s": 0.2},
        restore={"finished_s": OPEN_S},
    ),
    "restore-unread": Protection(
        rule="a log whose beginning was not read may be one of a restore that is open",
        patches=lambda: [(ShardView, "may_restore_be_open", property(lambda view: view.is_restore_open))],
        kinds=("disk", "lag"),
        faults=tuple(_directory_lost_and_unread()),
        files={"grace_s": 0.3, "commit_age_s": 1.0, "store_faults": 0.0, "pruners": 4},
        restore={"finished_s": OPEN_S},
        seed_first=19,
    ),
}
