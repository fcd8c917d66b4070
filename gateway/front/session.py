"""The session of one connection of a client: its upstream connection, and what is known of the client. Implements `gateway.ports.Session`."""

from __future__ import annotations

from coordinator.adapters.server.contract import IncomingRequest, Peer, Respond
from gateway.brokers.connection import BrokerConnection


class FrontSession:
    """See the module."""

    def __init__(self, peer: Peer, relayed_broker_id: int | None, upstream: BrokerConnection) -> None:
        self.connection_id = peer.connection_id
        self.address = peer.address
        self.listener = peer.listener
        self.relayed_broker_id = relayed_broker_id
        self.upstream = upstream
        self.client_id: str | None = None
        self.zone: str | None = None
        self.produces_unanswered = 0


def pass_on(session: FrontSession, request: IncomingRequest, respond: Respond) -> None:
    """Send a request to the broker unread; the answer goes to the client unread, with the tagged fields of its header."""

    def answered(frame: bytes | None) -> None:
        respond(None if frame is None else (memoryview(frame)[4:],))

    session.upstream.send(request.data, answered)
