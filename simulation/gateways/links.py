"""Connections of Kafka's clients to a gateway: requests arrive in order, answers come back in order, and a connection ends as a whole."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from functools import partial
from itertools import count

from coordinator.adapters.server.contract import IncomingRequest, Peer, Promise
from coordinator.protocol.framing_loops import Body
from coordinator.protocol.wire import MalformedMessage
from coordinator.security.principal import ANONYMOUS
from gateway.ports import NO_ANSWER, Upstream
from simulation.gateways.gateway import GatewayLife
from simulation.gateways.requests import VERSION, ProduceCall
from simulation.loop import VirtualLoop
from simulation.network import DELAY_S, SLOW_S
from simulation.scenario import SimulatedGateways

CLOSED_S = 0.002
"""How long it takes until a client knows that a gateway has ended."""


class LinkLost(Exception):
    """The connection has ended; the request may have been carried out, or may still be."""


class LinkFaults:
    """The chances that a message ends its connection, and that it is slow; faults change them."""

    def __init__(self, life: SimulatedGateways) -> None:
        self._least = life.links_lost, life.links_slow
        self.lost, self.slow = self._least

    def heal(self, *, is_over: bool) -> None:
        """End a fault; when all are over nothing is ever lost."""
        self.lost, self.slow = (0.0, 0.0) if is_over else self._least


class SimulatedSession:
    """Implements `gateway.ports.Session`."""

    listener = "PLAINTEXT"
    address = "10.0.0.1"
    relayed_broker_id: int | None = None
    zone: str | None = None

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id
        self.client_id: str | None = "producer"

    @property
    def upstream(self) -> Upstream:
        """Produce asks no broker."""
        raise AssertionError("a simulated session has no broker")

    def remember(self, request: IncomingRequest, body: bytes, wait_s: float, promise: Promise) -> None:
        """Produce has nothing remembered."""
        raise AssertionError("requests of producers are not remembered")


class _Exchange:
    """A request and its answer."""

    def __init__(self, call: ProduceCall, answer: asyncio.Future[None]) -> None:
        self.call = call
        self.answer = answer
        self.is_answered = False
        self.body: Body | None = None


class Link:
    """See the module's text. Used on the loop of the world."""

    def __init__(self, number: int, gateway: GatewayLife, world: VirtualLoop, rng: random.Random, faults: LinkFaults) -> None:
        self.number = number
        self.gateway = gateway
        self.is_open = True
        self.sent = count()
        """The numbers of the batches that are sent."""
        self._world = world
        self._rng = rng
        self._faults = faults
        self._session = SimulatedSession(number)
        self._unread: deque[_Exchange] = deque()
        self._unanswered: deque[_Exchange] = deque()
        self._awaited: deque[_Exchange] = deque()
        self._arrives_s = self._returns_s = 0.0
        self._is_broken = False
        """Whether a request was lost: none behind it arrives."""
        gateway.on_ended.append(lambda: world.call_later(CLOSED_S, self.close))

    async def ask(self, call: ProduceCall, timeout_s: float) -> None:
        """Send a request; its results are in the call when this returns. Raises LinkLost, after which the connection is closed."""
        exchange = _Exchange(call, self._world.create_future())
        if not self.is_open:
            raise LinkLost
        self._awaited.append(exchange)
        self._go(exchange)
        timer = self._world.call_later(timeout_s, self.close)
        try:
            await exchange.answer
        finally:
            timer.cancel()

    def tell(self, call: ProduceCall) -> None:
        """Send a request that gets no answer. Raises LinkLost."""
        if not self.is_open:
            raise LinkLost
        self._go(_Exchange(call, self._world.create_future()))

    def _go(self, exchange: _Exchange) -> None:
        self._arrives_s = self._later_s(self._arrives_s)
        self._is_broken = self._is_broken or self._rng.random() < self._faults.lost
        if self._is_broken:
            self._world.call_at(self._arrives_s, self.close)
        else:
            self._world.call_at(self._arrives_s, self.gateway.loop.call_soon, self._arrive, exchange)

    def close(self) -> None:
        """End: whatever is awaited has no answer. What was sent may arrive all the same."""
        self.is_open = False
        lost, self._awaited = self._awaited, deque()
        for exchange in lost:
            if not exchange.answer.done():
                exchange.answer.set_exception(LinkLost())

    def _later_s(self, after_s: float) -> float:
        """When a message comes that is sent now, not before the one before it."""
        slow = self._faults.slow and self._rng.random() < self._faults.slow
        return max(after_s, self._world.time() + self._rng.uniform(*(SLOW_S if slow else DELAY_S)))

    # ---- on the gateway's loop

    def _arrive(self, exchange: _Exchange) -> None:
        self._unread.append(exchange)
        if len(self._unread) == 1:
            self._read()

    def _read(self) -> None:
        """Hand over what has arrived, as long as the gateway reads."""
        while self._unread:
            if self.gateway.memory.is_short:
                self.gateway.on_resumed.append(self._read)
                return
            exchange = self._unread.popleft()
            self._unanswered.append(exchange)
            self._take(exchange)

    def _take(self, exchange: _Exchange) -> None:
        data = exchange.call.encoded()
        peer = Peer(self.number, "PLAINTEXT", "10.0.0.1", ANONYMOUS)
        request = IncomingRequest(0, VERSION, 1, self._session.client_id, data, 0, 0, self.gateway.loop.time(), peer)

        def respond(body: Body | None) -> None:
            exchange.is_answered, exchange.body = True, body
            if body is not None and body != NO_ANSWER:
                exchange.call.answered(body if isinstance(body, bytes) else b"".join(body))
            self._respond()

        try:
            self.gateway.taker.take(self._session, request, respond)
        except MalformedMessage as error:
            raise AssertionError(f"a lawful request was called malformed: {error}") from error

    def _respond(self) -> None:
        """Send the answers that have none before them."""
        while self._unanswered and self._unanswered[0].is_answered:
            exchange = self._unanswered.popleft()
            if exchange.body == NO_ANSWER:
                continue
            self._returns_s = self._later_s(self._returns_s)
            is_lost = exchange.body is None or self._rng.random() < self._faults.lost
            self._world.call_at(self._returns_s, self.close if is_lost else partial(self._come_back, exchange))

    def _come_back(self, exchange: _Exchange) -> None:
        if self.is_open:
            self._awaited.remove(exchange)
            exchange.answer.set_result(None)
