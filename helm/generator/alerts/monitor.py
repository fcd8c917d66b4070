"""Alerts about the monitor job: whether it runs and keeps up, and what it found."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import (
    ACKNOWLEDGE,
    DESCRIBE,
    DOCTOR,
    LOG_DUMP,
    MONITOR_FINDINGS,
    MONITOR_RUN,
    MONITOR_STATUS,
    MONITOR_UP,
    VERIFY,
)
from helm.generator.alerts.compared import COMPARED
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import GROUP


def _within_an_hour(counter: str, by: str) -> str:
    """Return the growth of a counter within an hour; its whole value when it did not exist an hour ago."""
    now = f"sum by ({by}) ({counter})"
    return f"{now} - (sum by ({by}) ({counter} offset 1h) or {now} * 0)"


MONITOR: Final = (
    Alert(
        name="DisklessMonitorDown",
        expr=f"{MONITOR_UP} == 0 or diskless_monitor_up == 0",
        looks_at=(MONITOR_UP, "diskless_monitor_up"),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="The monitor does not run",
        description="The monitor {{ $labels.instance }} cannot be scraped, or its query has ended. The log is not audited meanwhile.",
        runbook=Runbook(
            means="The service itself is not touched. The monitor goes on where it stopped when it is started again.",
            look=(
                "Its log and exit status. It ends by itself when the topic was recreated, or another monitor has the folder.",
                "Java, memory (the job wants about 1.2 GB) and disk space of its folder.",
            ),
            commands=(MONITOR_STATUS, MONITOR_RUN),
            harmless="During its own upgrade.",
        ),
    ),
    Alert(
        name="DisklessMonitorLagging",
        expr=f"min_over_time(sum by ({GROUP}, instance) (diskless_monitor_lag_entries)[10m:1m]) > 10000"
        f" and deriv(sum by ({GROUP}, instance) (diskless_monitor_lag_entries)[10m:1m]) >= 0",
        looks_at=(
            f"min_over_time(sum by ({GROUP}, instance) (diskless_monitor_lag_entries)[10m:1m])",
            f"deriv(sum by ({GROUP}, instance) (diskless_monitor_lag_entries)[10m:1m])",
        ),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="The monitor falls behind",
        description="The monitor {{ $labels.instance }} was at least {{ $value }} entries behind for 10 minutes, and does not catch up.",
        runbook=Runbook(
            means="More is committed than the job reads, or its micro-batches fail and repeat.",
            look=("Panel *Micro-batches*: how long they take; panel *Entries*: rows against merged entries.", "CPU of the job; its log."),
            commands=(MONITOR_STATUS,),
            harmless="It shrinks: the alert goes away by itself then.",
        ),
    ),
    Alert(
        name="DisklessMonitorNotFresh",
        expr="diskless_monitor_freshness_seconds > 30 or time() - diskless_monitor_last_progress_timestamp_seconds > 120",
        looks_at=("diskless_monitor_freshness_seconds", "time() - diskless_monitor_last_progress_timestamp_seconds"),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="The monitor shows old numbers",
        description="What the monitor {{ $labels.instance }} shows is {{ $value | humanizeDuration }} old.",
        runbook=Runbook(
            means="The newest entry was merged long after it was written, or the query makes no progress at all.",
            look=(
                "Panel *Micro-batches*.",
                "Clocks: freshness is the monitor's clock minus the brokers'; `diskless doctor` compares clocks.",
            ),
            commands=(MONITOR_STATUS, DOCTOR),
            harmless="While a monitor that was off reads what it has missed.",
        ),
    ),
    Alert(
        name="DisklessAuditFindings",
        expr=f"sum by ({GROUP}, rule) (diskless_monitor_findings_open) > 0",
        looks_at=(f"sum by ({GROUP}, rule) (diskless_monitor_findings_open)",),
        wait="0m",
        severity=AlertSeverity.CRITICAL,
        summary="The audit found violations of the log's rules",
        description="{{ $value }} open findings of rule `{{ $labels.rule }}`: the metadata log says what must not be.",
        runbook=Runbook(
            means=(
                "The monitor re-derives the rules from the log alone: no gap, overlap or regression of offsets, no accepted duplicate,"
                " no overlapping bytes in a file. A finding is a bug, or a log that was damaged, pruned or written to by others."
            ),
            look=(
                "The findings: each has rule, metadata partition and Kafka offset. A *hole* is a part of the log that was deleted.",
                "The entries around that offset.",
                "Whether DisklessDigestMismatch or DisklessReplicaFailed fires as well.",
                "When the cause is known: acknowledge them, with the reason; the alert ends then, and fires for the next one.",
            ),
            commands=(
                MONITOR_FINDINGS,
                LOG_DUMP,
                DESCRIBE,
                ACKNOWLEDGE,
            ),
            harmless=(
                "A monitor that was off for longer than the log is kept finds a hole once. The alert ends when the findings are"
                " acknowledged; they stay on the dashboard, with who, when and why."
            ),
        ),
    ),
    Alert(
        name="DisklessLogAndServiceDisagree",
        expr=f"max by ({GROUP}) (diskless_monitor_verify_disagrees) > 0",
        looks_at=(f"max by ({GROUP}) (diskless_monitor_verify_disagrees)",),
        wait="0m",
        severity=AlertSeverity.CRITICAL,
        summary="The log and the service do not agree",
        description="The last `diskless monitor verify` of {{ $labels.job }} rebuilt a state from the log that a replica does not have.",
        runbook=Runbook(
            means="A replica is damaged or was computed wrongly. If all replicas of a coordinator differ in the same way, the code that"
            " runs reads the log in another way than the code that wrote it.",
            look=(
                "Which replicas differ: one (rebuild it) or all of a coordinator (keep everything, roll back the last upgrade).",
                "With `--state` and copies of the state databases the rows that differ are named.",
            ),
            commands=(VERIFY, DESCRIBE, MONITOR_FINDINGS),
            harmless="Never. The alert ends with the next verify that finds nothing.",
        ),
    ),
    Alert(
        name="DisklessQuarantine",
        expr=_within_an_hour("diskless_monitor_quarantined_total", GROUP) + " > 0",
        looks_at=(f"sum by ({GROUP}) (diskless_monitor_quarantined_total)",),
        wait="0m",
        severity=AlertSeverity.WARNING,
        summary="The monitor could not read entries that count",
        description="{{ $value }} entries in force were put into quarantine within an hour.",
        runbook=Runbook(
            means=(
                "Either the service is newer than the monitor and writes records that it does not know, or the entries are damaged;"
                " then replicas fail on them too."
            ),
            look=(
                "The error of each entry: *unknown fingerprint* means a newer version. Upgrade the monitor then, and let it read again.",
            ),
            commands=("diskless monitor quarantine --dir FOLDER", LOG_DUMP),
            harmless="During an upgrade of the service before the monitor's. The alert ends an hour after the last such entry.",
        ),
    ),
    *COMPARED,
)
