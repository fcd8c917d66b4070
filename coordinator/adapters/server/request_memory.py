"""The memory that requests take: counted as their bytes come, over all listeners that share it, with an order for those that need room.

Most requests take memory only while they come. When the unfinished ones of that kind have more than they may, the connection with the
largest one is disconnected. Requests of `waiting_keys` keep their bytes for long after they came (Produce of a gateway, while its store
hangs). While memory is short each of those needs a grant before it is served, or read beyond its first bytes; connections get grants in
the order in which they asked. All other requests are served as ever.

Invariants: grants never bring what is counted above `bytes_max`, but for one at a time while no complete request holds anything: half-read
requests that have all the memory cannot stop each other. A grant ends in time, by its request or by the end of its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final, Protocol

from coordinator.adapters.server.contract import CloseReason

READ_BYTES: Final = 256 * 1024
"""What a connection reads at a time."""
SHORT_READ_BYTES: Final = 4 * 1024
"""What it reads at a time, without a grant, while memory is short: so much each connection can add before it waits."""
GRANT_S: Final = 10.0
GRANT_BYTES_PER_S: Final = 128 * 1024
"""A request that was granted room has ten seconds, and one more for each so many of its bytes."""


class Holder(Protocol):
    """A connection whose requests take memory."""

    def look_for_room(self) -> None:
        """Serve and read what there is room for: memory became short, or a grant came."""

    def turn_out(self, reason: CloseReason, detail: str) -> None:
        """Hang up at once."""


class RequestMemory:
    """See the module. Used on one event loop."""

    def __init__(
        self,
        bytes_max: int,
        *,
        unfinished_max: int | None = None,
        waiting_keys: Collection[int] = (),
        changed: Callable[[bool], None] = lambda _short: None,
    ) -> None:
        """`unfinished_max` bounds unfinished requests that need no grant; without it they may have all. `changed` is told when memory
        becomes short (True), and when a quarter of it is free again and nobody waits (False).
        """
        self.bytes_max = bytes_max
        self.waiting_keys = frozenset(waiting_keys)
        self.buffer = memoryview(bytearray(READ_BYTES))
        """Where connections read to, one after the other."""
        self.is_short = False
        self.bytes_held_max = 0
        """The most that was ever held."""
        self.shortages = 0
        self._unfinished_max = bytes_max if unfinished_max is None else unfinished_max
        self._resume_at = bytes_max - bytes_max // 4
        self._changed = changed
        self._taken = 0
        self._parts: dict[Holder, int] = {}
        self._parts_bytes = 0
        self._loose: dict[Holder, int] = {}
        self._loose_bytes = 0
        self._grants: dict[Holder, tuple[int, asyncio.TimerHandle]] = {}
        self._queue: dict[Holder, int] = {}
        self._is_letting_in = False

    @property
    def bytes_held(self) -> int:
        """All bytes that are counted: of complete requests, of what has come of others, and what grants have reserved."""
        return self._taken + self._parts_bytes + self._loose_bytes

    @property
    def waiting(self) -> int:
        """Connections that wait for a grant."""
        return len(self._queue)

    def is_plentiful_for(self, holder: Holder) -> bool:
        """Whether a connection may read much at a time."""
        return not self.is_short or holder in self._grants

    # ---- complete requests

    def take(self, size_bytes: int) -> None:
        """Count bytes of a complete request. Never refuses."""
        self._taken += size_bytes
        self._look()

    def release(self, size_bytes: int) -> None:
        """Count bytes of a complete request that are no longer held."""
        self._taken -= size_bytes
        self._let_in()

    # ---- what has come of requests that are not served yet

    def hold(self, holder: Holder, size_bytes: int, *, waits: bool) -> None:
        """Count what a connection holds of requests that are not served yet; `waits` says whether such a request needs a grant."""
        mine, other = (self._parts, self._loose) if waits else (self._loose, self._parts)
        before = self.bytes_held
        self._put(other, holder, 0)
        self._put(mine, holder, size_bytes)
        if self._loose_bytes > self._unfinished_max:
            self._turn_out_largest()
        elif self.bytes_held < before:
            self._let_in()
        else:
            self._look()

    def may_go_on(self, holder: Holder, size_bytes: int) -> bool:
        """Whether a request of a waiting key, of that size, may be read and served; if not, its connection is told when it may."""
        if self.is_plentiful_for(holder):
            return True
        self._queue.setdefault(holder, size_bytes)
        self._let_in()
        return holder in self._grants

    def served(self, holder: Holder) -> None:
        """The request of a connection that had a grant is served, or its connection is gone."""
        size_bytes, timer = self._grants.pop(holder, (0, None))
        if timer is not None:
            timer.cancel()
            self._put(self._parts, holder, max(0, self._parts.get(holder, 0) - size_bytes))
            self._let_in()

    def forget(self, holder: Holder) -> None:
        """A connection is gone."""
        self._queue.pop(holder, None)
        self.served(holder)
        self.hold(holder, 0, waits=False)

    # ---- inside

    def _put(self, parts: dict[Holder, int], holder: Holder, size_bytes: int) -> None:
        grant = self._grants.get(holder)
        if grant is not None and parts is self._parts:
            size_bytes = max(size_bytes, grant[0])
        grown = size_bytes - parts.get(holder, 0)
        if not grown:
            return
        if size_bytes:
            parts[holder] = size_bytes
        else:
            del parts[holder]
        if parts is self._parts:
            self._parts_bytes += grown
        else:
            self._loose_bytes += grown

    def _look(self) -> None:
        """Become short if so much is held."""
        self.bytes_held_max = max(self.bytes_held_max, self.bytes_held)
        if self.is_short or not self.waiting_keys or self.bytes_held < self.bytes_max:
            return
        self.is_short = True
        self.shortages += 1
        self._changed(True)
        for holder in list(self._parts):
            holder.look_for_room()

    def _let_in(self) -> None:
        """Give grants to those who wait, as far as there is room."""
        if self._is_letting_in or not self.is_short:
            return
        self._is_letting_in = True
        try:
            while self._queue:
                holder, size_bytes = next(iter(self._queue.items()))
                missing = max(0, size_bytes - self._parts.get(holder, 0))
                is_alone = not self._taken and not self._grants
                if self.bytes_held + missing > self.bytes_max and not is_alone:
                    break
                del self._queue[holder]
                self._grant(holder, size_bytes)
                holder.look_for_room()
        finally:
            self._is_letting_in = False
        if not self._queue and self.bytes_held <= self._resume_at:
            self.is_short = False
            self._changed(False)

    def _grant(self, holder: Holder, size_bytes: int) -> None:
        limit_s = GRANT_S + size_bytes / GRANT_BYTES_PER_S
        timer = asyncio.get_running_loop().call_later(limit_s, self._overdue, holder, limit_s)
        self._grants[holder] = size_bytes, timer
        self._put(self._parts, holder, self._parts.get(holder, 0))

    def _overdue(self, holder: Holder, limit_s: float) -> None:
        size_bytes, _ = self._grants[holder]
        holder.turn_out(
            CloseReason.UNFINISHED, f"a request of {size_bytes} bytes did not come in {limit_s:.0f} s, and others need the memory"
        )

    def _turn_out_largest(self) -> None:
        largest = max(self._loose, key=lambda one: self._loose[one])
        detail = f"{self._loose[largest]} bytes of a request have come, all unfinished ones together have more than {self._unfinished_max}"
        largest.turn_out(CloseReason.UNFINISHED, detail)
