"""The ports of one listener: the gateway's own node's, and one relay port for each real broker, opened when the broker is first known.

A relay port has the number base + place of the broker's id in `gateway.relay.brokers`, on every start and however brokers come and go.
A port stays open once it was opened: its broker may come back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from coordinator.adapters.kafka.link import BrokerLink, FindPlace
from coordinator.adapters.server.contract import ListenerSecurity, ServerLimits
from coordinator.adapters.server.limits import AddressLimit
from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.adapters.server.server import Server
from coordinator.security.client_security import ClientSecurity
from gateway.brokers.cluster import RealCluster
from gateway.front.apis import PortApis
from gateway.front.port import Door, Port
from gateway.ports import Taker
from gateway.view.model import RelayIds

LOG = logging.getLogger(__name__)


class PortParts(NamedTuple):
    """What ports of a kind share, those of all listeners: the gateway's own node's, or the relays'."""

    apis: PortApis
    takers: Mapping[int, Taker]
    memory: RequestMemory
    counted_by_takers: Collection[int] = ()
    """See `Port`."""


class ListenerPorts:
    """See the module. `start` and `stop` once each, on the event loop."""

    def __init__(
        self,
        name: str,
        host: str,
        *,
        relay_base: int,
        relays: RelayIds,
        cluster: RealCluster,
        upstream_security: ClientSecurity,
        security: ListenerSecurity,
        limits: ServerLimits,
        addresses: AddressLimit | None,
        door: Door,
        own: PortParts,
        relayed: PortParts,
    ) -> None:
        self.name = name
        self._host = host
        self._relay_base = relay_base
        self._relays = relays
        self._cluster = cluster
        self._upstream_security = upstream_security
        self._security = security
        self._limits = limits
        self._addresses = addresses
        self._door = door
        self._own = own
        self._relayed = relayed
        self._servers: dict[int | None, Server] = {}
        self._port: Port | None = None
        self._lock = asyncio.Lock()
        self._unrelayed: set[int] = set()

    async def start(self, port: int) -> None:
        """Take the address of the gateway's own node, where connections are refused until `serve`. Raises OSError."""
        self._port = self._make(None, self._cluster.any_place, self._own)
        await self._servers[None].bind(self._host, port)

    async def serve(self) -> None:
        """Take connections. Raises OSError."""
        await self._servers[None].listen()

    async def relay(self, broker_ids: Iterable[int]) -> None:
        """Open the relay ports of brokers that have none yet. Raises OSError."""
        async with self._lock:
            for broker_id in sorted(set(broker_ids) - self._servers.keys()):
                place = self._relays.place(broker_id)
                if place is not None:
                    self._make(broker_id, partial(self._cluster.place, broker_id), self._relayed)
                    await self._servers[broker_id].start(self._host, self._relay_base + place)
                elif broker_id not in self._unrelayed:
                    self._unrelayed.add(broker_id)
                    LOG.error(
                        "broker not relayed broker=%d listener=%s reason='not in gateway.relay.brokers=%s': clients do not see it",
                        broker_id, self.name, self._relays.text,
                    )  # fmt: skip

    def lead_no_more(self) -> None:
        """See `Port.lead_no_more`."""
        if self._port is not None:
            self._port.lead_no_more()

    @property
    def servers(self) -> Sequence[Server]:
        """The servers of all ports."""
        return tuple(self._servers.values())

    @property
    def relayed_brokers(self) -> frozenset[int]:
        """The brokers that have relay ports."""
        return frozenset(one for one in self._servers if one is not None)

    async def stop(self, deadline_ms: int) -> None:
        """Stop accepting, answer what was read, close."""
        await asyncio.gather(*(server.stop(deadline_ms) for server in self._servers.values()))

    def _make(self, broker_id: int | None, find: FindPlace, parts: PortParts) -> Port:
        open_upstream = partial(BrokerLink, find, self._upstream_security, "diskless-gateway")
        handler = Port(broker_id, open_upstream, parts.takers, self._door, parts.memory, parts.counted_by_takers)
        self._servers[broker_id] = Server(
            handler,
            parts.apis,
            listener=self.name,
            limits=self._limits,
            security=self._security,
            open_desk=handler.open_desk,
            addresses=self._addresses,
            memory=parts.memory,
        )
        return handler
