"""Who leads and who stands by: random groups with deaths, additions, restarts, refusals, drains and reservations."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from coordinator.core.assignor.group import assign
from coordinator.core.assignor.member import AssignorRules, GroupMember, rules_in_force
from coordinator.core.assignor.plan import Because, GroupPlan, make_plan
from tests.core.group_worlds import GroupWorld, live, spread


@pytest.mark.parametrize("seed", range(100))
def test_every_plan_of_a_troubled_group_holds_the_rules_and_it_settles(seed: int) -> None:
    live(GroupWorld(seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_partitions_on_fifty_nodes_hold_the_rules(seed: int) -> None:
    live(GroupWorld(seed, nodes=50, partitions=1000))


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 4_000, 500))
def test_thousands_of_troubled_groups_hold_the_rules(first: int) -> None:
    for seed in range(first + 100, first + 600):
        live(GroupWorld(seed))


def settled(nodes: int = 4, partitions: int = 12, standbys: int = 1) -> tuple[GroupWorld, GroupPlan]:
    world = GroupWorld(7, nodes=nodes, partitions=partitions, standbys=standbys)
    return world, world.settle()[0]


def test_a_node_that_comes_takes_over_only_what_it_has_warmed_up() -> None:
    world, before = settled()
    new = world.add()
    first = world.round()
    assert first.leaders == before.leaders
    assert {reason.warming for reason in first.reasons.values()} == {None, new}
    world.warm_up(fully=True)
    second = world.round()
    moved = [partition for partition in world.partitions if second.leaders[partition] != before.leaders[partition]]
    assert {second.leaders[partition] for partition in moved} == {new}
    assert len(moved) == 2
    assert {second.reasons[partition].because for partition in moved} == {Because.BALANCE}


@pytest.mark.parametrize(("nodes", "partitions", "most"), [(4, 8, 2), (3, 9, 2), (4, 12, 3), (4, 24, 3)])
@pytest.mark.parametrize("first_node", range(1, 40, 7))
def test_while_nodes_restart_one_by_one_partitions_come_back(nodes: int, partitions: int, most: int, first_node: int) -> None:
    world = GroupWorld(0, nodes=0, partitions=partitions, standbys=1)
    for node_id in range(first_node, first_node + nodes):
        world.nodes[node_id] = GroupMember(node_id=node_id)
    plan, _ = world.settle()
    leaders, moves = dict(plan.leaders), Counter[int]()

    def settle() -> None:
        for _ in range(200):
            plan = world.round()
            moves.update(partition for partition, node_id in plan.leaders.items() if leaders[partition] != node_id)
            leaders.update(plan.leaders)
            world.warm_up(fully=True)
            if plan.is_settled:
                return
        raise AssertionError("the group does not settle")

    for node_id in list(world.nodes):
        stopped = world.nodes.pop(node_id)
        settle()
        on_disk = dict.fromkeys({*stopped.leads, *stopped.follows}, 0)
        world.nodes[node_id] = replace(stopped, started_ms=stopped.started_ms + 1_000_000, leads={}, follows=on_disk, claims=frozenset())
        settle()
    assert max(moves.values()) <= most


@pytest.mark.parametrize("seed", range(3))
def test_standbys_that_nodes_take_over_do_not_move_twice(seed: int) -> None:
    world = GroupWorld(seed, nodes=10, partitions=200, standbys=1)
    before = world.settle()[0]
    new = {world.add(rack=world.nodes[1].rack) for _ in range(2)}
    after = world.settle()[0]
    gained = [
        standby
        for partition in world.partitions
        for standby in after.standbys[partition]
        if standby not in (before.leaders[partition], *before.standbys[partition])
    ]
    assert sum(standby in new for standby in gained) >= 30
    assert len(gained) <= 2 * 200 // 12 + len(world.nodes)


def test_a_node_that_drains_gives_up_everything_once_others_are_warm_and_gets_it_back() -> None:
    world, before = settled()
    drained = before.leaders[0]
    world.change(drained, drains=True)
    first = world.round()
    given = [partition for partition, leader in before.leaders.items() if leader == drained and first.leaders[partition] != drained]
    assert given
    assert {first.reasons[partition].because for partition in given} == {Because.DRAINED}
    assert all(first.leaders[partition] in before.standbys[partition] for partition in given), "a warm standby takes over"
    plan, _ = world.settle()
    assert drained not in plan.leaders.values()
    assert plan.follows[drained] == frozenset()
    world.change(drained, drains=False)
    plan, _ = world.settle()
    assert Counter(plan.leaders.values())[drained] == 3


def test_a_node_that_drains_stands_by_where_others_are_too_few() -> None:
    world, before = settled(nodes=2, partitions=4)
    drained = before.leaders[0]
    world.change(drained, drains=True)
    plan, _ = world.settle()
    assert drained not in plan.leaders.values()
    assert plan.standbys == dict.fromkeys(range(4), (drained,))


def test_the_last_node_leads_though_it_drains() -> None:
    plan = make_plan([GroupMember(node_id=1, drains=True)], range(3), AssignorRules())
    assert set(plan.leaders.values()) == {1}


def test_reserved_nodes_lead_their_partitions_and_no_others_while_they_are_there() -> None:
    world, _ = settled(nodes=3)
    dedicated = world.add(only=frozenset({3, 4}))
    plan, _ = world.settle()
    assert {partition for partition, leader in plan.leaders.items() if leader == dedicated} == {3, 4}
    assert all(partition in {3, 4} for partition in plan.follows[dedicated])
    del world.nodes[dedicated]
    plan, _ = world.settle()
    assert dedicated not in plan.leaders.values()
    assert spread(world, plan.leaders.values()) == 0


def test_leaders_are_in_the_racks_named_while_a_node_is_there() -> None:
    world = GroupWorld(3, nodes=0, partitions=8, standbys=1)
    for rack in ("a", "a", "b", "b"):
        world.add(rack=rack)
    world.rules = replace(world.rules, leader_racks=("b",))
    plan, _ = world.settle()
    assert {world.nodes[leader].rack for leader in plan.leaders.values()} == {"b"}
    for node_id in [one for one, member in world.nodes.items() if member.rack == "b"]:
        del world.nodes[node_id]
    assert set(world.round().leaders.values()) <= set(world.nodes)


# What nodes tell, by node: rack, the partitions it is reserved for, whether it drains; and who may lead each of the partitions 0 to 5 then,
# with leaders in racks a and b.
RESERVED: dict[str, tuple[dict[int, tuple[str, set[int] | None, bool]], dict[int, set[int]]]] = {
    "two nodes are reserved for the same": (
        {1: ("a", {4, 5}, False), 2: ("b", None, False), 3: ("c", None, False), 4: ("a", {4, 5}, False)},
        {0: {2}, 1: {2}, 2: {2}, 3: {2}, 4: {1, 4}, 5: {1, 4}},
    ),
    "the node of the racks that takes any drains": (
        {1: ("a", {99}, False), 2: ("b", None, True), 3: ("c", None, False), 4: ("a", {4, 5}, False)},
        {0: {3}, 1: {3}, 2: {3}, 3: {3}, 4: {4}, 5: {4}},
    ),
    "the reserved node is elsewhere": (
        {1: ("a", None, False), 2: ("b", None, False), 3: ("c", {5}, False)},
        {0: {1, 2}, 1: {1, 2}, 2: {1, 2}, 3: {1, 2}, 4: {1, 2}, 5: {3}},
    ),
    "the reserved node drains": (
        {1: ("a", None, False), 2: ("b", None, False), 3: ("a", {5}, True)},
        {one: {1, 2} for one in range(6)},
    ),
    "reservations overlap": (
        {1: ("a", {0, 1, 2}, False), 2: ("b", {2, 3}, False), 3: ("b", None, False)},
        {0: {1}, 1: {1}, 2: {1, 2}, 3: {2}, 4: {3}, 5: {3}},
    ),
}


@pytest.mark.parametrize("case", RESERVED)
@pytest.mark.parametrize("first_leader", [1, 2, 3])
def test_each_partition_ends_where_reservations_racks_and_drains_want_it(case: str, first_leader: int) -> None:
    told, wanted = RESERVED[case]
    world = GroupWorld(1, nodes=0, partitions=6, standbys=1)
    world.rules = replace(world.rules, leader_racks=("a", "b"))
    for node_id, (rack, only, drains) in told.items():
        leads = dict.fromkeys(range(6), 1) if node_id == first_leader else {}
        world.nodes[node_id] = GroupMember(
            node_id=node_id, rack=rack, only=None if only is None else frozenset(only), drains=drains, leads=leads
        )
    plan, _ = world.settle()
    assert all(plan.leaders[partition] in wanted[partition] for partition in range(6)), plan.leaders
    shared = Counter(plan.leaders.values())
    for nodes in wanted.values():
        assert max(shared[one] for one in nodes) - min(shared[one] for one in nodes) <= 1, plan.leaders


def wanted_leaders(world: GroupWorld, partition: int) -> set[int]:
    """Who is to lead a partition: those for whom it is reserved, else those that take any; in the racks named if one of these is there."""
    staying = {one: member for one, member in world.nodes.items() if not member.drains} or world.nodes
    reserved = {one for one, member in staying.items() if partition in (member.only or ())}
    able = reserved or {one for one, member in staying.items() if member.only is None} or set(staying)
    able -= {one for one in able if partition in world.nodes[one].refuses}
    return {one for one in able if world.nodes[one].rack in world.rules.leader_racks} or able


@pytest.mark.parametrize("seed", range(60))
def test_every_group_ends_where_reservations_racks_and_drains_want_it(seed: int) -> None:
    world = GroupWorld(seed, nodes=seed % 7 + 1)
    draw = world.random
    world.rules = replace(world.rules, leader_racks=tuple(draw.sample("abc", draw.randint(0, 2))))
    for node_id in list(world.nodes):
        only = frozenset(draw.sample(range(-1, len(world.partitions)), draw.randint(1, 2))) if draw.random() < 0.4 else None
        refuses = frozenset(draw.sample(world.partitions, 1)) if draw.random() < 0.2 else frozenset[int]()
        world.change(node_id, rack=draw.choice("abc"), only=only, refuses=refuses, drains=draw.random() < 0.2)
    for _ in range(3):
        plan, _ = world.settle()
        for partition in world.partitions:
            wanted = wanted_leaders(world, partition)
            assert not wanted or plan.leaders[partition] in wanted, (partition, plan.leaders[partition], wanted)
        node_id = draw.choice(list(world.nodes))
        world.change(node_id, drains=not world.nodes[node_id].drains)


def test_a_warm_up_has_its_reason() -> None:
    members = [GroupMember(node_id=1, leads={0: 4, 1: 4}), GroupMember(node_id=2)]
    plan = make_plan(members, range(2), AssignorRules())
    assert sorted(reason[2:] for reason in plan.reasons.values() if reason.warming) == [(2, Because.BALANCE)]
    drained = make_plan([replace(members[0], drains=True), members[1]], range(2), AssignorRules())
    assert {reason[2:] for reason in drained.reasons.values()} == {(2, Because.DRAINED)}
    reserved = make_plan([members[0], replace(members[1], only=frozenset({1}))], range(2), AssignorRules())
    assert reserved.reasons[1][2:] == (2, Because.RESERVED)
    assert reserved.reasons[0][2:] == (None, None)


def test_a_draining_leader_keeps_what_no_other_node_may_have() -> None:
    members = [GroupMember(node_id=1, leads={0: 4}, drains=True), GroupMember(node_id=2, follows={0: 0}, refuses=frozenset({0}))]
    assert make_plan(members, [0], AssignorRules()).leaders == {0: 1}


def test_the_rules_of_the_process_that_started_last_count_whoever_makes_the_plan() -> None:
    old = GroupMember(node_id=1, rack="a", started_ms=5, leads={0: 1})
    new = GroupMember(node_id=2, rack="b", started_ms=6, follows={0: 0}, rules=AssignorRules(standbys=0, leader_racks=("b",)))
    for told in ({"x": old, "y": new}, {"y": old, "x": new}):
        assigned = {one.node_id: assign(told, 1)[member_id] for member_id, one in told.items()}
        assert (assigned[2].leads, assigned[1].follows) == ({0}, frozenset())
    assert rules_in_force([]) == AssignorRules()


def test_a_round_while_a_claim_is_under_way_does_not_take_the_partition_back() -> None:
    former = GroupMember(node_id=1, leads={0: 4, 1: 4})
    claiming = GroupMember(node_id=2, follows={0: 0, 1: 0}, claims=frozenset({0}))
    plan = make_plan([former, claiming], range(2), AssignorRules())
    assert plan.leaders == {0: 2, 1: 1}
    assert plan.reasons[0].because is Because.CLAIMS
    cold = replace(claiming, follows={0: 10**6, 1: 0})
    assert make_plan([former, cold], range(2), AssignorRules()).leaders[0] == 1


def test_of_two_processes_of_one_node_the_later_counts() -> None:
    old = GroupMember(node_id=1, started_ms=5, leads={0: 9})
    plan = make_plan([old, GroupMember(node_id=1, started_ms=6), GroupMember(node_id=2, follows={0: 3})], [0], AssignorRules())
    assert plan.leaders == {0: 2}
    assert plan.reasons[0].because is Because.WARM


def test_partitions_that_are_not_of_the_topic_are_not_placed() -> None:
    plan = make_plan([GroupMember(node_id=1, leads={77: 1}, refuses=frozenset({78}), only=frozenset({79, 0}))], range(2), AssignorRules())
    assert plan.leaders == {0: 1, 1: 1}


def test_without_members_there_is_no_plan() -> None:
    assert make_plan([], range(5), AssignorRules()).leaders == {}
