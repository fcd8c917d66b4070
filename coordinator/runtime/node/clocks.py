"""Compares the clock of this machine with those of the other nodes and of Kafka's brokers.

Every second each node asks some others what their clocks show (DescribeNode), in turns, so that it costs the same in a service of many
nodes. Kafka's clock is the median of what the
replicas led here have measured (`broker_time`), or what other nodes have. Everything is kept as a distance to the monotonic
clock, so a jump of this machine's clock shows at the next look, without a new exchange. Only nodes that are members of the
group have a vote: a node that stays out of leadership cannot take over from the judged one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, inf
from statistics import median

from coordinator.core.leadership.clock_votes import KAFKA, ClockVerdict, Comparison, judge
from coordinator.protocol.messages import DescribeNodeRequest, DescribeNodeResponse
from coordinator.runtime.ports import PeerUnavailable
from coordinator.runtime.replica.broker_time import Bracket
from coordinator.runtime.routing.context import NodeContext
from records.model import NodeRegistered

LOG = logging.getLogger("coordinator.clocks")

ASK_TIMEOUT_MS = 1_000
ASKED_AT_ONCE = 4
"""Nodes that are asked in one turn; an answer counts as many turns longer as there are."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The clocks in a node's answer, as distances to the monotonic clock."""

    at_ms: float
    is_member: bool
    clock: Bracket
    kafka: Bracket | None


class NodeClocks:
    """See the module's text; one per node."""

    def __init__(
        self,
        context: NodeContext,
        *,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], float],
        skew_max_ms: int,
    ) -> None:
        self._context = context
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._skew_max_ms = skew_max_ms
        self._ask_s = context.pauses.clocks_ask_s
        self._forgotten_ms = context.pauses.clocks_forgotten_s * 1000
        self._heard: dict[int, Heard] = {}
        self._turn, self._turns = 0, 1
        self._kafka: Bracket | None = None
        self._looked_ms = -inf
        """Kafka's clock by the brackets; kept, since every replica asks for it in every tick."""

    # ---- asking

    async def keep(self) -> None:
        """Go on asking the other nodes; never returns."""
        while True:
            await self.ask()
            await asyncio.sleep(self._ask_s * self._context.rng.uniform(0.5, 1.0))

    async def ask(self) -> None:
        """Ask those of the other registered nodes whose turn it is."""
        nodes = [node for node in self._context.other_nodes() if node.endpoints]
        gone = self._heard.keys() - {node.node_id for node in nodes}
        for node_id in gone:
            del self._heard[node_id]
        self._turns = max(1, ceil(len(nodes) / ASKED_AT_ONCE))
        self._turn = (self._turn + 1) % self._turns
        await asyncio.gather(*(self._ask(node) for node in nodes[self._turn :: self._turns]))

    async def _ask(self, node: NodeRegistered) -> None:
        asked_ms = self._monotonic_ms()
        endpoint = self._context.view.node_endpoint(node.endpoints)
        try:
            request = DescribeNodeRequest(node_id=self._context.node_id, timeout_ms=ASK_TIMEOUT_MS)
            answer = await self._context.peers.call(endpoint.host, endpoint.port, request, ASK_TIMEOUT_MS)
        except PeerUnavailable as unavailable:
            LOG.debug("node %d does not tell the time error=%r", node.node_id, str(unavailable))
            return
        if not isinstance(answer, DescribeNodeResponse) or answer.node_id != node.node_id:
            return
        heard_ms = self._monotonic_ms()
        kafka = _distance(answer.kafka_time_ms, asked_ms, heard_ms) if answer.is_kafka_time_known else None
        clock = _distance(answer.time_ms, asked_ms, heard_ms)
        self._heard[node.node_id] = Heard(heard_ms, answer.is_member, clock, kafka)

    # ---- comparing

    def kafka_ms(self) -> float | None:
        """The least time of the brokers' clocks by this node's own measurements; None before it ever led."""
        bracket = self._measured()
        return None if bracket is None else bracket[0] + self._monotonic_ms()

    def log_ahead_ms(self, now_ms: int) -> int:
        """How much too late (or, negative, too early) a time `now_ms` is to be written into the log.

        0 while it may be within the limit of what the brokers' clocks show: a probe that was read late, because Kafka stood still or this
        process did, shows little. The log's time never goes back, and by it things expire: a time of tomorrow does harm now, one of
        yesterday when the next leader is right. Where another node agrees with a clock that is behind, the brokers may be the ones that
        are wrong: then their time is not taken.
        """
        kafka = self._measured()
        if kafka is None:
            return 0
        own = now_ms - self._monotonic_ms()
        if own - kafka[1] > self._skew_max_ms:
            return int(own - kafka[1])
        if kafka[0] - own > self._skew_max_ms and not self._is_seconded(own):
            return -int(kafka[0] - own)
        return 0

    def _is_seconded(self, own: float) -> bool:
        limit = self._skew_max_ms
        return any(low - limit <= own <= high + limit for low, high in (heard.clock for _, heard in self._voters()))

    def comparisons(self) -> list[Comparison]:
        """The clock of this machine against every clock that has a vote."""
        own = self._wall_ms() - self._monotonic_ms()
        found = [Comparison(f"node {node_id}", own - heard.clock[1], own - heard.clock[0]) for node_id, heard in self._voters()]
        kafka = self._measured() or _median(heard.kafka for _, heard in self._voters() if heard.kafka is not None)
        if kafka is not None:
            found.insert(0, Comparison(KAFKA, own - kafka[1], own - kafka[0]))
        return found

    def verdict(self, share: float = 1.0) -> ClockVerdict:
        """Whether the own clock is the odd one out; a `share` of the limit below 1 is for who was and wants to come back."""
        return judge(self.comparisons(), self._skew_max_ms * share)

    def _voters(self) -> list[tuple[int, Heard]]:
        since_ms = self._monotonic_ms() - self._forgotten_ms * self._turns
        return [(node_id, heard) for node_id, heard in self._heard.items() if heard.is_member and heard.at_ms >= since_ms]

    def _measured(self) -> Bracket | None:
        """Look once per round of the event loop, in which its time stands still: each replica asks at every tick."""
        now_ms = self._monotonic_ms()
        if now_ms != self._looked_ms:
            self._looked_ms = now_ms
            brackets = (replica.broker_time.bracket for replica in self._context.replicas.followed())
            self._kafka = _median(bracket for bracket in brackets if bracket is not None)
        return self._kafka


def _distance(time_ms: int, asked_ms: float, heard_ms: float) -> Bracket:
    return time_ms - heard_ms, time_ms - asked_ms


def _median(brackets: Iterable[Bracket]) -> Bracket | None:
    """One broker of several whose clock is wrong does not change it."""
    found = list(brackets)
    return (median(low for low, _ in found), median(high for _, high in found)) if found else None
