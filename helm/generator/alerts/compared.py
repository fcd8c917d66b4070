"""Alerts about what the monitor's batch jobs found in object store and log, whether they are run, and transactions left open."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import DESCRIBE, DOCTOR, LOG_DUMP, MONITOR_RUN, MONITOR_STATUS, ORPHANS, STATUS, VERIFY
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import GROUP

OVERDUE_INTERVALS: Final = 3


def _overdue(check: str) -> tuple[str, str]:
    """Since when a job that the monitor runs itself was last done, and the condition that this is too long ago."""
    age = f"time() - diskless_monitor_last_{check}_timestamp_seconds"
    interval = f'diskless_monitor_check_interval_seconds{{check="{check}"}} > 0'
    return age, f"({age}) > on ({GROUP}, instance) ({OVERDUE_INTERVALS} * ({interval}))"


def _check_overdue(check: str, name: str, command: str, meanwhile: str) -> Alert:
    age, condition = _overdue(check)
    return Alert(
        name=name,
        expr=condition,
        looks_at=(age, f'diskless_monitor_check_interval_seconds{{check="{check}"}}'),
        wait="15m",
        severity=AlertSeverity.WARNING,
        summary=f"`monitor {check}` is overdue",
        description=f"The monitor {{{{ $labels.instance }}}} last finished `monitor {check}` {{{{ $value | humanizeDuration }}}} ago.",
        runbook=Runbook(
            means=f"The monitor was started with `--{check}-every`, and the job was not done for three times as long. {meanwhile}",
            look=(
                f"The output of its last run: `{check}.log` in the monitor's folder.",
                "Metric `diskless_monitor_check_failures_total`; memory, for the job wants about 1 GB besides the monitor.",
            ),
            commands=(command, MONITOR_STATUS, MONITOR_RUN),
            harmless="After the monitor was off for long, until the first run has ended.",
        ),
    )


COMPARED: Final = (
    Alert(
        name="DisklessFilesLost",
        expr=f"max by ({GROUP}) (diskless_monitor_missing_files) > 0",
        looks_at=(f"max by ({GROUP}) (diskless_monitor_missing_files)",),
        wait="0m",
        severity=AlertSeverity.CRITICAL,
        summary="Files with live batches are not in the object store",
        description="{{ $value }} files that the metadata log of {{ $labels.job }} needs are missing: their records cannot be read.",
        runbook=Runbook(
            means="The log says that batches of these files are live, and the last `monitor orphans` did not find the objects.",
            look=(
                "The list of missing files: when were they committed, and who deletes in that bucket (a lifecycle rule, a person)?",
                "Whether the store keeps deleted objects or versions: undelete them before they expire.",
                "Whether the job looked at the right bucket and prefix: all files missing means that it did not.",
            ),
            commands=(ORPHANS, LOG_DUMP, DESCRIBE),
            harmless="Never, when it looked at the right bucket. The alert ends with the next run that finds every file.",
        ),
    ),
    Alert(
        name="DisklessOrphanedFiles",
        expr=f"max by ({GROUP}) (diskless_monitor_orphan_files) > 0",
        looks_at=(f"max by ({GROUP}) (diskless_monitor_orphan_files)",),
        wait="6h",
        severity=AlertSeverity.WARNING,
        summary="The object store keeps objects that no coordinator knows",
        description="The object store of {{ $labels.job }} has had {{ $value }} orphans for more than six hours.",
        runbook=Runbook(
            means=(
                "Uploads that were never committed. The service's own scanner fences and deletes them some time after their age"
                " limit; here it did not. They cost space, no data is in danger."
            ),
            look=(
                "Whether the scanner is on and succeeds: background loop `orphans` of the coordinators, and their log.",
                "The reasons and folders of the orphans: another service's prefix in the same bucket is none of ours.",
            ),
            commands=(ORPHANS, STATUS, DOCTOR),
            harmless="A scanner that is off on purpose. The alert ends with a run that finds none.",
        ),
    ),
    Alert(
        name="DisklessTransactionOpen",
        expr=f"max by ({GROUP}) (diskless_monitor_open_transaction_age_seconds) > 300",
        looks_at=(f"max by ({GROUP}) (diskless_monitor_open_transaction_age_seconds)",),
        wait="0m",
        severity=AlertSeverity.WARNING,
        summary="A transaction of the metadata log is not ended",
        description="A metadata transaction of {{ $labels.job }} has been open for {{ $value | humanizeDuration }}.",
        runbook=Runbook(
            means=(
                "A leader wrote the beginning of several entries that count together, and neither their end nor their abort. They"
                " count for nobody until then; the next claim of leadership aborts them."
            ),
            look=(
                "Panel *Open transactions*: since when; `monitor status` has coordinator, name and offset.",
                "Whether that coordinator has a leader, and whether Kafka takes its entries.",
            ),
            commands=(MONITOR_STATUS, STATUS, LOG_DUMP, DESCRIBE),
            harmless="Never for longer than a fail-over takes.",
        ),
    ),
    _check_overdue("verify", "DisklessVerifyOverdue", VERIFY, "Nothing compares log and replicas meanwhile."),
    _check_overdue("orphans", "DisklessOrphansOverdue", ORPHANS, "Nothing looks for lost files meanwhile."),
)
