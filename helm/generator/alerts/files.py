"""Alerts about space that does not come back: files that nothing moves, deletions that fail, held retention, scans that do not finish."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import DOCTOR, FILES_DESCRIBE, FILES_LIST, ORPHANS_STATUS, RECORDS_DELETE, RETENTION_LOOK, STATUS
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import GROUP

_WAITING: Final = f'max by ({GROUP}, partition) (diskless_coordinator_files{{state="waiting"}})'
_DELETABLE: Final = f'max by ({GROUP}, partition) (diskless_coordinator_files{{state="deletable"}})'
_AGE: Final = f"max by ({GROUP}, partition) (diskless_coordinator_file_oldest_empty_age_seconds)"
_HELD: Final = f"max by ({GROUP}, partition) (diskless_coordinator_retention_held_partitions)"
_SCANNED: Final = f"max by ({GROUP}) (diskless_coordinator_orphan_scan_last_finished_timestamp_seconds)"
_SCANNING: Final = f"max by ({GROUP}) (diskless_coordinator_orphan_scan_running)"

FILES: Final = (
    Alert(
        name="DisklessFileDeletionsFail",
        expr="increase(diskless_coordinator_file_delete_failures_total[30m]) >= 3",
        looks_at=("diskless_coordinator_file_delete_failures_total",),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="Deleting objects fails again and again",
        description="{{ $labels.instance }}: the object store keeps refusing deletions for metadata partition {{ $labels.partition }}.",
        runbook=Runbook(
            means=(
                "Files whose last batch is deleted stay in the object store, which only grows. Commits and reads are not concerned, and"
                " nothing is lost: each deletion is tried again for ever, with growing pauses."
            ),
            look=(
                "The log of the process names the store's answer, once for each kind: `objects of files cannot be deleted`.",
                "Whether the credentials of the coordinators may delete below object.store.wal.prefix, which uploading does not need.",
                "Whether the store limits the rate of requests, or a lock or retention rule of the bucket forbids deletions.",
            ),
            commands=(FILES_LIST, DOCTOR),
            harmless="While the object store is away for some minutes.",
        ),
    ),
    Alert(
        name="DisklessFilesNotDeleted",
        expr=f"min_over_time(({_DELETABLE})[30m:1m]) > 0",
        looks_at=(_DELETABLE,),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="Files that may go are not deleted",
        description=(
            "Metadata partition {{ $labels.partition }} of {{ $labels.job }} had files for half an hour that only the object store keeps:"
            " {{ $value }} at the least."
        ),
        runbook=Runbook(
            means=(
                "No owner needs these files any more, and their objects are still there: deletions fail, or files become empty faster than"
                " the store deletes objects."
            ),
            look=(
                "Whether the alert DisklessFileDeletionsFail fires too: then the store refuses.",
                "The panel *Deleted and handed over*: if objects are deleted and the number still grows, the store is the limit.",
                "Which files they are: their column *since* says for how long.",
            ),
            commands=(FILES_LIST, DOCTOR),
            harmless="After very many records were deleted at once, while the number falls.",
        ),
    ),
    Alert(
        name="DisklessFilesWaitLong",
        expr=f"{_AGE} > 7 * 86400 and {_WAITING} > 0",
        looks_at=(_AGE, _WAITING),
        wait="1h",
        severity=AlertSeverity.WARNING,
        summary="A file without batches waits for days",
        description=(
            "A file that metadata partition {{ $labels.partition }} of {{ $labels.job }} is done with is empty for"
            " {{ $value | humanizeDuration }} and was not deleted."
        ),
        runbook=Runbook(
            means=(
                "The file has batches at another coordinator too, which still needs it, or which does not answer. Its whole object stays,"
                " also the bytes of the batches that are gone."
            ),
            look=(
                "For which owner it waits, and why: `diskless files describe` with its key.",
                "Whether that owner's coordinator has a leader; one that does not answer holds up every file that it owns a part of.",
                "The retention of the topics at that owner: topics that are kept much longer keep whole files of others with them.",
            ),
            commands=(FILES_LIST, FILES_DESCRIBE, DOCTOR),
            harmless="Where topics with very different retention share their files: raise the limit of the alert to the longest retention.",
        ),
    ),
    Alert(
        name="DisklessRetentionHeld",
        expr=f"{_HELD} > 0",
        looks_at=(_HELD,),
        wait="15m",
        severity=AlertSeverity.WARNING,
        summary="Timestamps in the future keep records from retention",
        description=(
            "{{ $value }} user partitions of metadata partition {{ $labels.partition }} of {{ $labels.job }} begin with a batch whose"
            " timestamp lies in the future."
        ),
        runbook=Runbook(
            means=(
                "Retention by time deletes from the beginning of a partition up to the first batch that is young enough. A batch from the"
                " future is young until its timestamp has passed, so all later records stay, and their objects. The usual cause is a"
                " producer that gives microseconds instead of milliseconds."
            ),
            look=(
                "Which partitions they are, with the timestamp and the offset after that batch: a look at retention names them.",
                "Who writes such timestamps: our client and `diskless files` refuse them (message.timestamp.after.max.ms).",
                "Whether the first records may go: deleting up to the offset frees the rest, unless such a batch follows.",
            ),
            commands=(RETENTION_LOOK, RECORDS_DELETE, DOCTOR),
            harmless="For topics whose timestamps are meant to lie in the future.",
        ),
    ),
    Alert(
        name="DisklessOrphanScansFail",
        expr="increase(diskless_coordinator_orphan_scan_failures_total[1h]) >= 3",
        looks_at=("diskless_coordinator_orphan_scan_failures_total",),
        wait="15m",
        severity=AlertSeverity.WARNING,
        summary="Scans for orphans are interrupted again and again",
        description="{{ $labels.instance }}: the scan of the object store for orphans was interrupted at least 3 times within an hour.",
        runbook=Runbook(
            means=(
                "Objects that were uploaded and never committed stay in the object store. Nothing is lost: nothing of a page is deleted"
                " unless every coordinator has answered for it, and the scan goes on where it was."
            ),
            look=(
                "The log of the process that leads metadata partition 0 has the reason: `orphan scan is interrupted`.",
                "Whether every coordinator has a leader: one that cannot answer stops the scan.",
                (
                    "Whether the credentials of the coordinators may list and delete below object.store.wal.prefix, and list, read,"
                    " write and delete below services/ and orphan-scan/."
                ),
            ),
            commands=(ORPHANS_STATUS, STATUS, DOCTOR),
            harmless="While the object store is away, or a coordinator changes its leader.",
        ),
    ),
    Alert(
        name="DisklessOrphanScanUnfinished",
        expr=f"time() - {_SCANNED} > 6 * 3600 and max_over_time(({_SCANNING})[1h:1m]) > 0",
        looks_at=(_SCANNED, _SCANNING),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="A scan for orphans does not finish",
        description="{{ $labels.job }} scans the object store for orphans, and finished that {{ $value | humanizeDuration }} ago last.",
        runbook=Runbook(
            means=(
                "Objects that were uploaded and never committed go late. A scan lists all objects below object.store.wal.prefix, and pauses"
                " after each thousand so that commits come first."
            ),
            look=(
                "How far the scan is: `diskless orphans status`, twice with some minutes between.",
                "Whether the alert DisklessOrphanScansFail fires: then it is interrupted, and the log says why.",
                "How many objects there are: listing some millions takes hours at the pace of some stores.",
            ),
            commands=(ORPHANS_STATUS, DOCTOR),
            harmless="For a store with very many objects: raise the limit of the alert.",
        ),
    ),
)
