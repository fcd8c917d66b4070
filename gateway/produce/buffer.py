"""What has been taken and is in no file yet, and when it becomes one. Pure: times are given, in seconds.

A file is due when there is enough for one, when the oldest batch has waited long enough, or when all connections with batches here are
stalled, since nothing more will come then. Small files keep a distance, and a number in any second: others are paid by their records, and
a client that waits sends no faster than it gets answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from gateway.produce.connections import RequestWindow

T = TypeVar("T")

SMALL_FRACTION: Final = 32
"""A file is small that has less than this part of `gateway.buffer.bytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferLimits:
    """Settings `gateway.buffer.*` and `gateway.file*`."""

    buffer_bytes: int = 8 * 1024 * 1024
    buffer_ms: int = 250
    file_gap_ms: int = 25
    files_per_second_max: int = 40
    batches_max: int = 5_000
    """Of one file: a coordinator's share must fit one message of the metadata topic, which has room for some 35 000."""

    def is_small(self, size_bytes: int) -> bool:
        """Whether a file of so many bytes has to keep its distance."""
        return size_bytes * SMALL_FRACTION < self.buffer_bytes


class _Waiting(NamedTuple, Generic[T]):
    part: T
    size_bytes: int
    batches: int
    window: RequestWindow | None
    since_s: float


class Buffer(Generic[T]):
    """Parts of requests in the order in which they came."""

    def __init__(self, limits: BufferLimits) -> None:
        self._limits = limits
        self._parts: deque[_Waiting[T]] = deque()
        self._with_data: set[RequestWindow] = set()
        """Connections that wait for an answer to something here."""
        self._sending: set[RequestWindow] = set()
        """Those of them that may send more before they get one."""
        self._small_files_s: deque[float] = deque(maxlen=limits.files_per_second_max)
        self.size_bytes = 0
        self.batches = 0

    def add(self, part: T, size_bytes: int, batches: int, window: RequestWindow | None, now_s: float) -> None:
        """Take a part of a request; `window` is that of its connection, None when nobody waits for an answer."""
        self._parts.append(_Waiting(part, size_bytes, batches, window, now_s))
        self.size_bytes += size_bytes
        self.batches += batches
        self.look_at(window, is_new=True)

    def look_at(self, window: RequestWindow | None, *, is_new: bool = False) -> None:
        """The number of unanswered requests of a connection has changed."""
        if window is None or not (is_new or window in self._with_data):
            return
        self._with_data.add(window)
        if window.is_stalled:
            self._sending.discard(window)
        else:
            self._sending.add(window)

    def due_s(self, now_s: float) -> float | None:
        """When the next file is due if nothing else happens, `now_s` at the earliest; None while there is nothing."""
        if not self._parts:
            return None
        limits = self._limits
        if self.size_bytes >= limits.buffer_bytes or self.batches >= limits.batches_max:
            return now_s
        due_s = self._parts[0].since_s + limits.buffer_ms / 1000
        before_s: Sequence[float] = self._small_files_s if limits.is_small(self.size_bytes) else ()
        if self._with_data and not self._sending:
            due_s = min(due_s, before_s[-1] + limits.file_gap_ms / 1000 if before_s else now_s)
        if len(before_s) == limits.files_per_second_max:
            due_s = max(due_s, before_s[0] + 1.0)
        return max(due_s, now_s)

    def take(self, now_s: float) -> list[T]:
        """Remove what becomes the next file: the oldest parts, as many as fit one, and one at least."""
        taken: list[T] = []
        size_bytes = batches = 0
        while self._parts:
            one = self._parts[0]
            fits = size_bytes + one.size_bytes <= self._limits.buffer_bytes and batches + one.batches <= self._limits.batches_max
            if taken and not fits:
                break
            self._parts.popleft()
            taken.append(one.part)
            size_bytes += one.size_bytes
            batches += one.batches
        self.size_bytes -= size_bytes
        self.batches -= batches
        if self._limits.is_small(size_bytes):
            self._small_files_s.append(now_s)
        self._with_data.clear()
        self._sending.clear()
        for one in self._parts:
            self.look_at(one.window, is_new=True)
        return taken
