"""Who sends a token, and what a wrong one costs.

A right token is never refused, whatever others of its address sent. A wrong one is answered later each time, by address, up to
`DELAY_MAX_S`; that slows down who guesses in turn. Who guesses at many connections at once is kept out by the length of tokens alone
(`TOKEN_CHARS_MIN`), since an answer that does not come soon says no, too. Answers that wait are bounded, and so is the table.

`X-Forwarded-For` counts from trusted proxies alone: the sender is the last address in it that is none of theirs.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.requests import Request

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

TOKEN_CHARS_MIN: Final = 16
FREE: Final = 3
"""Wrong tokens of an address that are answered at once."""
FIRST_DELAY_S: Final = 0.5
DELAY_MAX_S: Final = 30.0
FORGOTTEN_PER_S: Final = 0.05
WAITING_MAX: Final = 256
WAITING_OF_ADDRESS_MAX: Final = 4
ADDRESSES_MAX: Final = 10_000
_COUNT_MAX: Final = 20.0


class Attempts:
    """Wrong tokens by address. `clock_s` only goes forward."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._clock_s = clock_s
        self._sleep = sleep
        self._wrong: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._waiting: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many addresses have sent a wrong token."""
        return len(self._wrong)

    async def note_wrong(self, address: str) -> int:
        """Count a wrong token and wait as long as it costs; return 0, or for how many seconds its sender must go away: too many wait."""
        place, now_s = _place(address), self._clock_s()
        before, then_s = self._wrong.get(place, (0.0, now_s))
        count = min(_COUNT_MAX, max(0.0, before - (now_s - then_s) * FORGOTTEN_PER_S) + 1)
        self._wrong[place] = count, now_s
        self._wrong.move_to_end(place)
        if len(self._wrong) > ADDRESSES_MAX:
            self._wrong.popitem(last=False)
        if count <= FREE:
            return 0
        delay_s = min(DELAY_MAX_S, FIRST_DELAY_S * 2 ** (count - FREE - 1))
        if self._waiting[place] >= WAITING_OF_ADDRESS_MAX or self._waiting.total() >= WAITING_MAX:
            return max(1, round(delay_s))
        self._waiting[place] += 1
        try:
            await self._sleep(delay_s)
        finally:
            self._waiting[place] -= 1
            if not self._waiting[place]:
                del self._waiting[place]
        return 0


def is_token(given: str, token: str | None) -> bool:
    """Compare in a time that tells nothing of the token, not even its length; None is no token."""
    return token is not None and hmac.compare_digest(digest(given), digest(token))


def digest(text: str) -> bytes:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def sender(request: Request, proxies: Sequence[Network]) -> str:
    """Return the address that a request comes from, as far as it can be trusted."""
    address = request.client.host if request.client is not None else ""
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while hops and is_proxy(address, proxies):
        hop = _address(hops.pop())
        if hop is None:  # a proxy that hides whom it serves
            break
        address = str(hop)
    return address


def is_proxy(address: str, proxies: Sequence[Network]) -> bool:
    """Tell whether an address is one of a trusted proxy."""
    found = _address(address)
    return found is not None and any(found in network for network in proxies)


def _address(text: str) -> Address | None:
    """Read an address, with a port or without."""
    text = text.strip()
    host = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0] if text.count(":") == 1 else text
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return (found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None) or found


def _place(address: str) -> str:
    """Return what wrong tokens are counted by: one user of IPv6 has a whole network."""
    found = _address(address)
    if found is None:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
