"""The plan of a group: who may claim each metadata partition, who is to lead it once warm, who stands by, and why.

plan = make_plan(members, range(24), AssignorRules(standbys=1))
plan.leaders[7], plan.reasons[7], plan.follows[node_id]

A pure function of what the members tell, so any of them may make it, and nothing is remembered between two rounds. It never raises: what
cannot be satisfied is left out, availability last. Rules, each before the next:

1. A partition stays with the warm node that was told to claim it, else with the node that leads it. Without one it goes to a warm
   standby, else to the node that is loading it already, else to the replica that is least behind, else to the node that leads least.
2. Leaders are balanced within one, on the nodes that may lead: not draining, in the racks that were named, reserved ones only for their
   partitions. A partition that no node of these racks may have is led in another one. Only the surplus moves, and a live leader gives a
   partition up only to a warm node: a cold one follows first, and asks for the next round when it is warm.
3. Each partition has its standbys on other nodes than its leader, in other racks first, spread evenly.
4. A warm replica is let go only when as many others are warm as there shall be standbys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heapreplace
from math import inf
from typing import NamedTuple

from coordinator.core.assignor.loads import NodeLoads, weight
from coordinator.core.assignor.member import AssignorRules, GroupMember

TIES_MAX = 8
"""Nodes with equal load that are compared for spreading one leader's standbys over many."""


class Because(Enum):
    """Why a node may claim a partition."""

    LEADS = "it leads it"
    WARM = "its replica is warm, and no live node leads"
    CLAIMS = "it was told to lead it, and is about to"
    LEAST_BEHIND = "its replica is the least behind, and none is warm"
    LEAST_LOADED = "it leads least, and no node has a replica"
    BALANCE = "the leader before it leads more than its share"
    RESERVED = "the partition is reserved for it"
    DRAINED = "the leader before it drains, or is in another rack than those of leaders"


class LeaderReason(NamedTuple):
    """Why, from which node the partition came (None: from none that leads), which node warms up to lead it instead (None: none), and why
    that one."""

    because: Because
    former: int | None
    warming: int | None
    warming_because: Because | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """Nodes by partition: `leaders` may claim now, `targets` shall lead once warm. `follows` has the other replicas of each node."""

    leaders: Mapping[int, int]
    targets: Mapping[int, int]
    standbys: Mapping[int, tuple[int, ...]]
    follows: Mapping[int, frozenset[int]]
    reasons: Mapping[int, LeaderReason]

    @property
    def is_settled(self) -> bool:
        """Whether nothing moves and nothing warms up."""
        duties = sum(map(len, self.follows.values()))
        return self.leaders == self.targets and duties == sum(map(len, self.standbys.values()))


def make_plan(members: Iterable[GroupMember], partitions: Sequence[int], rules: AssignorRules) -> GroupPlan:
    """Make the plan; without members it is empty."""
    newest: dict[int, GroupMember] = {}
    for member in sorted(members, key=lambda one: one.started_ms):
        newest[member.node_id] = member
    nodes = dict(sorted(newest.items()))
    if not nodes:
        return GroupPlan(leaders={}, targets={}, standbys={}, follows={}, reasons={})
    known = _Known(nodes, partitions, rules)
    leading = _Leading(known)
    leading.keep()
    leading.give_orphans()
    leading.balance()
    standing = _StandingBy(known, leading.targets)
    standing.keep()
    standing.fill()
    standing.level()
    return GroupPlan(
        leaders=leading.leaders,
        targets=leading.targets,
        standbys={partition: tuple(nodes) for partition, nodes in standing.standbys.items()},
        follows=_duties(known, leading, standing.standbys),
        reasons=leading.reasons(),
    )


class _Known:
    """What the members told, by partition."""

    def __init__(self, nodes: Mapping[int, GroupMember], partitions: Sequence[int], rules: AssignorRules) -> None:
        self.nodes, self.partitions, self.rules = nodes, partitions, rules
        self.holders: dict[int, dict[int, int]] = {partition: {} for partition in partitions}
        """Partition -> node -> entries behind."""
        self.claiming: dict[int, list[int]] = {}
        for node_id, member in nodes.items():
            for partition in member.claims:
                self.claiming.setdefault(partition, []).append(node_id)
            for partition, lag in (*member.follows.items(), *((partition, 0) for partition in member.leads)):
                if partition in self.holders:
                    self.holders[partition][node_id] = lag
        staying = [node_id for node_id, member in nodes.items() if not member.drains] or list(nodes)
        preferred = [node_id for node_id in staying if nodes[node_id].rack in rules.leader_racks]
        self.staying = frozenset(staying)
        self.leader_pool = frozenset(preferred or staying)
        self._named: dict[int, set[int]] = {}
        for node_id in self.staying:
            for partition in nodes[node_id].only or ():
                self._named.setdefault(partition, set()).add(node_id)
        self._refused = frozenset().union(*(member.refuses for member in nodes.values()))
        self._able: dict[int, frozenset[int]] = {}
        self._leaders: dict[frozenset[int], frozenset[int]] = {}
        self._takes_any = frozenset(node_id for node_id in self.staying if nodes[node_id].only is None)

    def led_ms(self, partition: int, node_id: int) -> float:
        """Return for how long a node leads a partition."""
        return self.nodes[node_id].led_ms.get(partition, inf)

    def able(self, partition: int) -> frozenset[int]:
        """Return the nodes that may have the partition: they stay, it is reserved for them or for none, and they do not refuse it."""
        found = self._able.get(partition)
        if found is None:
            named = self._named.get(partition)
            found = self._takes_any or self.staying if named is None else frozenset(named)
            if partition in self._refused:
                found = frozenset(node_id for node_id in found if partition not in self.nodes[node_id].refuses)
            self._able[partition] = found
        return found

    def leaders(self, partition: int) -> frozenset[int]:
        """Return the nodes that are to lead the partition, if any does: those that may have it, in racks for leaders if one is there."""
        able = self.able(partition)
        found = self._leaders.get(able)
        if found is None:
            found = self._leaders[able] = able & self.leader_pool or able
        return found

    def may_lead(self, node_id: int, partition: int) -> bool:
        """Whether the partition is to be led by the node, if by any."""
        return node_id in self.leaders(partition)

    def is_warm(self, node_id: int, partition: int) -> bool:
        """Whether the node could lead the partition at once."""
        return self.holders[partition].get(node_id, inf) <= self.rules.warm_lag and partition not in self.nodes[node_id].refuses

    def room(self, led: Mapping[int, int]) -> dict[int, int]:
        """Return how many more partitions each node shall lead, below zero for its surplus.

        The partitions that the fewest nodes may lead are shared out first. Of nodes with equally many the one that leads most gets the
        next, so that the least moves.
        """
        alike = Counter(nodes for nodes in map(self.leaders, self.partitions) if nodes)
        share = dict.fromkeys(self.nodes, 0)
        for nodes, count in sorted(alike.items(), key=lambda item: (len(item[0]), sorted(item[0]))):
            least = [(share[node_id], -led[node_id], node_id) for node_id in nodes]
            heapify(least)
            for _ in range(count):
                number, minus_led, node_id = least[0]
                heapreplace(least, (number + 1, minus_led, node_id))
                share[node_id] += 1
        return {node_id: number - led[node_id] for node_id, number in share.items()}


class _Leading:
    """Rules 1 and 2."""

    def __init__(self, known: _Known) -> None:
        self.known = known
        self.led = NodeLoads(known.nodes)
        self._because: dict[int, Because] = {}
        self._warming_because: dict[int, Because] = {}
        self._former: dict[int, int] = {}
        self.leaders: dict[int, int] = {}
        self.targets: dict[int, int] = {}

    def reasons(self) -> dict[int, LeaderReason]:
        """Return why each partition is where it is."""
        return {
            partition: LeaderReason(
                self._because[partition],
                self._former.get(partition),
                None if self.targets[partition] == leader else self.targets[partition],
                self._warming_because.get(partition),
            )
            for partition, leader in self.leaders.items()
        }

    def keep(self) -> None:
        """Leave partitions with the nodes that were told to claim them and are warm, else with those that lead them.

        A claim takes a moment, in which the former leader leads on: a round in that moment must not take the partition back. Of two
        that lead the later term counts.
        """
        known, nodes = self.known, self.known.nodes
        for partition, holders in known.holders.items():
            claiming = [
                node_id
                for node_id in known.claiming.get(partition, ())
                if known.is_warm(node_id, partition) and known.may_lead(node_id, partition)
            ]
            if claiming:
                self.give(partition, min(claiming, key=lambda one: self._preference(one, partition)), Because.CLAIMS)
                continue
            terms = [
                (nodes[node_id].leads[partition], node_id)
                for node_id in holders
                if partition in nodes[node_id].leads and partition not in nodes[node_id].refuses
            ]
            if terms:
                self.give(partition, max(terms)[1], Because.LEADS)
                self._former[partition] = self.leaders[partition]

    def give_orphans(self) -> None:
        """Give away the partitions that no live node leads, those with the fewest warm replicas first."""
        known = self.known
        warm = {
            partition: [node_id for node_id in holders if known.is_warm(node_id, partition)]
            for partition, holders in known.holders.items()
            if partition not in self.leaders
        }
        for partition in sorted(warm, key=lambda partition: (len(warm[partition]) or len(known.nodes) + 1, partition)):
            if warm[partition]:
                self.give(partition, min(warm[partition], key=lambda node_id: self._preference(node_id, partition)), Because.WARM)
            else:
                self.give(partition, *self._cold_leader(partition))

    def _preference(self, node_id: int, partition: int) -> tuple[bool, bool, bool, int, int]:
        known = self.known
        return (
            node_id not in known.able(partition),
            node_id not in known.leader_pool,
            partition not in known.nodes[node_id].claims,
            self.led.of[node_id],
            weight(partition, node_id),
        )

    def _cold_leader(self, partition: int) -> tuple[int, Because]:
        """Choose a node for a partition without a warm replica; when none may lead it, any node."""
        known = self.known
        holders = known.holders[partition]
        for at_it, because in ((known.claiming.get(partition, ()), Because.CLAIMS), (holders, Because.LEAST_BEHIND)):
            fit = [node_id for node_id in at_it if known.may_lead(node_id, partition)]
            if fit:
                return min(fit, key=lambda one: (holders.get(one, inf), self.led.of[one], weight(partition, one))), because
        by_load = [node_id for level in self.led.levels(weight(partition, 0)) for node_id in level]
        for fits in (
            lambda node_id: known.may_lead(node_id, partition),
            lambda node_id: node_id in known.able(partition),
            lambda node_id: partition not in known.nodes[node_id].refuses,
        ):
            found = next(filter(fits, by_load), None)
            if found is not None:
                return found, Because.LEAST_LOADED
        return by_load[0], Because.LEAST_LOADED

    def balance(self) -> None:
        """Move the surplus: what a node below its share has warm, then what the others shall warm up.

        First go the partitions of leaders that drain, and those reserved for other nodes.
        """
        known = self.known
        room = known.room(self.led.of)
        started: Counter[int] = Counter()
        self._move_misplaced(known.able, room, started)
        for partition, node_id in self._surplus_followed(room):
            if room[node_id] > 0 and room[self.leaders[partition]] < 0 and self.targets[partition] == self.leaders[partition]:
                self._move(partition, node_id, room, started)
        giving = [partition for partition, node_id in self.leaders.items() if room[node_id] < 0 and self.targets[partition] == node_id]
        for partition in sorted(giving, key=lambda partition: weight(partition, -1)):
            if room[self.leaders[partition]] < 0:
                able = [node_id for node_id, free in room.items() if free > 0 and known.may_lead(node_id, partition)]
                if able:
                    self._move(partition, max(able, key=lambda node_id: (room[node_id], weight(partition, node_id))), room, started)
        # In another rack than those of leaders though it leads no more than its share: it shall get other partitions instead.
        self._move_misplaced(known.leaders, room, started)

    def _move_misplaced(self, fit: Callable[[int], frozenset[int]], room: dict[int, int], started: Counter[int]) -> None:
        """Move the partitions whose leader is not among those that fit."""
        known = self.known
        misplaced = [partition for partition, node_id in self.targets.items() if node_id not in fit(partition)]
        for partition in sorted(misplaced, key=lambda partition: weight(partition, -1)):
            if nodes := known.leaders(partition):
                best = min(nodes, key=lambda node_id: (not known.is_warm(node_id, partition), -room[node_id], weight(partition, node_id)))
                self._move(partition, best, room, started)

    def _surplus_followed(self, room: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """Yield what nodes below their share follow of nodes above theirs, the least behind first, then what moved last.

        So a node that comes back gets what it led before: partitions move about twice while all nodes restart one by one.
        """
        known = self.known
        found = [
            (0 if lag <= known.rules.warm_lag else lag, known.led_ms(partition, leader), weight(partition, node_id), partition, node_id)
            for partition, leader in self.leaders.items()
            if room[leader] < 0
            for node_id, lag in known.holders[partition].items()
            if room[node_id] > 0 and known.may_lead(node_id, partition)
        ]
        for *_, partition, node_id in sorted(found):
            yield partition, node_id

    def _move(self, partition: int, node_id: int, room: dict[int, int], started: Counter[int]) -> None:
        """Let a node lead instead: at once when it is warm, else after a warm-up, unless it has enough of those. Its place is taken."""
        known, leader = self.known, self.leaders[partition]
        room[leader] += 1
        room[node_id] -= 1
        because = Because.BALANCE
        if leader not in known.leader_pool:
            because = Because.DRAINED
        elif leader not in known.able(partition):
            because = Because.RESERVED
        if known.is_warm(node_id, partition):
            self.led.add(leader, -1)
            self.give(partition, node_id, because)
        elif started[node_id] < known.rules.warm_ups:
            started[node_id] += 1
            self.targets[partition] = node_id
            self._warming_because[partition] = because

    def give(self, partition: int, node_id: int, because: Because) -> None:
        self.leaders[partition] = self.targets[partition] = node_id
        self._because[partition] = because
        self.led.add(node_id)


class _StandingBy:
    """Rule 3, for the nodes that shall lead."""

    def __init__(self, known: _Known, targets: Mapping[int, int]) -> None:
        self.known, self._targets = known, targets
        self._able = {partition: known.able(partition) for partition in targets}
        self._held = NodeLoads(known.nodes)
        self._pairs: Counter[tuple[int, int]] = Counter()
        """Leader and standby -> partitions: those of a dead leader shall fall on many."""
        self._racks: dict[frozenset[int], Counter[str]] = {}
        self._used: dict[int, Counter[str]] = {partition: Counter((known.nodes[node_id].rack,)) for partition, node_id in targets.items()}
        self._wanted = max(0, min(known.rules.standbys, len(known.nodes) - 1))
        self.standbys: dict[int, list[int]] = {partition: [] for partition in targets}

    def keep(self) -> None:
        """Keep nodes that follow already, where no other rack is better."""
        known = self.known
        for partition in self._targets:
            while len(self.standbys[partition]) < self._wanted:
                crowd = self._least_crowd(partition)
                free = [node_id for node_id in known.holders[partition] if self._fits(node_id, partition, crowd)]
                if not free:
                    break
                self._add(
                    partition, min(free, key=lambda node_id: (not known.is_warm(node_id, partition), self._strain(partition, node_id)))
                )

    def fill(self) -> None:
        """Fill up with the nodes that have least."""
        for partition in sorted(self._targets, key=lambda partition: weight(partition, -2)):
            while len(self.standbys[partition]) < self._wanted:
                self._add(partition, self._least(partition))

    def level(self) -> None:
        """Pass on from full nodes to empty ones, where neither rack nor ability get worse.

        At first none passes the even share, so that nothing moves twice; then the fullest and the emptiest meet, as far as racks and
        abilities have left them apart.
        """
        held = self._held.of
        share, rest = divmod(sum(held.values()), len(self.known.staying))
        for least, most in ((share, share + (rest > 0)), (inf, 0)):
            while self._wanted and self._level_once(least, most):
                pass

    def _level_once(self, least: float, most: int) -> bool:
        """Let the fuller of two nodes pass on down to `most`, and the other one take up to `least`; returns whether any did."""
        held = self._held.of
        has_moved = False
        of: dict[int, list[int]] = {node_id: [] for node_id in held}
        for partition, nodes in self.standbys.items():
            for node_id in nodes:
                of[node_id].append(partition)
        for giver in sorted(held, key=lambda node_id: (-held[node_id], node_id)):
            by_rack: dict[str, list[int]] = {}
            for taker in sorted(held, key=lambda node_id: (held[node_id], node_id)):
                number = min((held[giver] - held[taker]) // 2, held[giver] - most, least - held[taker])
                if number < 1:
                    break
                rack = self.known.nodes[taker].rack
                if rack not in by_rack:
                    by_rack[rack] = self._no_closer(giver, rack, of[giver])
                passed = self._pass_on(giver, taker, by_rack[rack], int(number))
                has_moved |= bool(passed)
                for partitions in (of[giver], *by_rack.values()):
                    partitions[:] = [partition for partition in partitions if partition not in passed]
        return has_moved

    def _no_closer(self, giver: int, rack: str, partitions: Sequence[int]) -> list[int]:
        """Return those of a giver's partitions that a node in a rack may stand by for without more replicas in one rack."""
        own = self.known.nodes[giver].rack
        if rack == own:
            return list(partitions)
        return [partition for partition in partitions if self._used[partition].get(rack, 0) < self._used[partition].get(own, 0)]

    def _pass_on(self, giver: int, taker: int, partitions: Sequence[int], number: int) -> set[int]:
        """Pass on so many of the giver's partitions, or fewer, and return them."""
        known, able, targets, standbys = self.known, self._able, self._targets, self.standbys
        fit = [
            partition
            for partition in partitions
            if (
                taker in able[partition]
                or (giver not in able[partition] and self._doubt(taker, partition) <= self._doubt(giver, partition))
            )
            and taker != targets[partition]
            and taker not in standbys[partition]
        ]
        fit.sort(
            key=lambda partition: (
                taker not in known.holders[partition],
                self._pairs[targets[partition], taker] - self._pairs[targets[partition], giver],
                weight(partition, taker),
            )
        )
        for partition in fit[:number]:
            self._drop(partition, giver)
            self._add(partition, taker)
        return set(fit[:number])

    def _doubt(self, node_id: int, partition: int) -> int:
        """0 for a node that may stand by, 1 for one that only can (it drains, it is reserved for others), 2 for one that cannot."""
        if node_id in self._able[partition]:
            return 0
        return 1 + (partition in self.known.nodes[node_id].refuses)

    def _least_crowd(self, partition: int) -> int:
        """How many replicas the rack has that is to get the next standby, of those with an able node that is free."""
        able = self._able[partition]
        if (sizes := self._racks.get(able)) is None:
            sizes = self._racks[able] = Counter(self.known.nodes[node_id].rack for node_id in able)
        taken = [self.known.nodes[node_id].rack for node_id in (self._targets[partition], *self.standbys[partition]) if node_id in able]
        used = self._used[partition]
        return min((used[rack] for rack, size in sizes.items() if taken.count(rack) < size), default=-1)

    def _fits(self, node_id: int, partition: int, crowd: int) -> bool:
        is_free = node_id != self._targets[partition] and node_id not in self.standbys[partition]
        is_able = is_free and node_id in self._able[partition]
        return is_able and self._used[partition].get(self.known.nodes[node_id].rack, 0) <= crowd

    def _least(self, partition: int) -> int:
        """Choose the next standby: able before other racks before load."""
        nodes, used = self.known.nodes, self._used[partition]
        best: list[tuple[int, int, int]] = []
        crowd = self._least_crowd(partition)
        last: tuple[int, int, int] | None = None
        free = self._able[partition].difference((self._targets[partition],), self.standbys[partition])
        for level in self._held.levels(weight(partition, -3)):
            for node_id in level:
                if node_id in free and used.get(nodes[node_id].rack, 0) <= crowd:
                    best.append((self._pairs[self._targets[partition], node_id], len(best), node_id))
                    if len(best) == TIES_MAX:
                        break
            if best:
                return min(best)[2]
        for node_id in nodes:
            if node_id != self._targets[partition] and node_id not in self.standbys[partition]:
                rank = (self._doubt(node_id, partition), used[nodes[node_id].rack], self._held.of[node_id])
                if last is None or rank < last:
                    last, chosen = rank, node_id
        return chosen

    def _strain(self, partition: int, node_id: int) -> tuple[int, int, int]:
        return self._pairs[self._targets[partition], node_id], self._held.of[node_id], weight(partition, node_id)

    def _add(self, partition: int, node_id: int) -> None:
        self.standbys[partition].append(node_id)
        self._used[partition][self.known.nodes[node_id].rack] += 1
        self._pairs[self._targets[partition], node_id] += 1
        self._held.add(node_id)

    def _drop(self, partition: int, node_id: int) -> None:
        self.standbys[partition].remove(node_id)
        self._used[partition][self.known.nodes[node_id].rack] -= 1
        self._pairs[self._targets[partition], node_id] -= 1
        self._held.add(node_id, -1)


def _duties(known: _Known, leading: _Leading, standbys: Mapping[int, Sequence[int]]) -> dict[int, frozenset[int]]:
    """Rule 4: what each node follows now, standbys, warm-ups, and warm replicas that are still needed."""
    follows: dict[int, set[int]] = {node_id: set() for node_id in known.nodes}
    for partition, nodes in standbys.items():
        leader, holders = leading.leaders[partition], known.holders[partition]
        followers = {*nodes, leading.targets[partition]} - {leader}
        warm = sum(known.is_warm(node_id, partition) for node_id in followers)
        if warm < len(nodes):
            spare = [one for one in holders if one not in followers and one != leader and known.is_warm(one, partition)]
            spare.sort(key=lambda node_id: (holders[node_id], node_id))
            followers.update(spare[: len(nodes) - warm])
        for node_id in followers:
            follows[node_id].add(partition)
    return {node_id: frozenset(partitions) for node_id, partitions in follows.items()}
