"""Alerts about exports of topics to tables: one that is gone, one that does not keep up, and records that retention is about to take."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import DOCTOR, EXPORT_RUN, EXPORT_STATUS, EXPORT_UP, RETENTION_RAISE
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import GROUP

_NEAR_S: Final = 6 * 3600
_BEHIND: Final = "time() - diskless_export_last_caught_up_timestamp_seconds"

EXPORTS: Final = (
    Alert(
        name="DisklessExportDown",
        expr=f"{EXPORT_UP} == 0",
        looks_at=(EXPORT_UP,),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="An export of a topic cannot be scraped",
        description="{{ $labels.instance }} has not answered Prometheus for 5 minutes: its table gets no more records.",
        runbook=Runbook(
            means="The process is gone. Nothing is lost until retention deletes the next record; a new one goes on where the table ends.",
            look=(
                "How long that leaves: `hours_left` of the status.",
                "The last line of its log. An export ends when another one writes the table, or its topic was deleted or made anew.",
                "Whether it ended at records that were deleted before they were exported, or at a damaged batch: the log names both.",
            ),
            commands=(EXPORT_STATUS, EXPORT_RUN),
            harmless="While the process is replaced.",
        ),
    ),
    Alert(
        name="DisklessExportBehind",
        expr=f"{_BEHIND} > 3600",
        looks_at=(_BEHIND,),
        wait="15m",
        severity=AlertSeverity.WARNING,
        summary="An export does not catch up",
        description="The table of topic `{{ $labels.topic }}` last had all records {{ $value | humanizeDuration }} ago.",
        runbook=Runbook(
            means="More is written than one process exports, or its passes fail: the service, its object store or the store of the table.",
            look=(
                "Panel *Repeated passes*, and the log of the export, which names what failed.",
                "Panel *Time of a commit*: many small commits are slow; a longer `--every` and a larger `--commit-mib` make fewer.",
                "CPU of the process.",
            ),
            commands=(EXPORT_STATUS, DOCTOR),
            harmless="While an export takes a long log for the first time: panel *Export lag* falls then.",
        ),
    ),
    Alert(
        name="DisklessExportRetentionNear",
        expr=f"min by ({GROUP}, topic) (diskless_export_retention_seconds_left) < {_NEAR_S}",
        looks_at=(f"min by ({GROUP}, topic) (diskless_export_retention_seconds_left)",),
        wait="10m",
        severity=AlertSeverity.CRITICAL,
        summary="Retention is about to delete records that are not exported",
        description="Topic `{{ $labels.topic }}`: a record that its table does not have is deleted in {{ $value | humanizeDuration }}.",
        runbook=Runbook(
            means="The export is so far behind that records will be deleted before they are in the table. They cannot be brought back.",
            look=(
                "Raise `retention.ms` of the topic until the export has caught up: that takes effect at once.",
                "Why it is behind: see DisklessExportBehind.",
            ),
            commands=(RETENTION_RAISE, EXPORT_STATUS),
            harmless="In a topic whose retention is not much longer than the interval of the export: shorten `--every`.",
        ),
    ),
)
