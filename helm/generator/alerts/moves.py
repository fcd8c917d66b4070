"""Alerts about partitions that move between coordinators."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import AT_NODE, DOCTOR, STATUS
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import GROUP

_OLDEST: Final = f"max by ({GROUP}) (diskless_coordinator_partition_move_oldest_seconds)"

MOVES: Final = (
    Alert(
        name="DisklessMoveDoesNotEnd",
        expr=f"{_OLDEST} > 120",
        looks_at=(_OLDEST,),
        wait="3m",
        severity=AlertSeverity.WARNING,
        summary="A partition that moves does not arrive",
        description="A move of a user partition of {{ $labels.job }} to another coordinator is under way for"
        " {{ $value | humanizeDuration }}.",
        runbook=Runbook(
            means=(
                "A move takes milliseconds. One whose coordinators have no leader that answers waits, and nothing takes an order back."
                " At most four are carried out at a time. Commits to the partition may be refused until it ends; reads go on."
            ),
            look=(
                "`diskless partitions moves` says what each move waits for.",
                "Panel *Moves of partitions*: delayed steps that grow, and none that is done.",
                "Alerts about leadership that fire at the same time: follow those first.",
            ),
            commands=(f"diskless partitions moves {AT_NODE}", STATUS, DOCTOR),
            harmless="While many moves were ordered at once by a program, and the number of those under way falls.",
        ),
    ),
)
