"""What a node tells of itself when it joins the group, and the rules that all nodes of a service share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

WARM_LAG: Final = 10_000
"""Entries that a warm replica is behind at most: a tenth of a second of reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorRules:
    """What a plan aims at.

    `standbys` per partition; a replica is warm when it is at most `warm_lag` entries behind; a node warms up at most `warm_ups` replicas at
    a time for the sake of balance. Leaders are in `leader_racks` while one of their nodes is there; none named: in any rack.
    """

    standbys: int = 1
    warm_lag: int = WARM_LAG
    warm_ups: int = 4
    leader_racks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The rules that are settings, as such."""
        return f"standby.replicas={self.standbys} leader.racks={','.join(self.leader_racks)}"


def standbys_of(text: str) -> int | None:
    """Return how many standbys a text of rules wants; None when it does not say."""
    found = re.match(r"standby\.replicas=(\d{1,9}) ", text, re.ASCII)
    return None if found is None else int(found[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of the group, as it was when it joined. Partitions are those of the metadata topic.

    `leads` has the epoch of each term it leads in, `led_ms` for how long, `follows` how many entries each replica is behind the end of its
    log. `claims` it was told to lead and does not lead yet: it loads, catches up or waits for its claim. `refuses` it cannot lead: a failed
    directory, a digest that differs, a state that cannot be loaded. `only`: the partitions it is reserved for, None for a node that takes
    any. A node that `drains` gives up what it leads and stands by only where others are too few. `rules` are those it was configured with
    (`rules_in_force`). Of two members with one `node_id` the one that `started_ms` later counts.
    """

    node_id: int
    rack: str = ""
    started_ms: int = 0
    leads: Mapping[int, int] = field(default_factory=dict)
    led_ms: Mapping[int, int] = field(default_factory=dict)
    follows: Mapping[int, int] = field(default_factory=dict)
    claims: frozenset[int] = frozenset()
    refuses: frozenset[int] = frozenset()
    only: frozenset[int] | None = None
    drains: bool = False
    rules: AssignorRules = field(default_factory=AssignorRules)


def rules_in_force(members: Iterable[GroupMember]) -> AssignorRules:
    """Return the rules of the process that started last, so that a plan is the same whoever makes it; the defaults without members.

    A service whose rules are changed node by node follows the new ones from the first node that was started with them.
    """
    newest = max(members, key=lambda one: (one.started_ms, one.node_id), default=GroupMember(node_id=-1))
    return newest.rules
