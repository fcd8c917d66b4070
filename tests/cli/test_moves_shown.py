"""`coordinator rebalance --dry-run`: what the group's plan would move, when, and why."""

from __future__ import annotations

from dataclasses import replace

from cli.looks.leadership import SeenMember, move_rows
from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.assignor.member import AssignorRules, GroupMember
from coordinator.core.assignor.plan import Because

LED = {0: 1, 1: 1}


def seen(*members: GroupMember) -> list[SeenMember]:
    """Members of a group that has assigned both coordinators to node 1."""
    return [SeenMember(one, GroupAssignment(frozenset(), frozenset(), LED)) for one in members]


LEADER = GroupMember(node_id=1, rack="a", started_ms=1, leads={0: 3, 1: 3})
WARM = GroupMember(node_id=2, rack="b", started_ms=1, follows={0: 0, 1: 0})


def test_nothing_is_to_move_of_a_group_that_is_settled() -> None:
    assert move_rows(seen(LEADER)) == []
    assert move_rows([]) == []


def test_a_warm_node_takes_over_at_once_and_a_cold_one_when_it_is_warm() -> None:
    [row] = move_rows(seen(LEADER, WARM))
    assert {**row, "coordinator": 0} == {"coordinator": 0, "from": 1, "to": 2, "when": "at once", "why": Because.BALANCE.value}
    [row] = move_rows(seen(LEADER, replace(WARM, follows={})))
    assert (row["from"], row["to"], row["when"], row["why"]) == (1, 2, "once it is warm", Because.BALANCE.value)


def test_drains_and_racks_of_the_newest_process_are_reasons() -> None:
    drained = move_rows(seen(replace(LEADER, drains=True), WARM))
    racks = move_rows(seen(LEADER, replace(WARM, started_ms=2, rules=AssignorRules(leader_racks=("b",)))))
    for rows in (drained, racks):
        assert [(row["coordinator"], row["to"], row["when"], row["why"]) for row in rows] == [
            (one, 2, "at once", Because.DRAINED.value) for one in (0, 1)
        ]
