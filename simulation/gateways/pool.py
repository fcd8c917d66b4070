"""The connections of a gateway to the nodes: the product's client above, the simulated network and the nodes' own dispatchers below."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.identify import Found, ServerKind
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.operations.table import operation_of
from coordinator.protocol.codec import Message
from coordinator.protocol.framing_loops import Body
from coordinator.runtime.answers.serving import serve
from coordinator.runtime.node.node import Node
from coordinator.security.acls import Everything
from coordinator.security.principal import ANONYMOUS
from simulation.loop import VirtualLoop
from simulation.network import Network, NeverArrived, Unanswered
from simulation.process import PORT

T = TypeVar("T")
READ_S = 0.001
"""The mean CPU time of a read at a node."""


class NodeServers:
    """The dispatchers of all nodes, each made when its node is asked first."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._cpu_s = 0.0
        self._metrics = Metrics()
        self._dispatchers: dict[Node, Dispatcher] = {}

    def of(self, node: Node) -> Dispatcher:
        """The dispatcher of a node; called on its loop."""
        found = self._dispatchers.get(node)
        if found is None:
            found = self._dispatchers[node] = Dispatcher(node, self._metrics, Everything(), cpu_s=self._later_cpu_s)
        return found

    def _later_cpu_s(self) -> float:
        """Draw the CPU time: what this process really uses would differ from run to run."""
        self._cpu_s += self._rng.expovariate(1 / READ_S)
        return self._cpu_s


class SimulatedPool(ConnectionPool):
    """The pool of one life of a gateway. A line that got no answer in time is another connection from then on."""

    def __init__(self, *, network: Network, servers: NodeServers, loop: VirtualLoop, sender_id: int, numbers: Iterator[int]) -> None:
        """`numbers` are the ids of connections, which no two of a run share."""
        super().__init__(client_id=None)
        self._network = network
        self._servers = servers
        self._loop = loop
        self._sender_id = sender_id
        self._numbers = numbers
        self._lines: dict[Line, Peer] = {}

    async def request(self, line: Line, api_key: int, api_version: int, body: bytes, timeout_s: float) -> bytes:
        """See `ConnectionPool`."""
        peer = self._lines.get(line)
        if peer is None:
            peer = self._lines[line] = Peer(next(self._numbers), "", "gateway", ANONYMOUS)

        async def work(node: Node) -> Body | None:
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[Body | None] = loop.create_future()

            def respond(given: Body | None) -> None:
                if not answer.done():
                    answer.set_result(given)

            request = IncomingRequest(api_key, api_version, 0, None, body, 0, api_key, loop.time(), peer)
            self._servers.of(node).handle(request, respond)
            return await answer

        answer = await self._carry(line, work, timeout_s)
        if answer is None:
            raise ConnectionLost(f"{line.host}: the node has closed the connection")
        return answer if isinstance(answer, bytes) else b"".join(answer)

    async def call(self, line: Line, message: Message, timeout_s: float, *, api_key: int | None = None) -> Message:
        """See `ConnectionPool`."""
        operation, version = operation_of(type(message))
        return await self._carry(line, lambda node: serve(node, operation, version, message), timeout_s)

    async def _carry(self, line: Line, work: Callable[[Node], Awaitable[T]], timeout_s: float) -> T:
        try:
            return await self._network.call(self._loop, self._sender_id, int(line.host.removeprefix("node-")), work, timeout_s)
        except NeverArrived as lost:
            raise ConnectionLost(str(lost), was_sent=False) from lost
        except Unanswered as lost:
            self._lines.pop(line, None)
            raise RequestTimedOut(str(lost)) from lost

    async def identify(self, servers: Sequence[tuple[str, int]], timeout_s: float) -> list[Found]:
        """All addresses are those of nodes."""
        return [Found(host, port, ServerKind.NODE) for host, port in servers]


def addresses(nodes: int) -> str:
    """The bootstrap servers of a run."""
    return ",".join(f"node-{node_id}:{PORT}" for node_id in range(nodes))
