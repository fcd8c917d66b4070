"""Chooses faults by a seed and carries them out in rounds: some faults together, then healing, then the wait for commits to flow.

Every selected action comes once before any comes again. The plan (what, whom, how long) depends on the seed alone; what the
machine makes of it does not. Invariant: when `run_round` returns or raises, everything it broke is healed.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

from integration_tests.faults.actions import ACTIONS, Action, Hits
from integration_tests.faults.client_load import MEMBERS
from integration_tests.faults.gateway_topology import GATEWAY_ZONES
from integration_tests.faults.topology import BROKERS, MOVED_PARTITIONS, NODES, Topology
from integration_tests.faults.waits import Waits
from integration_tests.waiting import wait_until

FLOW_TIMEOUT_S: Final = 90.0
SHARED_TIMEOUT_S: Final = 90.0
PART_SHARED: Final = 0.5
"""Of the rounds so many wait until every node leads its share again; the others leave the group unsettled to the next fault."""
PART_SHARED_BRISK: Final = 0.2
QUIET_MAX_S: Final = 2.0
MORE_TOGETHER: Final = (1, 1, 1, 2, 2, 3)
TARGETS: Final = {
    Hits.NODE: NODES,
    Hits.BOTH: NODES,
    Hits.BROKER: BROKERS,
    Hits.GATEWAY: tuple(GATEWAY_ZONES),
    Hits.ZONE: tuple(sorted(set(GATEWAY_ZONES.values()))),
    Hits.STORE: ("s3",),
    Hits.MEMBER: MEMBERS,
    Hits.PARTITION: tuple(str(one) for one in range(MOVED_PARTITIONS)),
}
KINDS: Final = {
    Hits.BROKER: "broker",
    Hits.BOTH: "broker",
    Hits.GATEWAY: "gateway",
    Hits.ZONE: "gateway",
    Hits.STORE: "store",
    Hits.MEMBER: "member",
}
"""A round has one fault of each kind at most; nodes are not among them."""


class Flow(Protocol):
    """What clients do: `Load`, or `ClientLoad`."""

    @property
    def is_running(self) -> bool:
        """Whether the clients work."""

    def wait_flowing(self, more: int, timeout_s: float, /) -> None:
        """Wait until every one of them has so many answers more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One fault to come."""

    action: Action
    target: str
    lasts_s: float
    seed: int


@dataclass(slots=True, kw_only=True)
class Done:
    """One fault that was. Times are of the monotonic clock."""

    action: str
    target: str
    round_number: int
    begun_s: float
    healed_s: float = 0.0
    flowing_s: float = 0.0
    """When every coordinator had acknowledged commits again, after all faults of the round were healed."""
    shared_s: float | None = None
    """When every node led its share again; None: the round did not wait for that."""
    over_s: float = 0.0
    """When the round was over, after some quiet: an outage until then is put down to it."""
    alone: bool = True
    details: list[str] = field(default_factory=list)


def plan(actions: Sequence[str], seed: int, *, brisk: bool, together_max: int = 3) -> Iterator[list[Planned]]:
    """Yield rounds without end, of at most `together_max` faults; a brisk plan has full rounds of the shortest faults."""
    rng = Random(seed)
    while True:
        left = list(actions)
        rng.shuffle(left)
        while left:
            count = together_max if brisk else min(together_max, rng.choice(MORE_TOGETHER))
            chosen: list[Planned] = []
            for name in list(left):
                planned = _fit(ACTIONS[name], chosen, rng, brisk=brisk)
                if planned is not None:
                    chosen.append(planned)
                    left.remove(name)
                if len(chosen) == count:
                    break
            yield chosen


def _fit(action: Action, chosen: Sequence[Planned], rng: Random, *, brisk: bool) -> Planned | None:
    """Give the action a target that the round's other faults leave free; None when there is none."""
    kind = KINDS.get(action.hits)
    if kind is not None and any(KINDS.get(one.action.hits) == kind for one in chosen):
        return None
    taken = {one.target for one in chosen}
    free = [name for name in TARGETS[action.hits] if name not in taken]
    # One node is left alone, so that faults together are not just an outage.
    if not free or (action.hits in (Hits.NODE, Hits.BOTH) and len(free) == 1):
        return None
    lasts_s = action.shortest_s if brisk else rng.uniform(action.shortest_s, action.longest_s)
    return Planned(action=action, target=rng.choice(free), lasts_s=lasts_s, seed=rng.getrandbits(32))


class Nemesis:
    """Carries rounds out; `done` grows with every fault."""

    def __init__(self, topology: Topology, load: Flow, say: Callable[[str], None], waits: Waits, *, seed: int) -> None:
        self.done: list[Done] = []
        self._topology = topology
        self._load = load
        self._say = say
        self._waits = waits
        self._rng = Random(seed + 1)
        self._round_number = 0

    def run_round(self, planned: Sequence[Planned], *, quiet_s: float | None = None) -> None:
        """Carry out one round and wait until commits flow again. Raises AssertionError when they do not, or when a process ended."""
        self._round_number += 1
        round_done: list[Done] = []
        ends: list[tuple[float, int, ExitStack]] = []
        with ExitStack() as everything:
            for place, one in enumerate(planned):
                done = Done(
                    action=one.action.name,
                    target=one.target,
                    round_number=self._round_number,
                    begun_s=time.monotonic(),
                    alone=len(planned) == 1,
                )
                self.done.append(done)
                round_done.append(done)
                self._say(f"{one.action.name} {one.target} for {one.lasts_s:.1f} s")
                stack = everything.enter_context(ExitStack())
                stack.enter_context(one.action.fault(self._topology, one.target, Random(one.seed), done.details.append))
                heapq.heappush(ends, (time.monotonic() + one.lasts_s, place, stack))
            while ends:
                end_s, place, stack = heapq.heappop(ends)
                self._let_pass(end_s)
                stack.close()
                round_done[place].healed_s = time.monotonic()
        self._wait_recovered(round_done, PART_SHARED if quiet_s is None else PART_SHARED_BRISK)
        self._let_pass(time.monotonic() + (self._rng.uniform(0, QUIET_MAX_S) if quiet_s is None else quiet_s))
        for done in round_done:
            done.over_s = time.monotonic()

    def _wait_recovered(self, round_done: Sequence[Done], part_shared: float) -> None:
        self.check_processes()
        with self._waits.on("records to flow"):
            self._load.wait_flowing(2, FLOW_TIMEOUT_S)
        flowing_s = time.monotonic()
        with self._waits.on("all processes to serve, and moves to end"):
            self._topology.wait_back(SHARED_TIMEOUT_S)
        shared_s = None
        if self._rng.random() < part_shared:
            with self._waits.on("every node to lead its share"):
                self._topology.service.wait_shared(SHARED_TIMEOUT_S)
            shared_s = time.monotonic()
        for done in round_done:
            done.flowing_s, done.shared_s = flowing_s, shared_s
        self.check_processes()
        after_s = flowing_s - max(done.healed_s for done in round_done)
        self._say(f"  flowing {after_s:.1f} s after healing; {'; '.join(d for done in round_done for d in done.details)}")

    def check_processes(self) -> None:
        """Fail when a process ended that nobody ended."""
        for name, one in self._topology.processes.items():
            if one.process is None or not one.process.is_running():
                raise AssertionError(f"{name} ended by itself:\n{one.log_tail()}")
        for name in BROKERS:
            node = self._topology.kafka.node(self._topology.broker_number(name))
            if node.pid is None:
                raise AssertionError(f"broker {name} ended by itself{node.log_tail()}")

    def _let_pass(self, until_s: float) -> None:
        """Let a fault last; a load that ends by itself ends the wait too."""
        wait_until(lambda: time.monotonic() >= until_s or not self._load.is_running, "time to pass", until_s - time.monotonic() + 10)
