"""What doctor says of nodes as processes: who stays out, whose clock is off, whose id is doubled, which topics are narrow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cli.doctor.diagnosis import CHECK_ORDER, Diagnosis, Health
from cli.doctor.nodes import (
    diagnose_doubled_ids,
    diagnose_drains,
    diagnose_narrow_topics,
    diagnose_node_clocks,
    diagnose_placement,
    diagnose_stores,
    diagnose_withheld,
)
from cli.looks.balance import PlacedPartition, balance
from cli.looks.service import NodeView
from coordinator.client.model import ServiceNode
from coordinator.core.assignor.member import AssignorRules

A, B = b"a" * 16, b"b" * 16


def view(
    node_id: int, *, ahead_s: float = 0.0, own: bytes = A, registered: bytes = A, at: str = "", withheld: str | None = None
) -> NodeView:
    return NodeView(
        node=ServiceNode(node_id, "h", 9192 + node_id, None),
        cluster_id="c",
        coordinators=(),
        error="",
        incarnation_id=own,
        registered_id=registered,
        registered_address=at or f"h:{9192 + node_id}",
        ahead_ms=(ahead_s * 1000 - 5, ahead_s * 1000 + 5),
        withheld=withheld,
    )


def errors(found: list[Diagnosis]) -> list[str]:
    return [one.finding for one in found if one.health is Health.ERROR]


def test_a_node_that_stays_out_is_named_with_its_reason() -> None:
    [finding] = errors(diagnose_withheld([view(1), view(2, withheld="its clock is off")]))
    assert finding == "node 2 stays out of leadership: its clock is off"


def test_a_node_that_drains_is_named_with_what_ends_it() -> None:
    drained = replace(view(2), node=ServiceNode(2, "h", 9194, None, (), 2))
    [found] = diagnose_drains([view(1), drained])
    assert (found.health, found.finding[:29]) == (Health.WARNING, "node 2 drains until undrained")
    assert found.remedy.startswith("`diskless coordinator undrain 2`")


@pytest.mark.parametrize(("wanted", "nodes", "is_told"), [(2, 2, True), (2, 3, False), (1, 1, False), (0, 1, False), (100, 4, True)])
def test_more_standbys_than_there_are_nodes_for_are_told(wanted: int, nodes: int, is_told: bool) -> None:
    views = [replace(view(one), placement_rules=AssignorRules(standbys=wanted).text) for one in range(nodes)]
    [found] = diagnose_placement(views, 8)
    assert (found.health is Health.WARNING) == is_told
    if is_told:
        assert found.finding == f"standby.replicas is {wanted}, and with {nodes} nodes a coordinator has {nodes - 1} standbys at most"
        assert found.remedy


def test_nodes_that_place_by_other_settings_are_named() -> None:
    one, two = replace(view(1), placement_rules="leader.racks=a"), replace(view(2), placement_rules="leader.racks=b", reserved_ids=(1, 8))
    silent = replace(view(3), error="no answer")
    [fine] = diagnose_placement([one, replace(two, placement_rules="leader.racks=a", reserved_ids=(1,)), silent], 8)
    assert fine.health is Health.OK
    differ, missing = diagnose_placement([one, two, silent], 8)
    assert differ.finding == "nodes differ: leader.racks=a at 1; leader.racks=b at 2"
    assert missing.finding == "node 2 is reserved for coordinator 8; there are 8, from 0 on"
    assert {differ.health, missing.health} == {Health.WARNING}
    assert {fine.check, differ.check, missing.check} <= set(CHECK_ORDER)


def test_a_node_with_another_store_is_named_with_its_reason() -> None:
    assert diagnose_stores([view(1), view(2)]) == []
    [finding] = errors(diagnose_stores([view(1), replace(view(2), store_problem="file:///typo has no object services/x.json")]))
    assert finding == "node 2: file:///typo has no object services/x.json"


def test_a_doubled_id_is_found_at_a_given_address_and_by_the_directory() -> None:
    assert diagnose_doubled_ids([view(1), view(2)], [("x:1", 1, A), ("y:1", 3, B)]) == []
    [finding] = errors(diagnose_doubled_ids([view(1), view(2)], [("x:1", 1, B)]))
    assert finding == "two processes have node.id 1: the one at x:1 and that at h:9193"
    [finding] = errors(diagnose_doubled_ids([view(1, registered=B, at="x:1")], []))
    assert "two processes have node.id 1: the one at h:9193 and a process elsewhere" in finding


def test_a_process_that_could_not_register_since_its_start_is_no_double() -> None:
    [found] = diagnose_doubled_ids([view(1, registered=B), view(2)], [("other-name:9193", 1, A)])
    assert found.health is Health.WARNING
    assert found.finding == "node 1 has not registered since it started (partition 0 has no leader, or 1 cannot reach it)"
    # A real stranger beside it is still told.
    assert len(errors(diagnose_doubled_ids([view(1, registered=B)], [("x:1", 1, B)]))) == 1


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        ([view(1), view(2, ahead_s=4.9)], []),
        ([view(1), view(2, ahead_s=7200)], ["the clock of node 2 is 7200.0 s ahead of node 1 and this machine"]),
        ([view(1, ahead_s=-60), view(2, ahead_s=-60)], ["the clock of this machine is 60.0 s ahead of node 1 and node 2"]),
        (
            [view(1, ahead_s=-60)],
            ["clocks differ by more than 5000 ms, and no two agree against another: node 1 -60.0 s, this machine +0.0 s"],
        ),
    ],
)
def test_the_clock_that_is_off_is_named(views: list[NodeView], expected: list[str]) -> None:
    assert errors(diagnose_node_clocks(views, 5_000)) == expected


NARROW = "topic narrow (8 partitions) lives on 3 of 8 coordinators"


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ({"wide": list(range(8)), "small": [0, 1], "narrow": [0, 1, 2, 0, 1, 2, 0, 1]}, [NARROW]),
        ({"wide": list(range(8))}, []),
        # It was created after the others, which fill the coordinators that it is not on: a balance moves nothing.
        ({"first": [3, 3, 4, 4, 5, 5, 6, 6, 7, 7], "narrow": [0, 1, 2, 0, 1, 2, 0, 1]}, []),
        ({}, []),
    ],
)
def test_topics_that_a_balance_would_spread_over_more_coordinators_are_told(topics: dict[str, list[int]], expected: list[str]) -> None:
    found = diagnose_narrow_topics(topics, 8)
    assert [one.finding for one in found if one.health is Health.WARNING] == expected
    assert all(one.health is Health.OK for one in found) == (not expected)
    placed = [PlacedPartition(name, at, owner, 0) for name, owners in topics.items() for at, owner in enumerate(owners)]
    moved = balance(placed, range(8))
    assert bool(moved) == bool(expected), "the remedy that is named does something"
    owners = {(one.topic, one.partition): to for one, to in moved}
    after = {name: [owners.get((name, at), owner) for at, owner in enumerate(before)] for name, before in topics.items()}
    assert [one.health for one in diagnose_narrow_topics(after, 8)] == [Health.OK], "and it is enough"
