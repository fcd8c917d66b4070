"""The random groups bite: with any one rule of the plan left out, they find a broken promise within a few seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.core.assignor import plan
from coordinator.core.assignor.member import GroupMember
from tests.core.group_worlds import GroupWorld, live

SEEDS = 60

_known, _leading, _standing_by = plan._Known, plan._Leading, plan._StandingBy


def everything_is_warm(known: Any, node_id: int, partition: int) -> bool:
    return True


def nothing_is_warm(known: Any, node_id: int, partition: int) -> bool:
    return False


def refusals_are_not_asked(init: Callable[..., None]) -> Callable[..., None]:
    def without_refusals(known: Any, nodes: dict[int, GroupMember], *others: Any) -> None:
        init(known, {node_id: _told(member, refuses=frozenset()) for node_id, member in nodes.items()}, *others)

    return without_refusals


def claims_are_not_heard(init: Callable[..., None]) -> Callable[..., None]:
    def without_claims(known: Any, nodes: dict[int, GroupMember], *others: Any) -> None:
        init(known, {node_id: _told(member, claims=frozenset()) for node_id, member in nodes.items()}, *others)

    return without_claims


def drains_are_not_heard(init: Callable[..., None]) -> Callable[..., None]:
    def without_drains(known: Any, nodes: dict[int, GroupMember], *others: Any) -> None:
        init(known, {node_id: _told(member, drains=False) for node_id, member in nodes.items()}, *others)

    return without_drains


def terms_are_not_heard(init: Callable[..., None]) -> Callable[..., None]:
    """Who leads counts as one that follows without a lag."""

    def without_terms(known: Any, nodes: dict[int, GroupMember], *others: Any) -> None:
        told = {
            node_id: _told(member, leads={}, follows={**member.follows, **dict.fromkeys(member.leads, 0)})
            for node_id, member in nodes.items()
        }
        init(known, told, *others)

    return without_terms


def all_nodes_are_in_one_rack(init: Callable[..., None]) -> Callable[..., None]:
    def without_racks(known: Any, nodes: dict[int, GroupMember], *others: Any) -> None:
        init(known, {node_id: _told(member, rack="") for node_id, member in nodes.items()}, *others)

    return without_racks


def _told(member: GroupMember, **other: Any) -> GroupMember:
    fields = {name: getattr(member, name) for name in GroupMember.__slots__}
    return GroupMember(**{**fields, **other})


def nothing(_: Any) -> None:
    pass


def let_go_at_once(known: Any, leading: Any, standbys: Any) -> dict[int, frozenset[int]]:
    """Only the new standbys and who is to lead follow."""
    follows: dict[int, set[int]] = {node_id: set() for node_id in known.nodes}
    for partition, nodes in standbys.items():
        for node_id in {*nodes, leading.targets[partition]} - {leading.leaders[partition]}:
            follows[node_id].add(partition)
    return {node_id: frozenset(partitions) for node_id, partitions in follows.items()}


def give_surplus_and_more(known: Any, led: Any) -> dict[int, int]:
    """Every node is to lead what a rotated count says, whatever it leads."""
    share, extra = divmod(len(known.partitions), len(known.nodes))
    return {node_id: share + (rank >= len(known.nodes) - extra) - led[node_id] for rank, node_id in enumerate(known.nodes)}


PROTECTIONS: dict[str, tuple[object, str, object]] = {
    "a node that is far behind is not warm": (_known, "is_warm", everything_is_warm),
    "a warm node comes first": (_known, "is_warm", nothing_is_warm),
    "a node that refuses a partition does not get it": (_known, "__init__", refusals_are_not_asked(_known.__init__)),
    "a recovery goes on where it is": (_known, "__init__", claims_are_not_heard(_known.__init__)),
    "a node that drains gives up what it has": (_known, "__init__", drains_are_not_heard(_known.__init__)),
    "who leads leads on": (_known, "__init__", terms_are_not_heard(_known.__init__)),
    "standbys are in other racks": (_known, "__init__", all_nodes_are_in_one_rack(_known.__init__)),
    "leaders are balanced": (_leading, "balance", nothing),
    "only the surplus moves": (_known, "room", give_surplus_and_more),
    "standbys are even": (_standing_by, "level", nothing),
    "who follows stands by on": (_standing_by, "keep", nothing),
    "a warm replica is let go late": (plan, "_duties", let_go_at_once),
}


@pytest.mark.parametrize("rule", PROTECTIONS)
def test_without_a_rule_a_promise_is_broken(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PROTECTIONS[rule])
    for seed in range(SEEDS):
        try:
            live(GroupWorld(seed))
        except (AssertionError, KeyError):
            return
    pytest.fail(f"{SEEDS} groups broke no promise though this was left out: {rule}")
