"""The consumer group of the fakes: members, assignments, generations, the watchdog.

A round plans by `coordinator.core.assignor`, as the leader of a real group does, from what the members tell then. A test may also switch
rounds off and assign partitions by hand.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable, Mapping

from coordinator.core.assignor.group import NOT_ASSIGNED, GroupAssignment, assign
from coordinator.core.assignor.member import GroupMember
from coordinator.runtime.ports import MembershipListener, Proof
from simulation.fakes.kafka_log import Faults


class FakeGroup:
    """The group coordinator: who is a member, in which generation, and who owns which partition."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop, rng: random.Random, faults: Faults, partitions: int) -> None:
        self.loop = loop
        self.rng = rng
        self.faults = faults
        self.partition_count = partitions
        self.is_automatic = True
        self.is_available = True
        self.generation = 0
        self._members: dict[str, FakeMembership] = {}
        self._owners: dict[int, str] = {}
        self._followed: dict[str, frozenset[int]] = {}
        self._pending: asyncio.TimerHandle | None = None

    # ---- for tests

    def owner(self, partition: int) -> str | None:
        """Return who owns a partition, if anybody."""
        return self._owners.get(partition)

    def told(self, node: str) -> frozenset[int]:
        """Return what a member is to lead or to follow."""
        return self._followed.get(node, frozenset()) | {partition for partition, owner in self._owners.items() if owner == node}

    def members(self) -> tuple[str, ...]:
        """Return the members in the order they joined."""
        return tuple(self._members)

    def client_ids(self) -> frozenset[str]:
        """Return what the members call themselves; a process that was started again does as it did before."""
        return frozenset(member.client_id for member in self._members.values())

    def assign(self, owners: Mapping[int, str], followed: Mapping[str, frozenset[int]] | None = None) -> None:
        """Set the whole assignment by hand and switch automatic balance off; every node that is named must be a member.

        `followed` has what each member follows besides what it owns: everything where it is left out.
        """
        strangers = sorted({*owners.values(), *(followed or ())} - set(self._members))
        if strangers:
            raise ValueError(f"{', '.join(strangers)} are not members of the group")
        self.is_automatic = False
        self._owners = dict(owners)
        everything = dict.fromkeys(self._members, frozenset(range(self.partition_count)))
        self._followed = everything if followed is None else dict(followed)
        self._new_generation()

    def lose_all(self) -> None:
        """A crash of the group coordinator: every member loses everything at once; the balance gives it back later."""
        self._owners.clear()
        self._new_generation()
        self._schedule()

    def expire(self, node: str) -> None:
        """The session of a member ends: its partitions go to others, and it learns of it."""
        member = self._members.get(node)
        self.remove(node)
        if member is not None:
            member.hear(NOT_ASSIGNED)

    def grow(self, partitions: int) -> None:
        """The topic has so many partitions now; the next rebalance assigns the new ones."""
        self.partition_count = partitions
        self._schedule()

    def tell_all(self) -> None:
        """Begin a new generation with the same assignment: every member hears the truth again."""
        self._new_generation()

    # ---- for members

    def add(self, member: FakeMembership) -> None:
        """Take a member in; it is assigned something at the next rebalance."""
        self._members[member.node] = member
        self._schedule()

    def remove(self, node: str) -> None:
        """Take a member out; its partitions are free at once and assigned at the next rebalance."""
        if self._members.pop(node, None) is None:
            return
        self._owners = {partition: owner for partition, owner in self._owners.items() if owner != node}
        self._schedule()

    def ask_for_round(self, node: str) -> None:
        """A member asks for a round, in which it tells what is true then."""
        if node in self._members:
            self._schedule()

    def is_member(self, node: str) -> bool:
        """Whether the node is a member now."""
        return node in self._members

    def is_rebalancing(self) -> bool:
        """Whether a rebalance is under way, during which commits fail with ILLEGAL_GENERATION."""
        return self._pending is not None

    def delay_s(self, range_ms: tuple[float, float]) -> float:
        """Draw a delay."""
        return self.rng.uniform(*range_ms) / 1000

    # ---- balance

    def _schedule(self) -> None:
        if self._pending is None and self.is_automatic:
            self._pending = self.loop.call_later(self.delay_s(self.faults.rebalance_ms), self._rebalance)

    def _rebalance(self) -> None:
        self._pending = None
        if not self.is_automatic:
            return
        if not self.is_available:
            self._schedule()
            return
        told = {node: member.told for node, member in self._members.items()}
        assigned = assign(told, self.partition_count)
        self._owners = {partition: node for node, one in assigned.items() for partition in one.leads}
        self._followed = {node: one.follows for node, one in assigned.items()}
        self._new_generation()

    def _new_generation(self) -> None:
        self.generation += 1
        nodes = {node: member.told.node_id for node, member in self._members.items()}
        leaders = {partition: nodes[owner] for partition, owner in self._owners.items() if owner in nodes}
        followers: dict[int, tuple[int, ...]] = {}
        for node, node_id in nodes.items():
            for partition in self._followed.get(node, frozenset()):
                followers[partition] = (*followers.get(partition, ()), node_id)
        for node, member in self._members.items():
            led = frozenset(partition for partition, owner in self._owners.items() if owner == node)
            member.hear(GroupAssignment(led, self._followed.get(node, frozenset()) - led, leaders, followers))


class FakeMembership:
    """`Membership` of one node in a `FakeGroup`."""

    def __init__(self, *, group: FakeGroup, node: str, client_id: str | None = None, session_timeout_ms: int = 6_000) -> None:
        self.node = node
        self.client_id = f"diskless-{node}" if client_id is None else client_id
        self.told = GroupMember(node_id=zlib.crc32(node.encode()))
        """What the others are told; a member that never tells anything has a node id of its own."""
        self._group = group
        self._loop = group.loop
        self._silence_max_s = session_timeout_ms / 2000
        self._listener: MembershipListener | None = None
        self._assigned = NOT_ASSIGNED
        self._is_wanted = False
        self._is_joined = False
        self._is_up = True
        self._epoch = 0  # counts joins and leaves: what is under way for an older one is not heard any more
        self._alive_at_s = self._loop.time()
        self._watchdog: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Do nothing; the pair of `close`."""

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Leave the group."""
        self.leave()
        return True

    def join(self, listener: MembershipListener) -> None:
        """Join the group; the listener hears the whole assignment after every rebalance."""
        self._listener = listener
        self._is_wanted = True
        self.alive()
        self._enter()

    def leave(self) -> None:
        """Leave at once (idempotent); the listener hears `NOT_ASSIGNED`."""
        if not self._is_wanted:
            return
        self._is_wanted = False
        self._exit()

    def prove(self, partition: int, callback: Callable[[Proof], None]) -> None:
        """Answer after a network delay, as the group stands then, and only for the generation that asked."""
        group, generation, epoch = self._group, self._group.generation, self._epoch

        def answer() -> None:
            if not self._is_up:
                return
            if not self._is_joined or epoch != self._epoch or not group.is_member(self.node) or partition not in self._assigned.leads:
                callback(Proof.NOT_A_MEMBER)
            elif not group.is_available or group.generation != generation or group.is_rebalancing():
                callback(Proof.ASK_AGAIN)
            else:
                callback(Proof.MEMBER)

        self._loop.call_later(group.delay_s(group.faults.network_ms), answer)

    def alive(self) -> None:
        """Postpone the watchdog; after it left the group, join again."""
        self._alive_at_s = self._loop.time()
        if self._is_wanted and not self._is_joined and self._is_up:
            self._enter()

    def stop(self) -> None:
        """The process dies: it hears nothing more, and the group notices when the session ends."""
        self._is_up = False
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._loop.call_later(self._silence_max_s * 2, self._group.remove, self.node)

    def tell(self, member: GroupMember, partitions: int) -> None:
        """Set what the others are told in the next round; how many partitions there are the group knows by itself."""
        self.told = member

    def refresh(self, why: str) -> None:
        """Ask for a round, over the network."""
        self._loop.call_later(self._group.delay_s(self._group.faults.network_ms), self._group.ask_for_round, self.node)

    def hear(self, assignment: GroupAssignment) -> None:
        """The group coordinator tells the member its whole assignment."""
        epoch = self._epoch

        def tell() -> None:
            if self._is_up and epoch == self._epoch and self._listener is not None:
                self._assigned = assignment
                self._listener.on_assignment(assignment)

        self._loop.call_soon(tell)

    def _enter(self) -> None:
        if self._is_joined:
            return
        self._is_joined = True
        self._epoch += 1
        epoch = self._epoch
        self._watch()

        def enter() -> None:
            if self._is_up and epoch == self._epoch:
                self._group.add(self)

        self._loop.call_later(self._group.delay_s(self._group.faults.network_ms), enter)

    def _exit(self) -> None:
        self._is_joined = False
        self._epoch += 1
        self._assigned = NOT_ASSIGNED
        self.hear(NOT_ASSIGNED)
        self._group.remove(self.node)

    def _watch(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        rest_s = self._alive_at_s + self._silence_max_s - self._loop.time()
        self._watchdog = self._loop.call_later(max(0.0, rest_s) + 0.001, self._look)

    def _look(self) -> None:
        if not self._is_joined or not self._is_up:
            return
        if self._loop.time() - self._alive_at_s > self._silence_max_s:
            self._exit()
        else:
            self._watch()
