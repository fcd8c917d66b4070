"""The requests of one port, the gateway's own node's or a relay's: each goes to the taker of its API, or to the broker unread.

Invariant: every connection has one session with one upstream connection, which end together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from coordinator.adapters.server.contract import CloseReason, Handler, Host, IncomingRequest, Peer, Respond
from gateway.brokers.connection import BrokerConnection
from gateway.front.session import FrontSession, pass_on
from gateway.ports import Taker

LOG = logging.getLogger(__name__)

MakeSession = Callable[[Peer], FrontSession]


class Port(Handler):
    """See the module. Used on one event loop."""

    def __init__(self, relayed_broker_id: int | None, open_upstream: Callable[[], BrokerConnection], takers: Mapping[int, Taker]) -> None:
        """`takers` by API key; other requests are passed on."""
        self._relayed_broker_id = relayed_broker_id
        self._open_upstream = open_upstream
        self._takers = takers
        self._sessions: dict[int, FrontSession] = {}

    @property
    def sessions(self) -> int:
        """How many connections there are that have asked something."""
        return len(self._sessions)

    def session(self, peer: Peer) -> FrontSession:
        """Return the session of a connection."""
        found = self._sessions.get(peer.connection_id)
        if found is None:
            found = self._sessions[peer.connection_id] = FrontSession(peer, self._relayed_broker_id, self._open_upstream())
        return found

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        """Take a request; see `Handler`."""
        session = self.session(request.peer)
        session.client_id = request.client_id
        taker = self._takers.get(request.api_key)
        if taker is None:
            pass_on(session, request, respond)
        else:
            taker.take(session, request, respond)

    def gone(self, peer: Peer) -> None:
        """End the session of a connection that came to its end."""
        session = self._sessions.pop(peer.connection_id, None)
        if session is not None:
            session.upstream.close("the client is gone")
