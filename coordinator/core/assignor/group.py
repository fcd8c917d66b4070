"""The assignments of a group: what the leader of the group hands to each member of a round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinator.core.assignor.member import GroupMember, rules_in_force
from coordinator.core.assignor.plan import make_plan


class GroupAssignment(NamedTuple):
    """What the group wants of a node: partitions that it may claim, and others that it follows.

    And what all nodes do, for those who ask it: the node of every partition's leader, and the nodes that follow besides.
    """

    leads: frozenset[int]
    follows: frozenset[int]
    leaders: Mapping[int, int]
    followers: Mapping[int, tuple[int, ...]] = {}


NOT_ASSIGNED = GroupAssignment(frozenset(), frozenset(), {})
"""Of a node that is no member."""


def assign(members: Mapping[str, GroupMember], partitions: int) -> dict[str, GroupAssignment]:
    """Return what each member is assigned, by its id in the group; a former process of a node gets nothing to lead or to follow."""
    in_order = [members[member_id] for member_id in sorted(members)]
    newest = {one.node_id: one for one in sorted(in_order, key=lambda one: one.started_ms)}
    plan = make_plan(newest.values(), range(partitions), rules_in_force(newest.values()))
    leads: dict[int, set[int]] = {node_id: set() for node_id in newest}
    for partition, node_id in plan.leaders.items():
        leads[node_id].add(partition)
    followers: dict[int, tuple[int, ...]] = {}
    for node_id, follows in sorted(plan.follows.items()):
        for partition in follows:
            followers[partition] = (*followers.get(partition, ()), node_id)
    assigned = {}
    for member_id, member in members.items():
        is_newest = newest[member.node_id] is member
        assigned[member_id] = GroupAssignment(
            frozenset(leads[member.node_id]) if is_newest else frozenset(),
            plan.follows[member.node_id] if is_newest else frozenset(),
            plan.leaders,
            followers,
        )
    return assigned
