"""The session of one connection of a client: its upstream connection, and what is known of the client."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.adapters.kafka.link import BrokerLink
from coordinator.adapters.server.contract import Host, IncomingRequest, Peer, Promise, RememberedRequest, Respond
from gateway.ports import Session

ZoneOf = Callable[[str | None, str, str], str | None]
"""Returns the zone of a client by its client id, its address and its listener; None when nothing says it."""


class FrontSession:
    """Implements `gateway.ports.Session`."""

    def __init__(self, peer: Peer, relayed_broker_id: int | None, upstream: BrokerLink, zone_of: ZoneOf, host: Host | None = None) -> None:
        """Without a `host` no request is remembered."""
        self.connection_id = peer.connection_id
        self.address = peer.address
        self.listener = peer.listener
        self.relayed_broker_id = relayed_broker_id
        self.upstream = upstream
        self.client_id: str | None = None
        self.zone = zone_of(None, peer.address, peer.listener)
        self._zone_of = zone_of
        self._host = host

    def remember(self, request: IncomingRequest, body: bytes, wait_s: float, promise: Promise) -> RememberedRequest | None:
        """See `gateway.ports.Session`."""
        return None if self._host is None else self._host.remember(request, body, wait_s, promise)

    def remember_no_more(self) -> None:
        """Have every request read from now on."""
        if self._host is not None:
            self._host.forget()
            self._host = None

    def names(self, client_id: str | None) -> None:
        """Note the client id of a request: it may say where the client is."""
        if client_id is not self.client_id:
            self.client_id = client_id
            self.zone = self._zone_of(client_id, self.address, self.listener)


def pass_on(session: Session, request: IncomingRequest, respond: Respond) -> None:
    """Send a request to the broker unread; the answer goes to the client unread, with the tagged fields of its header."""

    def answered(frame: bytes | None) -> None:
        respond(None if frame is None else (memoryview(frame)[4:],))

    session.upstream.send(request.data, answered)
