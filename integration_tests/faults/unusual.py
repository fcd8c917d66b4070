"""Lines of the nodes' and gateways' logs that say a bug showed itself, though perhaps no client saw it.

Two kinds of lines are no sign of a bug: the last words of a process that ended (whether it may end is judged where its fault is),
and the traceback of a read that met damage, on a node whose databases a fault had damaged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from integration_tests.faults.catalogue import LAST_WORDS
from integration_tests.faults.gateway_topology import GATEWAY_ZONES
from integration_tests.faults.topology import NODES

MARKS: Final = ("Traceback (most recent call last)", " CRITICAL ", "AssertionError", "never retrieved", "Task was destroyed")
DAMAGES: Final = frozenset({"damage_rest", "damage_running", "old_copy", "swap", "disk_full_start", "disk_failing"})
DAMAGE_FOUND: Final = "a read found what cannot be"
_LOGGED: Final = re.compile(r"\d{4}-\d\d-\d\dT")
_SHOWN_CHARACTERS: Final = 300


def unusual_lines(work: Path, damaged: Collection[str]) -> list[str]:
    """The unusual lines of all nodes and gateways below a run's folder; `damaged` names the nodes whose databases were damaged."""
    found: list[str] = []
    logs = [(name, work / f"{kind}-{name[1:]}" / "coordinator.log") for name in NODES for kind in ("node", "twin")]
    logs += [(name, work / f"gateway-{name[1:]}" / "gateway.log") for name in GATEWAY_ZONES]
    for name, log in logs:
        if log.exists():
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            found += [f"{log.parent.name}: {line[:_SHOWN_CHARACTERS]}" for line in _unusual(lines, is_damaged=name in damaged)]
    return found


def _unusual(lines: Iterable[str], *, is_damaged: bool) -> Iterator[str]:
    is_about_damage = False
    for line in lines:
        if _LOGGED.match(line):
            is_about_damage = is_damaged and DAMAGE_FOUND in line
        if any(mark in line for mark in MARKS) and LAST_WORDS not in line and not is_about_damage:
            yield line
