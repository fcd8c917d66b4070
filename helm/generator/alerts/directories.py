"""Alerts about data directories: failed, nearly full, or with replicas that partition 0 has not recorded."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import DIRS_LIST, DIRS_MOVE, DOCTOR, STATUS, STORAGE_INFO
from helm.generator.model import Alert, AlertSeverity, Runbook

_OFFLINE: Final = "diskless_coordinator_log_directory_offline"
_FREE: Final = "diskless_coordinator_log_directory_free_bytes / diskless_coordinator_log_directory_bytes"
_WAIT: Final = "diskless_coordinator_replica_to_dir_assignment_wait_seconds"

DIRECTORIES: Final = (
    Alert(
        name="DisklessLogDirectoryOffline",
        expr=f"{_OFFLINE} == 1",
        looks_at=(_OFFLINE,),
        wait="1m",
        severity=AlertSeverity.WARNING,
        summary="A data directory has failed",
        description="{{ $labels.instance }} has taken {{ $labels.directory }} offline.",
        runbook=Runbook(
            means=(
                "The directory is lost, read-only, full or broken. Its replicas were made anew in another one, and nothing acknowledged is"
                " lost. When the last directory of a node fails, the node stops."
            ),
            look=(
                "The reason: the column *reason* of `diskless dirs list`, `offline_directories` in /ready, and the log of the process.",
                "The kernel's log of that machine; whether the mount is there and writable.",
            ),
            commands=(DIRS_LIST, STORAGE_INFO, DOCTOR),
            harmless=(
                "Never. Mend the disk, or give the node another one (what is in the directory is a cache), and start the node again: a"
                " directory stays offline until then."
            ),
        ),
    ),
    Alert(
        name="DisklessLogDirectoryFull",
        expr=f"{_FREE} < 0.05",
        looks_at=(_FREE,),
        wait="10m",
        severity=AlertSeverity.WARNING,
        summary="A data directory is nearly full",
        description="{{ $labels.directory }} of {{ $labels.instance }} has {{ $value | humanizePercentage }} left.",
        runbook=Runbook(
            means="A data directory that is full goes offline with its replicas, and those need room in another one.",
            look=(
                "What takes the room: state databases, snapshots, databases that were set aside (`*.failed-*`), or foreign files.",
                "Whether another directory of the node has room: replicas can be moved there while the service goes on.",
            ),
            commands=(DIRS_LIST, DIRS_MOVE, DOCTOR),
            harmless="Where the file system is large: a state database has some hundred bytes for each live batch.",
        ),
    ),
    Alert(
        name="DisklessAssignmentsNotRecorded",
        expr=f"{_WAIT} > 60",
        looks_at=(_WAIT,),
        wait="1m",
        severity=AlertSeverity.WARNING,
        summary="Partition 0 does not record where replicas are",
        description=(
            "{{ $labels.instance }} has waited for {{ $value | humanizeDuration }} until metadata partition 0 records the data directory"
            " of a replica."
        ),
        runbook=Runbook(
            means=(
                "Replicas that move wait for it. A node that leads in a failed directory of which partition 0 does not hear stops after"
                " log.dir.failure.timeout.ms."
            ),
            look=(
                "Whether coordinator 0 has a leader, and whether this process reaches it.",
                "The log of the process: `directories of N replicas are not recorded yet` has the reason.",
            ),
            commands=(STATUS, DIRS_LIST, DOCTOR),
            harmless="While coordinator 0 has no leader; then another alert tells of that.",
        ),
    ),
)
