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
StartRun: TypeAlias = Callable[[int, int], int]
"""Starts requests of a run, by their places from a first up to a stop, in order. Returns how many have reached their coordinators: it ends
with the first that has not, which is started, too. Raises nothing."""


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
        if not self._enter_at_once(connection_id, lane, 1):
            self.enter(connection_id, lane, partial(start, *args))
        elif not start(*args):
            self._hold_back(connection_id, 0)

    def start_run(self, connection_id: int, lane: Lane, count: int, start: StartRun) -> None:
        """`enter` for `count` requests that came together; those that may start now start in one call."""
        begun = 0
        if self._enter_at_once(connection_id, lane, count):
            reached = start(0, count)
            if reached == count:
                return
            begun = reached + 1
            self._hold_back(connection_id, count - begun)
        for place in range(begun, count):
            self.enter(connection_id, lane, partial(_start_one, start, place))

    def _hold_back(self, connection_id: int, not_begun: int) -> None:
        """A request has not reached its coordinators yet: nothing may follow it. So many after it have taken their turn too early."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            connection.lane = Lane.ALONE
            connection.under_way -= not_begun
            if not connection.under_way:
                del self._connections[connection_id]

    def _enter_at_once(self, connection_id: int, lane: Lane, count: int) -> bool:
        """Take the turns of requests that may start now; False when they have to wait."""
        if count > 1 and lane is Lane.ALONE:
            return False
        connection = self._connections.get(connection_id)
        if connection is None:
            self._connections[connection_id] = _Connection(lane, count)
            return True
        if connection.waiting or connection.is_starting:
            return False
        if connection.under_way and (lane is not connection.lane or lane is Lane.ALONE):
            return False
        connection.lane = lane
        connection.under_way += count
        return True

    def enter(self, connection_id: int, lane: Lane, start: Start) -> None:
        """Start a request as soon as its turn comes, perhaps now; `leave` must follow once it is answered, perhaps at once."""
        connection = self._connections.get(connection_id)
        if connection is None:
            connection = self._connections[connection_id] = _Connection(lane)
        connection.waiting.append((lane, start))
        self._start_due(connection_id, connection)

    def leave(self, connection_id: int, count: int = 1) -> None:
        """Requests that were started are answered."""
        connection = self._connections[connection_id]
        connection.under_way -= count
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


def _start_one(start: StartRun, place: int) -> bool:
    return start(place, place + 1) == 1
