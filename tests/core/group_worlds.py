"""Random groups for the assignor: nodes with what they hold; a round plans and carries the plan out, time lets replicas warm up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from coordinator.core.assignor.member import AssignorRules, GroupMember
from coordinator.core.assignor.plan import GroupPlan, make_plan

COLD = 500_000
"""Entries that a replica is behind when it begins."""
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
        for node_id, member in self.nodes.items():
            mine = {partition for partition, leader in plan.leaders.items() if leader == node_id}
            warm = {partition for partition in mine - member.refuses if lag_of(member, partition) <= self.rules.warm_lag}
            claims = mine - warm
            self.cold_terms += len(claims - member.claims)
            self.change(
                node_id,
                leads={partition: member.leads.get(partition) or self._new_epoch() for partition in warm},
                follows={partition: lag_of(member, partition) for partition in {*plan.follows[node_id], *claims}},
                claims=frozenset(claims),
            )
        return plan

    def warm_up(self, *, fully: bool) -> None:
        """Let time pass: replicas catch up, all or some of them; a node leads what it was to claim."""
        for node_id, member in self.nodes.items():
            follows = {partition: 0 if fully or self.random.random() < 0.5 else lag for partition, lag in member.follows.items()}
            ready = {
                partition: self._new_epoch() for partition in member.claims if not follows[partition] and partition not in member.refuses
            }
            follows = {partition: lag for partition, lag in follows.items() if partition not in ready}
            self.change(node_id, leads={**member.leads, **ready}, follows=follows, claims=member.claims - set(ready))

    def settle(self) -> tuple[GroupPlan, int]:
        """Let rounds follow each other until nothing moves; return the plan and the number of rounds."""
        for number in range(1, 200):
            plan = self.round()
            self.warm_up(fully=True)
            if plan.is_settled:
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
        leading = [
            (member.leads[partition], one) for one, member in nodes.items() if partition in member.leads and partition not in member.refuses
        ]
        if leading:
            led[max(leading)[1]] += 1
            moving += plan.targets[partition] != max(leading)[1]
    share, extra = divmod(len(world.partitions), len(nodes))
    surplus = sum(max(0, number - share - (rank < extra)) for rank, number in enumerate(sorted(led.values(), reverse=True)))
    assert moving <= surplus + len(world.partitions) - led.total(), "more than the surplus moves"
