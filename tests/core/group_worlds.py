"""Random groups for the assignor: nodes with what they hold; a round plans and carries the plan out, time lets replicas warm up."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from coordinator.core.assignor.member import AssignorRules, GroupMember
from coordinator.core.assignor.plan import GroupPlan, make_plan

COLD = 500_000
"""Entries that a replica is behind when it begins."""
SLOW_CLAIMS = 0.3
"""So many of the partitions that a live leader is to give up are claimed only when time passes: until then it leads on."""
EVENTS = ("kill", "kill", "add", "restart", "refuse", "drain", "nothing", "nothing")
RACKS = ([""], ["a", "b"], ["a", "b", "c"], ["a", "a", "a", "b"])


class GroupWorld:
    """Nodes of one service and their rounds. `cold_terms` counts partitions given to nodes without a warm replica."""

    def __init__(self, seed: int, *, nodes: int | None = None, partitions: int | None = None, standbys: int | None = None) -> None:
        self.random = random.Random(seed)
        draw = self.random
        self.partitions = range(draw.choice((1, 2, 5, 12, 12, 24, 50)) if partitions is None else partitions)
        self.rules = AssignorRules(standbys=draw.choice((0, 1, 1, 1, 2, 3)) if standbys is None else standbys)
        self.racks = draw.choice(RACKS)
        self.nodes: dict[int, GroupMember] = {}
        self.ghosts: list[GroupMember] = []
        self.cold_terms = 0
        self._next_node = 1
        self._epoch = 0
        for _ in range(draw.randint(1, 10) if nodes is None else nodes):
            self.add()

    @property
    def wanted(self) -> int:
        """Standbys that each partition can have."""
        return min(self.rules.standbys, len(self.nodes) - 1)

    def add(self, **told: object) -> int:
        """Start a node."""
        node_id, self._next_node = self._next_node, self._next_node + 1
        member = GroupMember(node_id=node_id, rack=self.random.choice(self.racks), started_ms=node_id)
        self.nodes[node_id] = replace(member, **told)  # type: ignore[arg-type]
        return node_id

    def change(self, node_id: int, **told: object) -> None:
        """Let a node tell something else from the next round on."""
        self.nodes[node_id] = replace(self.nodes[node_id], **told)  # type: ignore[arg-type]

    def restart(self, node_id: int) -> None:
        """Kill a node and start it again at once with its disk some entries behind; the session of the old process may still run."""
        old = self.nodes[node_id]
        behind = {partition: self.random.choice((0, 50_000)) for partition in {*old.leads, *old.follows}}
        self.change(node_id, started_ms=old.started_ms + 1_000_000, leads={}, follows=behind, claims=frozenset())
        self.ghosts += [old] * self.random.randint(0, 1)

    def round(self) -> GroupPlan:
        """Plan, check what holds for every plan, and let the nodes carry it out."""
        told = [
            replace(member, led_ms={partition: self._epoch - epoch for partition, epoch in member.leads.items()})
            for member in (*self.nodes.values(), *self.ghosts)
        ]
        self.ghosts = []
        plan = make_plan(self.random.sample(told, len(told)), self.partitions, self.rules)
        assert plan == make_plan(self.random.sample(told, len(told)), self.partitions, self.rules), "the order of members matters"
        check_plan(self, plan)
        before = dict(self.nodes)
        slow = {
            partition for partition in self.partitions if self.random.random() < SLOW_CLAIMS and self._is_led_elsewhere(partition, plan)
        }
        for node_id, member in before.items():
            mine = {partition for partition, leader in plan.leaders.items() if leader == node_id}
            warm = {partition for partition in mine - member.refuses if lag_of(member, partition) <= self.rules.warm_lag}
            self.cold_terms += len(mine - warm - member.claims)
            claims = (mine - warm) | (warm & slow)
            believed = {partition: epoch for partition, epoch in member.leads.items() if partition in slow - mine}
            leads = {partition: member.leads.get(partition) or self._new_epoch() for partition in warm - slow}
            follows = {partition: lag_of(member, partition) for partition in {*plan.follows[node_id], *claims} - set(believed)}
            self.change(node_id, leads=leads | believed, follows=follows, claims=frozenset(claims))
        return plan

    def _is_led_elsewhere(self, partition: int, plan: GroupPlan) -> bool:
        """Whether a warm node is to take the partition from a live leader."""
        leader = plan.leaders[partition]
        leading = {node_id for node_id, member in self.nodes.items() if partition in member.leads and partition not in member.refuses}
        is_warm = lag_of(self.nodes[leader], partition) <= self.rules.warm_lag and partition not in self.nodes[leader].refuses
        return is_warm and bool(leading) and leader not in leading

    def warm_up(self, *, fully: bool) -> None:
        """Let time pass: replicas catch up, all or some of them; a node leads what it was to claim, and who led it before follows."""
        taken: set[int] = set()
        for node_id, member in self.nodes.items():
            follows = {partition: 0 if fully or self.random.random() < 0.5 else lag for partition, lag in member.follows.items()}
            ready = {
                partition: self._new_epoch() for partition in member.claims if not follows[partition] and partition not in member.refuses
            }
            follows = {partition: lag for partition, lag in follows.items() if partition not in ready}
            self.change(node_id, leads={**member.leads, **ready}, follows=follows, claims=member.claims - set(ready))
            taken |= set(ready)
        for partition in taken:
            leading = {member.leads[partition]: node_id for node_id, member in self.nodes.items() if partition in member.leads}
            for epoch, node_id in leading.items():
                if epoch != max(leading):
                    member = self.nodes[node_id]
                    leads = {one: epoch for one, epoch in member.leads.items() if one != partition}
                    self.change(node_id, leads=leads, follows={**member.follows, partition: 0})

    def settle(self) -> tuple[GroupPlan, int]:
        """Let rounds follow each other until nothing moves; return the plan and the number of rounds."""
        for number in range(1, 200):
            plan = self.round()
            has_claims = any(member.claims - member.refuses for member in self.nodes.values())
            self.warm_up(fully=True)
            if plan.is_settled and not has_claims:
                return plan, number
        raise AssertionError("the group does not settle")

    def _new_epoch(self) -> int:
        self._epoch += 1
        return self._epoch


def lag_of(member: GroupMember, partition: int) -> int:
    """Return how far a replica is behind; one that is not there begins at `COLD`."""
    return 0 if partition in member.leads else member.follows.get(partition, COLD)


def able_nodes(nodes: Mapping[int, GroupMember], partition: int) -> set[int]:
    """Return the nodes that can lead a partition."""
    return {node_id for node_id, member in nodes.items() if partition not in member.refuses}


def check_plan(world: GroupWorld, plan: GroupPlan) -> None:
    """What holds for every plan, whatever happened before."""
    nodes, wanted = world.nodes, world.wanted
    assert set(plan.leaders) == set(world.partitions)
    assert set(plan.leaders.values()) <= set(nodes)
    for partition in world.partitions:
        leader, able = plan.leaders[partition], able_nodes(nodes, partition)
        warm = {node_id for node_id in able if lag_of(nodes[node_id], partition) <= world.rules.warm_lag}
        assert leader in warm or not warm, (partition, "given to a cold node though a warm one is there")
        assert leader in able or not able, (partition, "given to a node that refuses it")
        followers = {node_id for node_id, partitions in plan.follows.items() if partition in partitions}
        assert leader not in followers
        assert plan.targets[partition] in {leader, *followers}
        assert len(set(plan.standbys[partition])) == wanted
        assert plan.targets[partition] not in plan.standbys[partition]
        assert set(plan.standbys[partition]) <= {leader, *followers}
        assert len(followers & warm) >= min(wanted, len(warm - {leader})), (partition, "a warm replica is let go too early")
        leading = [node_id for node_id in able if partition in nodes[node_id].leads]
        claiming = [node_id for node_id in able if partition in nodes[node_id].claims]
        is_alone = not warm and not leading and len(claiming) == 1
        draining = claiming and nodes[claiming[0]].drains
        assert not is_alone or draining or nodes[claiming[0]].only is not None or leader == claiming[0], (
            partition,
            "a recovery is thrown away",
        )
        reason = plan.reasons[partition]
        assert reason.warming == (None if plan.targets[partition] == leader else plan.targets[partition])
        assert reason.former is None or reason.former in leading
    _check_moves(world, plan)


def _check_moves(world: GroupWorld, plan: GroupPlan) -> None:
    """No more than the surplus moves, where all nodes may lead all partitions."""
    nodes = world.nodes
    if any(member.drains or member.only is not None for member in nodes.values()) or world.rules.leader_racks:
        return
    led: Counter[int] = Counter(dict.fromkeys(nodes, 0))
    moving = 0
    for partition in world.partitions:
        able = {one: member for one, member in nodes.items() if partition not in member.refuses}
        leading = [(member.leads[partition], one) for one, member in able.items() if partition in member.leads]
        claiming = [one for one, member in able.items() if partition in member.claims and lag_of(member, partition) <= world.rules.warm_lag]
        if leading:
            at = claiming[0] if len(claiming) == 1 else max(leading)[1]
            led[at] += 1
            moving += plan.targets[partition] != at
    share, extra = divmod(len(world.partitions), len(nodes))
    surplus = sum(max(0, number - share - (rank < extra)) for rank, number in enumerate(sorted(led.values(), reverse=True)))
    assert moving <= surplus + len(world.partitions) - led.total(), "more than the surplus moves"


# ---- lives of groups


def live(world: GroupWorld) -> None:
    """Lead a settled group through one death, and through many troubles at the same time, until it is settled again."""
    draw = world.random
    check_settled(world)
    if world.wanted:
        world.cold_terms = 0
        before, dead = world.round(), draw.choice(list(world.nodes))
        del world.nodes[dead]
        check_death(world, dead, before, world.round())
        assert world.cold_terms == 0, "after one death of a settled group a partition is led cold"
    for _ in range(draw.randint(1, 12)):
        event, node_id = draw.choice(EVENTS), draw.choice(list(world.nodes))
        if event == "kill" and len(world.nodes) > 1:
            del world.nodes[node_id]
        elif event == "add":
            world.add()
        elif event == "restart":
            world.restart(node_id)
        elif event == "refuse":
            refused = draw.sample(world.partitions, min(2, len(world.partitions))) if draw.random() < 0.5 else ()
            world.change(node_id, refuses=frozenset(refused))
        elif event == "drain":
            world.change(node_id, drains=not world.nodes[node_id].drains)
        plan = world.round()
        under_way = {partition for member in world.nodes.values() for partition in member.claims - member.refuses}
        again = world.round()
        back = {partition for partition in under_way if again.leaders[partition] != plan.leaders[partition]}
        assert not back, (back, "a round takes a claim under way back")
        world.warm_up(fully=False)
    check_settled(world)


def check_death(world: GroupWorld, dead: int, before: GroupPlan, after: GroupPlan) -> None:
    """What holds in the round after a node of a settled group died: few others begin to follow anything."""
    if world.wanted != world.rules.standbys or len({member.rack for member in world.nodes.values()}) > 1:
        return
    lost = [partition for partition in world.partitions if dead in (before.leaders[partition], *before.standbys[partition])]
    begin = [
        standby
        for partition in world.partitions
        for standby in after.standbys[partition]
        if standby not in (before.leaders[partition], *before.standbys[partition])
    ]
    assert len(begin) <= len(lost) + len(world.nodes), "more replicas move than were lost"


def check_settled(world: GroupWorld) -> None:
    """What holds when nothing moves: a further round changes nothing, leaders and standbys are even, racks are as many as there can be."""
    plan, _ = world.settle()
    before = dict(world.nodes)
    again = world.round()
    assert (again.leaders, again.follows) == (plan.leaders, plan.follows)
    assert world.nodes == before
    is_plain = not any(member.refuses or member.drains or member.only is not None for member in world.nodes.values())
    if is_plain:
        assert spread(world, plan.leaders.values()) <= 1
    for partition in world.partitions:
        nodes = [plan.leaders[partition], *plan.standbys[partition]]
        assert len(plan.standbys[partition]) == world.wanted == sum(partition in follows for follows in plan.follows.values())
        able = {one for one in able_nodes(world.nodes, partition) if not world.nodes[one].drains}
        assert not able or plan.leaders[partition] in able, (partition, "led by a node that drains or refuses, though others could")
        racks = {world.nodes[one].rack for one in able}
        if len(able) > world.wanted and not any(member.only for member in world.nodes.values()):
            assert len({world.nodes[one].rack for one in nodes}) >= min(len(racks), len(nodes)), (partition, nodes, "racks")
    if is_plain and len({member.rack for member in world.nodes.values()}) == 1:
        assert spread(world, itertools.chain.from_iterable(plan.standbys.values())) <= 1


def spread(world: GroupWorld, nodes: Iterable[int]) -> int:
    """Return how many more of these the node with most has than the node with least."""
    count = Counter(dict.fromkeys(world.nodes, 0))
    count.update(nodes)
    return max(count.values()) - min(count.values())
