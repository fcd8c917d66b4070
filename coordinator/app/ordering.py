"""Requests of one connection take effect in request order.

Kafka's brokers serve one request of a connection at a time. Here those of one lane may be under way together: commits,
because they reach their coordinators in order, and reads, because they change nothing. Everything before a request of
another lane is answered before it starts; replies leave in request order anyway, so no reply comes later for it.
Invariant: a request starts after everything before it in its connection has started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVarTuple

from coordinator.operations.declaration import Lane

Args = TypeVarTuple("Args")

Start: TypeAlias = Callable[[], bool]
"""Starts a request; False when it has not reached its coordinators yet, so that nothing may follow it. Raises nothing."""


@dataclass(slots=True)
class _Connection:
    lane: Lane
    under_way: int = 0
    is_starting: bool = False
    waiting: deque[tuple[Lane, Start]] = field(default_factory=deque)


class ConnectionOrder:
    """Decides when a request of a connection starts; knows connections only while they have requests under way."""

    def __init__(self) -> None:
        self._connections: dict[int, _Connection] = {}

    def start(self, connection_id: int, lane: Lane, start: Callable[[*Args], bool], *args: *Args) -> None:
        """`enter` for the ways that must be fast: a request that may start now costs no closure."""
        if not self._enter_at_once(connection_id, lane):
            self.enter(connection_id, lane, partial(start, *args))
        elif not start(*args):
            connection = self._connections.get(connection_id)
            if connection is not None:
                # It has not reached its coordinators yet: nothing may follow it.
                connection.lane = Lane.ALONE

    def _enter_at_once(self, connection_id: int, lane: Lane) -> bool:
        """Take the turn of a request that may start now; False when it has to wait."""
        connection = self._connections.get(connection_id)
        if connection is None:
            self._connections[connection_id] = _Connection(lane, 1)
            return True
        if connection.waiting or connection.is_starting:
            return False
        if connection.under_way and (lane is not connection.lane or lane is Lane.ALONE):
            return False
        connection.lane = lane
        connection.under_way += 1
        return True

    def enter(self, connection_id: int, lane: Lane, start: Start) -> None:
        """Start a request as soon as its turn comes, perhaps now; `leave` must follow once it is answered, perhaps at once."""
        connection = self._connections.get(connection_id)
        if connection is None:
            connection = self._connections[connection_id] = _Connection(lane)
        connection.waiting.append((lane, start))
        self._start_due(connection_id, connection)

    def leave(self, connection_id: int) -> None:
        """A request that was started is answered."""
        connection = self._connections[connection_id]
        connection.under_way -= 1
        if connection.waiting:
            self._start_due(connection_id, connection)
        elif not connection.under_way and not connection.is_starting:
            del self._connections[connection_id]

    def _start_due(self, connection_id: int, connection: _Connection) -> None:
        if connection.is_starting:
            return  # answered while it was started: the loop below goes on
        connection.is_starting = True
        waiting = connection.waiting
        while waiting:
            lane, start = waiting[0]
            if connection.under_way and (lane is not connection.lane or lane is Lane.ALONE):
                break
            waiting.popleft()
            connection.lane = lane
            connection.under_way += 1
            if not start():
                connection.lane = Lane.ALONE
        connection.is_starting = False
        if not connection.under_way and not waiting:
            del self._connections[connection_id]
