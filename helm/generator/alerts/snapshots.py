"""Alerts about snapshots: bad ones, attempts that fail, logs that therefore only grow, and restores from them that are open."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import (
    DOCTOR,
    LOG_PRUNE,
    RESTORE_FINISH,
    RESTORE_REPORT,
    SNAPSHOTS_DESCRIBE,
    SNAPSHOTS_LIST,
    SNAPSHOTS_VERIFY,
)
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import GROUP

_AGE: Final = f"min by ({GROUP}, partition) (diskless_coordinator_snapshot_age_seconds)"
_LAG: Final = f"min by ({GROUP}, partition) (diskless_coordinator_snapshot_lag_entries)"

SNAPSHOTS: Final = (
    Alert(
        name="DisklessSnapshotBad",
        expr="increase(diskless_coordinator_snapshot_digest_mismatches_total[30m]) > 0",
        looks_at=("diskless_coordinator_snapshot_digest_mismatches_total",),
        wait="0m",
        severity=AlertSeverity.CRITICAL,
        summary="A committed snapshot is not what the log says",
        description="{{ $labels.instance }} refused a snapshot of metadata partition {{ $labels.partition }} within the last 30 minutes.",
        runbook=Runbook(
            means=(
                "The object was changed or damaged, or the node that took it had a state that others do not have. The log is not pruned"
                " up to a snapshot that no other node has proven, so nothing is lost yet."
            ),
            look=(
                "The reason: the column *error* of `diskless snapshots describe`, and the log of the process (`snapshots failed`).",
                "Who else writes to the prefix of the snapshots in the object store.",
                "The alert DisklessDigestMismatch: then replicas differ, and the snapshot is only its consequence.",
            ),
            commands=(SNAPSHOTS_DESCRIBE, SNAPSHOTS_VERIFY, DOCTOR),
            harmless="Never. A good one is taken after the next change; keep the bad object as evidence until then.",
        ),
    ),
    Alert(
        name="DisklessSnapshotsFail",
        expr="increase(diskless_coordinator_snapshot_failures_total[30m]) >= 3",
        looks_at=("diskless_coordinator_snapshot_failures_total",),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="Snapshots fail again and again",
        description=(
            "{{ $labels.instance }}: the step {{ $labels.step }} for snapshots of metadata partition {{ $labels.partition }} keeps failing."
        ),
        runbook=Runbook(
            means="The metadata log is not pruned to new snapshots meanwhile: it grows, and so does the time of a cold start.",
            look=(
                "The reason: the column *error* of `diskless snapshots describe`.",
                (
                    "`upload` and `verify` need the object store (write, read, list and delete below snapshots.prefix), `write` room in"
                    " the data directory, `mark` and `commit` a leader that Kafka acknowledges, `prune` the right to delete"
                    " records of the topic."
                ),
            ),
            commands=(SNAPSHOTS_DESCRIBE, DOCTOR),
            harmless="While the object store is away; each failure is tried again after some seconds.",
        ),
    ),
    Alert(
        name="DisklessSnapshotOld",
        expr=f"{_AGE} > 6 * 3600 and {_LAG} > 1000",
        looks_at=(_AGE, _LAG),
        wait="10m",
        severity=AlertSeverity.WARNING,
        summary="The newest snapshot of a coordinator is old",
        description=(
            "The newest snapshot of metadata partition {{ $labels.partition }} of {{ $labels.job }} is {{ $value | humanizeDuration }} old,"
            " and the log has grown since."
        ),
        runbook=Runbook(
            means=(
                "A leader takes a snapshot at least every metadata.log.max.snapshot.interval.ms (an hour) when there are new entries."
                " None was committed. After a loss of all of Kafka a restore would miss what came later."
            ),
            look=(
                "Whether snapshots fail: the column *error* of `diskless snapshots describe`.",
                "Whether snapshots.enable=false, or a longer interval, was set.",
            ),
            commands=(SNAPSHOTS_DESCRIBE, SNAPSHOTS_LIST, LOG_PRUNE),
            harmless="With a longer interval set on purpose: raise the limit of the alert, too.",
        ),
    ),
    Alert(
        name="DisklessRestoreUnfinished",
        expr=f"max by ({GROUP}) (diskless_coordinator_restore_unfinished) > 0",
        looks_at=("diskless_coordinator_restore_unfinished",),
        wait="1h",
        severity=AlertSeverity.WARNING,
        summary="A restore was not called finished",
        description="The log of {{ $labels.job }} begins with a restore that no operator has called finished.",
        runbook=Runbook(
            means=(
                "The service was begun again from snapshots after a loss of Kafka (`diskless restore start`). Commits after the"
                " snapshots are not known any more. Until an operator has checked that, the log of partition 0 is not pruned, and objects"
                " that no coordinator knows are not taken for orphans."
            ),
            look=(
                (
                    "What the restore lost: `diskless restore report`. `unknown` objects may be files that were committed; producers that"
                    " repeat those commits make them good."
                ),
                (
                    "Whether every coordinator is loaded; one that is not restored yet says so in the log of the nodes: run `diskless"
                    " restore start` again."
                ),
            ),
            commands=(RESTORE_REPORT, RESTORE_FINISH, DOCTOR),
            harmless="While the report is being looked at.",
        ),
    ),
)
