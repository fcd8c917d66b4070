"""Looks whether this node may lead: not while its clock is the odd one out, nor a partition to which Kafka refuses what it writes.

What it finds it tells `LeadRefusals`, so that the group gives the partitions to other nodes. With every
tick a look at what Kafka refused; clocks are compared more rarely, because that takes longer than the rest of a tick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator.core.leadership.clock_votes import ClockVerdict
from coordinator.runtime.node.refusals import CLOCK, REFUSED, LeadRefusals
from coordinator.runtime.pauses import doubled
from coordinator.runtime.replica.replica import Replica
from coordinator.runtime.routing.context import NodeContext

REFUSED_TERMS_MAX = 3
"""A node refuses a partition after this number of its terms in a row in which Kafka took no entry but, perhaps, the claim."""
RETURN_SHARE = 0.5
"""A node that refuses for its clock leads again at half the limit: otherwise a drifting clock would make leaders come and go."""


class Fitness:
    """See the module's text; one per node."""

    def __init__(self, context: NodeContext, *, refusals: LeadRefusals, verdict: Callable[[float], ClockVerdict]) -> None:
        self._reasons = refusals
        self._replicas = context.replicas
        self._verdict = verdict
        self._rng = context.rng
        self._refused_s = context.pauses.refused_s
        self._clock_look_s = context.pauses.clock_look_s
        self._clock_due_s = 0.0
        self._is_clock_odd = False
        self._clock_right_since_s: float | None = None
        self._clock_returns = 0
        self._clock_return_s = context.pauses.clock_return_s
        self._back_at_s: dict[int, float] = {}
        self._refusals: dict[int, int] = {}

    def look(self) -> None:
        """Look at everything once."""
        self._look_at_clock()
        self._look_at_refusals()

    def tick(self) -> None:
        """Look at what it is time for."""
        if asyncio.get_running_loop().time() >= self._clock_due_s:
            self._look_at_clock()
        self._look_at_refusals()

    def _look_at_refusals(self) -> None:
        for replica in self._replicas.followed():
            if replica.recovery.refused_terms >= REFUSED_TERMS_MAX:
                self._give_back(replica)
        now_s = asyncio.get_running_loop().time()
        for partition in [partition for partition, back_at_s in self._back_at_s.items() if now_s >= back_at_s]:
            del self._back_at_s[partition]
            self._reasons.release(REFUSED, partition)

    def _look_at_clock(self) -> None:
        self._clock_due_s = asyncio.get_running_loop().time() + self._clock_look_s
        reason = self._verdict(RETURN_SHARE if self._is_clock_odd else 1.0).reason
        if reason is not None:
            self._clock_right_since_s = None
            if not self._is_clock_odd:
                self._is_clock_odd = True
                self._reasons.withhold(CLOCK, f"{reason}; synchronise it (chrony, ntpd): they may differ by clock.skew.max.ms")
        elif self._is_clock_odd and self._is_clock_right_for_long():
            self._is_clock_odd = False
            self._clock_returns += 1
            self._reasons.release(CLOCK)

    def _is_clock_right_for_long(self) -> bool:
        """Whether the clock is right for so long that the node may lead again: verdicts change while clocks are corrected."""
        now_s = asyncio.get_running_loop().time()
        if self._clock_right_since_s is None:
            self._clock_right_since_s = now_s
        first_s, last_s = self._clock_return_s
        return now_s - self._clock_right_since_s >= doubled(first_s, self._clock_returns, last_s)

    def _give_back(self, replica: Replica) -> None:
        partition = replica.partition
        replica.recovery.forget_refusals()
        tries = self._refusals[partition] = self._refusals.get(partition, 0) + 1
        back_off_s = doubled(self._refused_s[0], tries - 1, self._refused_s[1])
        self._back_at_s[partition] = asyncio.get_running_loop().time() + back_off_s * self._rng.uniform(0.5, 1.0)
        self._reasons.withhold(
            REFUSED, f"Kafka refused what this node wrote to metadata partition {partition}: {replica.recovery.refusal}", partition
        )
