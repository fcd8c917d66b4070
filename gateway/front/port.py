"""The requests of one port, the gateway's own node's or a relay's: each goes to the taker of its API, or to the broker unread.

Invariant: every connection has one session with one upstream connection. When a client hangs up, what it sent still reaches the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol
from weakref import WeakValueDictionary

from coordinator.adapters.kafka.link import BrokerLink
from coordinator.adapters.server.contract import Desk, Handler, Host, IncomingRequest, Peer, Respond
from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.protocol.framing_loops import Body
from gateway.front.session import FrontSession, pass_on
from gateway.front.stale import LOOKED_AT, refusal_if_answered
from gateway.ports import Taker

LOG = logging.getLogger(__name__)

COUNTED_BYTES: Final = 1024
"""Requests of fewer bytes are not counted: `connection.pending.max.requests` bounds them."""


class Door(Protocol):
    """Lets clients in, and knows where they are."""

    def open_desk(self, host: Host, find_upstream: Callable[[Peer], BrokerLink]) -> Desk:
        """Return who takes the login of a connection."""

    def zone_of(self, client_id: str | None, address: str, listener: str) -> str | None:
        """Return the zone of a client; None when nothing says it."""

    def came(self, connection_id: int, listener: str) -> None:
        """Note a connection whose session begins."""

    def gone(self, connection_id: int) -> None:
        """Forget a connection that has come to its end."""


class Port(Handler):
    """See the module. Used on one event loop."""

    def __init__(
        self,
        relayed_broker_id: int | None,
        open_upstream: Callable[[], BrokerLink],
        takers: Mapping[int, Taker],
        door: Door,
        memory: RequestMemory,
        counted_by_takers: Collection[int] = (),
    ) -> None:
        """`takers` by API key; other requests are passed on. `memory` counts requests until they are answered, but for those that their
        takers count.
        """
        self._door = door
        self._relayed_broker_id = relayed_broker_id
        self._open_upstream = open_upstream
        self._takers = takers
        self._sessions: dict[int, FrontSession] = {}
        self._hosts: WeakValueDictionary[int, Host] = WeakValueDictionary()
        self._memory = memory
        self._counted_by_takers = frozenset(counted_by_takers)
        self._is_leaving = False

    @property
    def sessions(self) -> int:
        """How many connections there are that have asked something."""
        return len(self._sessions)

    def session(self, peer: Peer) -> FrontSession:
        """Return the session of a connection."""
        found = self._sessions.get(peer.connection_id)
        if found is None:
            host = None if self._is_leaving else self._hosts.get(peer.connection_id)
            upstream = self._open_upstream()
            upstream.backed_up = partial(self._pause, peer.connection_id)
            found = FrontSession(peer, self._relayed_broker_id, upstream, self._door.zone_of, host)
            self._sessions[peer.connection_id] = found
            self._door.came(peer.connection_id, peer.listener)
        return found

    def open_desk(self, host: Host) -> Desk:
        """Return who takes the login of a connection."""
        self._hosts[host.peer.connection_id] = host
        return self._door.open_desk(host, lambda peer: self.session(peer).upstream)

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        """Take a request; see `Handler`."""
        session = self.session(request.peer)
        session.names(request.client_id)
        if self._is_leaving and request.api_key in LOOKED_AT and (answer := refusal_if_answered(request)) is not None:
            respond(answer)
            return
        if len(request.data) >= COUNTED_BYTES and request.api_key not in self._counted_by_takers:
            respond = self._counted(len(request.data), respond)
        taker = self._takers.get(request.api_key)
        if taker is None:
            pass_on(session, request, respond)
        else:
            taker.take(session, request, respond)

    def lead_no_more(self) -> None:
        """Answer requests for partitions that they are led elsewhere: this gateway is about to stop, and others are there."""
        self._is_leaving = True
        for session in self._sessions.values():
            session.remember_no_more()

    def backed_up(self, peer: Peer, is_backed_up: bool) -> None:
        """Read no answers for a client that does not take its own: see `Handler`."""
        session = self._sessions.get(peer.connection_id)
        if session is not None:
            session.upstream.pause(is_backed_up)

    def _counted(self, size_bytes: int, respond: Respond) -> Respond:
        """Count a request until it is answered."""
        self._memory.take(size_bytes)

        def answer(body: Body | None) -> None:
            self._memory.release(size_bytes)
            respond(body)

        return answer

    def _pause(self, connection_id: int, paused: bool) -> None:
        host = self._hosts.get(connection_id)
        if host is not None:
            host.pause(paused)

    def gone(self, peer: Peer) -> None:
        """End the session of a connection that came to its end."""
        session = self._sessions.pop(peer.connection_id, None)
        if session is not None:
            session.upstream.finish("the client is gone")
            self._door.gone(peer.connection_id)
