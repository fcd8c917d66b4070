"""The alerts: when an operator has to look, and what to read then. The conditions tolerate a restart, a roll-out, a fail-over.

Differences over time ("now less than the end two minutes ago") are used instead of numbers of entries, because what is
many entries for one service is a second's work for another.
"""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.commits import COMMITS
from helm.generator.alerts.directories import DIRECTORIES
from helm.generator.alerts.exports import EXPORTS
from helm.generator.alerts.files import FILES
from helm.generator.alerts.gateways import GATEWAYS
from helm.generator.alerts.kafka import KAFKA
from helm.generator.alerts.leadership import LEADERSHIP
from helm.generator.alerts.monitor import MONITOR
from helm.generator.alerts.moves import MOVES
from helm.generator.alerts.processes import PROCESSES
from helm.generator.alerts.replicas import REPLICAS
from helm.generator.alerts.snapshots import SNAPSHOTS

GROUPS: Final = {
    "leadership": LEADERSHIP,
    "commits": COMMITS,
    "replicas": REPLICAS,
    "snapshots": SNAPSHOTS,
    "files": FILES,
    "moves": MOVES,
    "directories": DIRECTORIES,
    "kafka": KAFKA,
    "processes": PROCESSES,
    "monitor": MONITOR,
    "gateways": GATEWAYS,
    "exports": EXPORTS,
}
ALERTS: Final = tuple(alert for group in GROUPS.values() for alert in group)
