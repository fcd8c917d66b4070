"""Limits of one principal at this node: bytes and requests per second (`coordinator.adapters.server.throttle`).

Answers tell for how long the principal's next requests will wait (ThrottleTimeMs). The gate is in front of the dispatcher only when a quota
is set, so it costs nothing otherwise.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from coordinator.adapters.server.contract import Handler, IncomingRequest, Peer, Respond
from coordinator.adapters.server.throttle import WAIT_MAX_S, Throttle, Timers
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.config.settings import Settings
from coordinator.core.commands import Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import Operation
from coordinator.operations.table import OPERATIONS

QUOTAS: Final = ("bytes", "requests")

_THROTTLE: Final = struct.Struct(">i")


class QuotaGate(Handler):
    """The server's `Handler` in front of another one. Each request is charged, so it takes none together."""

    def __init__(
        self,
        inner: Handler,
        rates: Mapping[str, float],
        *,
        is_node: Callable[[Peer], bool],
        timers: Timers | None = None,
        operations: Iterable[Operation] = OPERATIONS,
    ) -> None:
        """`rates` has the quotas that are set, by name (`QUOTAS`), per second; `is_node` knows those that have none.

        Without `timers` those of the running loop are used.
        """
        self._inner = inner
        self._is_node = is_node
        self._operations = {one.key: one for one in operations}
        self._throttle = Throttle(rates, self._refuse, timers)

    @property
    def throttled(self) -> Counter[str]:
        """Answers that told of a throttle time, by quota."""
        return self._throttle.throttled

    @property
    def waiting(self) -> int:
        """Requests that wait for a quota."""
        return self._throttle.waiting

    @property
    def principals(self) -> int:
        """Principals whose use is remembered."""
        return self._throttle.principals

    def handle(self, request: IncomingRequest, respond: Respond) -> None:
        """See `Handler`."""
        if self._is_node(request.peer):
            self._inner.handle(request, respond)
        else:
            self._throttle.take(request, respond, partial(self._begin, request, respond))

    def gone(self, peer: Peer) -> None:
        """See `Handler`."""
        self._inner.gone(peer)

    def _begin(self, request: IncomingRequest, respond: Respond) -> None:
        self._throttle.charge(request, {"bytes": len(request.data), "requests": 1})
        self._inner.handle(request, partial(self._answer, request, respond))

    def _answer(self, request: IncomingRequest, respond: Respond, body: bytes | None) -> None:
        if body is None:
            respond(None)
            return
        self._throttle.charge(request, {"bytes": len(body)})
        throttle_ms = self._throttle.throttle_ms(request)
        # The throttle time is the first field of every answer that a handler gives.
        respond(_THROTTLE.pack(throttle_ms) + body[_THROTTLE.size :] if throttle_ms else body)

    def _refuse(self, request: IncomingRequest, respond: Respond) -> None:
        message = f"it waited {WAIT_MAX_S:.0f} s for a quota of {request.peer.principal} on this node and was not done; send less"
        operation, outcome = self._operations[request.api_key], Outcome(error=ErrorCode.REQUEST_TIMED_OUT, message=message)
        self._answer(request, respond, operation.refusal(request.api_version, request.data, request.body_offset, outcome))


def quota_gate(settings: Settings, dispatcher: Dispatcher) -> QuotaGate | None:
    """Return the gate in front of a dispatcher; None when no quota is set."""
    wanted = {"bytes": settings.quota_bytes_per_second, "requests": settings.quota_requests_per_second}
    rates = {name: float(rate) for name, rate in wanted.items() if rate}
    return QuotaGate(dispatcher, rates, is_node=dispatcher.access.is_node) if rates else None
