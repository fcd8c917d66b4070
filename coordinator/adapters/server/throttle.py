"""Rates of one principal, as buckets that fill with time, and its requests that wait until what it owes is paid.

A principal whose bucket is in debt gets no further request begun until the debt is paid, on none of its connections. Requests that wait
stay in the order in which they came. They count as pending of their connections, and the waiting requests of one principal are bounded,
too, because they outlive a connection that goes away.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from coordinator.adapters.server.contract import IncomingRequest, Respond
from coordinator.protocol.wire import MalformedMessage

LOG = logging.getLogger("coordinator.quotas")

BURST_S: Final = 10.0
"""A bucket holds the quota of this many seconds, which may be used at once."""
DEBT_MIN_S: Final = 0.001
"""A smaller debt counts as none: the timer of the wait would fire at once and find it again."""
WAIT_MAX_S: Final = 30.0
"""Clients have given up by then."""
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit of the waiting requests of one principal. A connection that brings more is closed."""
WAITING_EACH_BYTES: Final = 1024
"""Memory of a waiting request besides its bytes."""
PRINCIPALS_MAX: Final = 10_000
_THROTTLE_MS_MAX: Final = 2**31 - 1


class Bucket:
    """An allowance that refills by `rate` per second. Its level may fall below 0: that is the debt."""

    __slots__ = ("_at_s", "_level", "_rate")

    def __init__(self, rate: float, now_s: float) -> None:
        self._rate = rate
        self._level = rate * BURST_S
        self._at_s = now_s

    def charge(self, amount: float, now_s: float) -> None:
        """Take something out."""
        self._level = min(self._rate * BURST_S, self._level + (now_s - self._at_s) * self._rate) - amount
        self._at_s = now_s

    def debt_s(self, now_s: float) -> float:
        """Return in how many seconds the debt is paid; 0 or less without one."""
        return -(self._level + (now_s - self._at_s) * self._rate) / self._rate


Refuse = Callable[[IncomingRequest, Respond], None]
"""Answers a request that has waited too long."""


class Timers(Protocol):
    """The part of an event loop that is needed here."""

    def time(self) -> float:
        """Return the seconds of a clock that only goes forward."""

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> object:
        """Call at a time of that clock."""


class _Waiting(NamedTuple):
    request: IncomingRequest
    respond: Respond
    begin: Callable[[], None]
    since_s: float

    @property
    def size(self) -> int:
        return WAITING_EACH_BYTES + len(self.request.data)


class _Account:
    """The buckets of one principal by quota, and the requests that wait for them."""

    __slots__ = ("_is_full", "_waiting_bytes", "buckets", "timer", "waiting")

    def __init__(self, rates: Mapping[str, float], now_s: float) -> None:
        self.buckets = {name: Bucket(rate, now_s) for name, rate in rates.items()}
        self.waiting: deque[_Waiting] = deque()
        self.timer: object | None = None
        self._waiting_bytes = 0
        self._is_full = False

    def put(self, one: _Waiting) -> bool:
        """Let a request wait; return False if there is no room for it, which is logged once until nothing waits."""
        if self.waiting and self._waiting_bytes + one.size > WAITING_BYTES_MAX:
            if not self._is_full:
                text = "connections closed principal=%s waiting_bytes=%d remedy='raise its quota, or let it send less'"
                LOG.warning(text, one.request.peer.principal, self._waiting_bytes)
            self._is_full = True
            return False
        self.waiting.append(one)
        self._waiting_bytes += one.size
        return True

    def take(self) -> _Waiting:
        """Take out what has waited longest."""
        one = self.waiting.popleft()
        self._waiting_bytes -= one.size
        self._is_full = self._is_full and bool(self.waiting)
        return one

    def charge(self, amounts: Mapping[str, float], now_s: float) -> None:
        for name, bucket in self.buckets.items():
            bucket.charge(amounts.get(name, 0.0), now_s)

    def debt(self, now_s: float) -> tuple[float, str]:
        """The longest debt in seconds, and the quota it is of."""
        return max((bucket.debt_s(now_s), name) for name, bucket in self.buckets.items())


class Throttle:
    """The accounts of all principals. Used on one event loop."""

    def __init__(self, rates: Mapping[str, float], refuse: Refuse, timers: Timers | None = None) -> None:
        """`rates` has the quotas that are set, by name, per second. A request that has waited for `WAIT_MAX_S` is refused.

        Without `timers` those of the running loop are used.
        """
        self._rates = dict(rates)
        self._refuse = refuse
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._timers = timers or asyncio.get_running_loop()
        self.throttled: Counter[str] = Counter()
        """Answers that told of a throttle time, by quota."""

    @property
    def waiting(self) -> int:
        """Requests that wait for a quota."""
        return sum(len(one.waiting) for one in self._accounts.values())

    @property
    def principals(self) -> int:
        """Principals whose use is remembered."""
        return len(self._accounts)

    def take(self, request: IncomingRequest, respond: Respond, begin: Callable[[], None]) -> None:
        """Call `begin` as soon as the principal of a request owes nothing. Raises what `begin` does."""
        now_s = self._timers.time()
        account = self._account(request.peer.principal.exact, now_s)
        if not account.waiting and account.debt(now_s)[0] <= DEBT_MIN_S:
            begin()
        elif account.put(_Waiting(request, respond, begin, now_s)):
            self._wake(account, now_s)
        else:
            respond(None)

    def charge(self, request: IncomingRequest, amounts: Mapping[str, float]) -> None:
        """Take amounts, by the name of their quota, from the principal of a request."""
        now_s = self._timers.time()
        self._account(request.peer.principal.exact, now_s).charge(amounts, now_s)

    def throttle_ms(self, request: IncomingRequest) -> int:
        """Return the throttle time to tell in an answer, which is counted; 0 for none."""
        now_s = self._timers.time()
        debt_s, quota = self._account(request.peer.principal.exact, now_s).debt(now_s)
        if debt_s <= DEBT_MIN_S:
            return 0
        self.throttled[quota] += 1
        return min(_THROTTLE_MS_MAX, 1 + int(debt_s * 1000))

    def _account(self, principal: str, now_s: float) -> _Account:
        account = self._accounts.get(principal)
        if account is None:
            if len(self._accounts) >= PRINCIPALS_MAX:
                self._forget(now_s)
            account = self._accounts[principal] = _Account(self._rates, now_s)
            return account
        self._accounts.move_to_end(principal)
        return account

    def _forget(self, now_s: float) -> None:
        """Make room: the principals that used nothing for longest and owe nothing."""
        for name in list(self._accounts)[: PRINCIPALS_MAX // 10]:
            account = self._accounts[name]
            if not account.waiting and account.debt(now_s)[0] <= DEBT_MIN_S:
                del self._accounts[name]

    # ---- waiting requests

    def _wake(self, account: _Account, now_s: float) -> None:
        """Ensure that waiting requests start when the debt is paid, or are refused when their time is over."""
        if account.timer is None and account.waiting:
            until_s = min(now_s + max(0.0, account.debt(now_s)[0]), account.waiting[0].since_s + WAIT_MAX_S)
            account.timer = self._timers.call_at(until_s, self._go_on, account)

    def _go_on(self, account: _Account) -> None:
        account.timer = None
        now_s = self._timers.time()
        while account.waiting:
            one = account.waiting[0]
            is_late = now_s - one.since_s >= WAIT_MAX_S
            if not is_late and account.debt(now_s)[0] > DEBT_MIN_S:
                break
            account.take()
            try:
                if is_late:
                    self._refuse(one.request, one.respond)
                else:
                    one.begin()
            except MalformedMessage:
                one.respond(None)
            except Exception:  # one request must not hold up the later ones
                LOG.exception("request failed peer=%s", one.request.peer.address)
                one.respond(None)
        self._wake(account, now_s)
