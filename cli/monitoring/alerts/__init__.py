"""The alerts: when somebody has to look, and what they read then. The conditions tolerate a restart, a roll-out, a fail-over.

Differences over time ("now less than the end two minutes ago") are used instead of numbers of entries, because what is
many entries for one service is a second's work for another.
"""

from __future__ import annotations

from typing import Final

from cli.monitoring.alerts.commits import COMMITS
from cli.monitoring.alerts.kafka import KAFKA
from cli.monitoring.alerts.leadership import LEADERSHIP
from cli.monitoring.alerts.monitor import MONITOR
from cli.monitoring.alerts.processes import PROCESSES
from cli.monitoring.alerts.replicas import REPLICAS

GROUPS: Final = {
    "leadership": LEADERSHIP,
    "commits": COMMITS,
    "replicas": REPLICAS,
    "kafka": KAFKA,
    "processes": PROCESSES,
    "monitor": MONITOR,
}
ALERTS: Final = tuple(alert for group in GROUPS.values() for alert in group)
