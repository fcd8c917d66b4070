"""Bytes per second that one principal may produce and fetch at this gateway.

As with quotas of brokers, the answer that empties the principal's bucket tells for how long (throttle_time_ms), and its next requests of
this kind wait until then, on all of its connections: a client that does not keep to the time gains nothing. Bytes that are produced are
counted when they come, fetched ones when they are answered. A gateway knows of what passes itself alone: the rate is for each gateway.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Final

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.adapters.server.throttle import Throttle, Timers
from coordinator.protocol.framing_loops import Body
from gateway.ports import Session, Taker

PRODUCE_FLEXIBLE: Final = 9
"""From this version on answers end with tagged fields."""
_TIME: Final = struct.Struct(">i")


class _RatedTaker:
    """What both kinds of requests have in common."""

    def __init__(self, inner: Taker, bytes_per_s: float, timers: Timers | None = None) -> None:
        """`inner` serves the requests, with a throttle time of 0. Without `timers` those of the running loop are used."""
        self._inner = inner
        self._throttle = Throttle({self.name: bytes_per_s}, _give_up, timers)

    name = ""
    """The name of the rate in metrics."""

    @property
    def throttled(self) -> int:
        """Answers that told of a throttle time."""
        return self._throttle.throttled[self.name]

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._throttle.waiting

    def take(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        """See `Taker`."""
        self._throttle.take(request, respond, partial(self._begin, session, request, respond))

    def _begin(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        self._inner.take(session, request, respond)


class RatedProduce(_RatedTaker):
    """Produce in bounds. Implements `Taker`."""

    name = "produce"

    def _begin(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        self._throttle.charge(request, {self.name: len(request.data)})
        self._inner.take(session, request, partial(self._answer, request, respond))

    def _answer(self, request: IncomingRequest, respond: Respond, body: Body | None) -> None:
        throttle_ms = self._throttle.throttle_ms(request) if body else 0
        respond(
            with_time_at_the_end(body, throttle_ms, is_flexible=request.api_version >= PRODUCE_FLEXIBLE) if body and throttle_ms else body
        )


class RatedFetch(_RatedTaker):
    """Fetch in bounds. Implements `Taker`."""

    name = "fetch"

    def _begin(self, session: Session, request: IncomingRequest, respond: Respond) -> None:
        self._inner.take(session, request, partial(self._answer, request, respond))

    def _answer(self, request: IncomingRequest, respond: Respond, body: Body | None) -> None:
        if body:
            self._throttle.charge(request, {self.name: len(body) if isinstance(body, bytes) else sum(map(len, body))})
            if throttle_ms := self._throttle.throttle_ms(request):
                body = with_time_at_the_beginning(body, throttle_ms)
        respond(body)


def with_time_at_the_end(body: Body, throttle_ms: int, *, is_flexible: bool) -> Body:
    """Put a throttle time into an answer to Produce, whose last field it is; an answer with tagged fields stays as it is."""
    data = body if isinstance(body, bytes) else b"".join(body)
    stop = len(data) - 1 if is_flexible else len(data)
    if stop < _TIME.size or (is_flexible and data[stop]):
        return data
    return data[: stop - _TIME.size] + _TIME.pack(throttle_ms) + data[stop:]


def with_time_at_the_beginning(body: Body, throttle_ms: int) -> Body:
    """Put a throttle time into an answer to Fetch, whose first field it is, without copying its records."""
    time = _TIME.pack(throttle_ms)
    if isinstance(body, bytes):
        return (time, memoryview(body)[_TIME.size :])
    first = memoryview(body[0])
    if len(first) < _TIME.size:
        return time + b"".join(body)[_TIME.size :]
    return (time, first[_TIME.size :], *body[1:])


def _give_up(_request: IncomingRequest, respond: Respond) -> None:
    """Close the connection of a request that waited too long, as its client has done by then or soon does."""
    respond(None)
