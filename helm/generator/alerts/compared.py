"""Alerts about what the monitor's batch jobs found in object store and log, whether they are run, and transactions left open."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import DESCRIBE, LOG_DUMP, MONITOR_RUN, MONITOR_STATUS, RESTORE_REPORT, STATUS, VERIFY
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
        summary=f"The monitor's check `{check}` is overdue",
        description=f"The monitor {{{{ $labels.instance }}}} last finished its check `{check}` {{{{ $value | humanizeDuration }}}} ago.",
        runbook=Runbook(
            means=f"The monitor was started with `--{check}-every`, and the job was not done for three times as long. {meanwhile}",
            look=(
                f"The output of its last run: `{check}.log` in the monitor's folder.",
                "Metric `diskless_monitor_check_failures_total`; memory: `verify` wants about 1 GB besides the monitor.",
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
            means="The coordinators have live batches of these files, and the last `restore report` did not find the objects.",
            look=(
                "The list of missing files: when were they committed, and who deletes in that bucket (a lifecycle rule, a person)?",
                "Whether the store keeps deleted objects or versions: undelete them before they expire.",
                "Whether the job looked at the right bucket and prefix: all files missing means that it did not.",
            ),
            commands=(RESTORE_REPORT, LOG_DUMP, DESCRIBE),
            harmless="Never, when it looked at the right bucket. The alert ends with the next run that finds every file.",
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
                " do not count until then; the next claim of leadership aborts them."
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
    _check_overdue("objects", "DisklessObjectsOverdue", RESTORE_REPORT, "Nothing looks for lost files meanwhile."),
)
