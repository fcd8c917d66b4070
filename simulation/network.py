"""The network between clients and nodes, and among nodes: it delays, loses, and delivers answers that are no longer awaited."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coordinator.operations.table import operation_of
from coordinator.protocol.codec import Message
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.node.node import Node
from coordinator.runtime.ports import PeerUnavailable
from simulation.loop import VirtualLoop
from simulation.process import SimulatedProcess

T = TypeVar("T")

DELAY_S = (0.0002, 0.002)
SLOW_S = (0.05, 1.5)
LATE_S = (2.0, 9.0)
CLIENT = -1
""""Sender" of requests that come from no node."""


class Unanswered(Exception):
    """No answer came in time; the request may have been carried out, or may still be."""


class NeverArrived(Unanswered):
    """The node is down: the request has not reached it."""


class Network:
    """See the module's text. Faults change `loss`, `late`, `slow`, `double` (chances) and `cut` (node ids)."""

    def __init__(self, *, rng: random.Random, world: VirtualLoop, on_late: Callable[[int, float], None]) -> None:
        self.on_late = on_late
        self.loss = self.late = self.slow = self.double = 0.0
        self.cut: set[int] = set()
        self.processes: dict[int, SimulatedProcess] = {}
        self.on_request: Callable[[str, Message], Awaitable[None]] | None = None
        """Told "before" and "after" of each request among nodes."""
        self._rng = rng
        self._world = world

    def heal(self) -> None:
        """End every fault."""
        self.loss = self.late = self.slow = self.double = 0.0
        self.cut.clear()

    def _delay_s(self) -> float | None:
        """The delay of one message; None when it is lost."""
        rng = self._rng
        if self.loss and rng.random() < self.loss:
            return None
        if self.late and rng.random() < self.late:
            return rng.uniform(*LATE_S)
        return rng.uniform(*(SLOW_S if self.slow and rng.random() < self.slow else DELAY_S))

    def _look_late(self, process: SimulatedProcess, served: list[int], after_s: float) -> None:
        """A node that was well all the while has answered by now."""
        if served == [process.disturbances] and process.is_well:
            self.on_late(process.node_id, after_s)

    async def call(self, sender: VirtualLoop, sender_id: int, target_id: int, work: Callable[[Node], Awaitable[T]], timeout_s: float) -> T:
        """Have a node do some work for a client (sender id -1) or another node. Raises `Unanswered`, `NeverArrived`."""
        answer = sender.create_future()

        def give_up() -> None:
            if not answer.done():
                answer.set_exception(Unanswered(f"node {target_id} did not answer in {timeout_s} s"))

        def refuse() -> None:
            if not answer.done():
                answer.set_exception(NeverArrived(f"node {target_id} is down"))

        def come_back(result: T) -> None:
            if not answer.done():
                answer.set_result(result)

        def send_back(result: T) -> None:
            delay_s = self._delay_s()
            if delay_s is not None and not {sender_id, target_id} & self.cut:
                self._world.call_later(delay_s, sender.call_soon, come_back, result)

        def arrive() -> None:
            process = self.processes[target_id]
            node, loop = process.node, process.loop
            if {sender_id, target_id} & self.cut:
                return
            if node is None or loop is None:
                sender.call_soon(refuse)
                return

            served = [process.disturbances]

            async def serve() -> None:
                result = await work(node)
                served.clear()
                send_back(result)

            loop.call_soon(process.spawn, serve)
            if sender_id == CLIENT:
                self._world.call_later(timeout_s, self._look_late, process, served, timeout_s)

        delay_s = self._delay_s()
        if delay_s is not None:
            self._world.call_later(delay_s, arrive)
        if self.double and self._rng.random() < self.double:
            # A retry of some layer below: it arrives when it is no longer awaited.
            self._world.call_later(self._rng.uniform(*LATE_S), arrive)
        timer = sender.call_later(timeout_s, give_up)
        try:
            result: T = await answer
            return result
        finally:
            timer.cancel()


class NetworkPeers:
    """The `Peers` port of one node."""

    def __init__(self, network: Network, process: SimulatedProcess) -> None:
        self._network = network
        self._process = process

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        """Send a request and return its response. Raises `PeerUnavailable`."""
        loop = self._process.loop
        if loop is None:
            raise PeerUnavailable("this node is down")
        target_id = int(host.removeprefix("node-"))
        operation, version = operation_of(type(request))

        async def work(node: Node) -> Message:
            response = await serve(node, operation, version, request)
            await self._tell("after", request)
            return response

        await self._tell("before", request)
        try:
            return await self._network.call(loop, self._process.node_id, target_id, work, timeout_ms / 1000)
        except Unanswered as lost:
            raise PeerUnavailable(str(lost)) from lost

    async def _tell(self, when: str, request: Message) -> None:
        if self._network.on_request is not None:
            await self._network.on_request(when, request)
