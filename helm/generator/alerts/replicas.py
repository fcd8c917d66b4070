"""Alerts about replicas: behind, not written, or different from each other."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import DESCRIBE, DOCTOR, MONITOR_FINDINGS, STATUS
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import DIGESTS_DIFFER, GROUP, LOG_END

REPLICAS: Final = (
    Alert(
        name="DisklessStandbyLags",
        expr=f"diskless_coordinator_log_end_offset < on ({GROUP}, partition) group_left {LOG_END} offset 2m",
        looks_at=("diskless_coordinator_log_end_offset", f"{LOG_END} offset 2m"),
        wait="3m",
        severity=AlertSeverity.WARNING,
        summary="A replica is minutes behind",
        description=(
            "{{ $labels.instance }} has not read yet what others had read of metadata partition {{ $labels.partition }} two minutes ago."
        ),
        runbook=Runbook(
            means="A fail-over to this replica would take as long as it needs to catch up. Reads from it are stale.",
            look=(
                "Panel *Standby lag*: shrinking (it catches up after a start) or growing (it cannot keep up)?",
                "CPU of the process; its event loop; its bandwidth to Kafka; `read_errors_total`.",
            ),
            commands=(STATUS, DESCRIBE),
            harmless="After a start with an empty data directory, while the lag shrinks.",
        ),
    ),
    Alert(
        name="DisklessStateBehind",
        expr=(
            "diskless_coordinator_state_applied_offset < on (namespace, job, instance, partition)"
            " (diskless_coordinator_log_end_offset offset 2m)"
        ),
        looks_at=("diskless_coordinator_state_applied_offset", "diskless_coordinator_log_end_offset offset 2m"),
        wait="3m",
        severity=AlertSeverity.WARNING,
        summary="The state database is minutes behind",
        description="{{ $labels.instance }} has not written to its state database what it had applied of metadata partition"
        " {{ $labels.partition }} two minutes ago.",
        runbook=Runbook(
            means="What is applied and not written is in memory, and a restart has to read it again from the log. Nothing is lost.",
            look=(
                "Panel *Writes of state*: how long a write takes, how many rows it has.",
                "Disk: latency, space, errors in the log (`state database`).",
                (
                    "`state_locked_seconds`: another connection, such as an operator's sqlite3, has locked the database. `diskless doctor`"
                    " names the file; end what holds it."
                ),
            ),
            commands=(DESCRIBE, "diskless db dump DATA_DIR/partition-N.db"),
            harmless="While a process that had been off for long catches up.",
        ),
    ),
    Alert(
        name="DisklessDigestMismatch",
        expr=f"sum_over_time({DIGESTS_DIFFER}[15m]) >= 3",
        looks_at=(f"sum_over_time({DIGESTS_DIFFER}[15m])",),
        wait="0m",
        severity=AlertSeverity.CRITICAL,
        summary="Replicas of a coordinator have different state",
        description=(
            "Replicas of metadata partition {{ $labels.partition }} of {{ $labels.job }} that have written up to the same offset differ."
        ),
        runbook=Runbook(
            means=(
                "Replicas compute the same state from the same log, so one of them is wrong: a bug, or a database that was changed or"
                " damaged. The leader's answers may be wrong too. Replicas are compared only at moments when they are at the same"
                " offset."
            ),
            look=(
                (
                    "Which replica differs: `diskless coordinator describe` shows digest and written offset of each. With three, the"
                    " one that differs."
                ),
                "Whether versions differ between the processes.",
                "Keep the databases as evidence (copy them) before anything is rebuilt.",
            ),
            commands=(
                DESCRIBE,
                DOCTOR,
                "diskless db dump DATA_DIR/partition-N.db",
                MONITOR_FINDINGS,
            ),
            harmless=(
                "For seconds while records are trimmed, which each replica does at its own pace; that is why three samples are wanted."
                " To repair a wrong standby, stop it, move its partition-N.db away and start it: it rebuilds from the log."
            ),
        ),
    ),
)
