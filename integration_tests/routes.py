"""Who leads which coordinator and where topics live, asked of the nodes: the load's own discovery.

Deliberately not the client library: what the checker is fed with must not rest on the code under test. Any node's
answer is taken, whatever it knows; of several leaders the one of the highest epoch counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.pool import ConnectionPool, Line
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import DescribeCoordinatorsRequest, DescribeCoordinatorsResponse

M = TypeVar("M", bound=Message)

ASK_TIMEOUT_S: Final = 1.0
ANSWER_WAIT_S: Final = 0.3


class Address(NamedTuple):
    """Where a node listens."""

    host: str
    port: int

    def lane(self, name: str) -> Line:
        """A connection of its own for every name: replies of one connection wait for each other."""
        return Line(self.host, self.port, name)


class Leader(NamedTuple):
    """The leader of a coordinator by a claim; tuples of a coordinator compare by epoch."""

    epoch: int
    node_id: int
    address: Address


class Routes:
    """Used on one event loop; `nodes` (id -> address) may grow at any time."""

    def __init__(self, pool: ConnectionPool, nodes: Mapping[int, Address]) -> None:
        self.leaders: dict[int, Leader] = {}
        self._pool = pool
        self._nodes = nodes
        self._asking: dict[int, asyncio.Task[None]] = {}

    async def refresh(self) -> None:
        """Ask every node; returns as soon as one has answered or a moment is over."""
        for node_id, address in self._nodes.items():
            if node_id not in self._asking:
                self._asking[node_id] = asyncio.get_running_loop().create_task(self._ask(node_id, address))
        await asyncio.wait(list(self._asking.values()), timeout=ANSWER_WAIT_S, return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Cancel what is still being asked."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    async def _ask(self, node_id: int, address: Address) -> None:
        try:
            answer = await describe_coordinators(self._pool, address)
        except (ConnectionLost, RequestTimedOut):
            return
        finally:
            self._asking.pop(node_id, None)
        for one in answer.coordinators:
            known = self.leaders.get(one.coordinator_id)
            if one.leader_id >= 0 and (known is None or one.leader_epoch > known.epoch):
                self.leaders[one.coordinator_id] = Leader(one.leader_epoch, one.leader_id, Address(one.host, one.port))


async def describe_coordinators(pool: ConnectionPool, address: Address) -> DescribeCoordinatorsResponse:
    """What one node says of all coordinators. Raises ConnectionLost, RequestTimedOut."""
    request = DescribeCoordinatorsRequest(coordinator_ids=(), timeout_ms=1_000)
    return expect(await pool.call(address.lane("describe"), request, ASK_TIMEOUT_S), DescribeCoordinatorsResponse)


def expect(message: Message, kind: type[M]) -> M:
    """The message, which must be of this kind."""
    if not isinstance(message, kind):
        raise AssertionError(f"{type(message).__name__} where {kind.__name__} was expected")
    return message
