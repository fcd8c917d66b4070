"""The times at which the state database of a replica is written.

A leader writes every interval, in small pieces: answers wait for the interpreter while a piece is packed. On a follower no answer waits,
and unwritten changes are in the log, from which they are read again after a crash. So a follower lets more come together while anything
comes: a write costs milliseconds however little it writes, and rewrites rows of all partitions. It writes when the log rests.
"""

from __future__ import annotations

from collections.abc import Callable

FOLLOWED_INTERVALS = 10
"""A follower writes after so many intervals at the latest."""
IDLE_WRITE_INTERVAL_MS = 5_000
"""The time for which a newer applied offset alone (barriers, claims) may stay unwritten."""
FEW_BATCHES = 1_000
"""Batches and files that are packed in a millisecond or two."""
RESTED_BATCHES_PER_S = 50_000
"""The rate above which a write does not rest: too much may soon be unwritten, and clients that commit so much wait for commits of their
own rather than for the writer."""


class WriteTimes:
    """Says when to look whether something is to be written, when to write it, and how."""

    def __init__(self, *, clock_ms: Callable[[], int], interval_ms: int) -> None:
        self._clock_ms = clock_ms
        self._interval_ms = interval_ms
        self._written_ms = 0
        self._looked_ms = 0
        self._empty_ms = clock_ms()
        """The last time at which nothing was unwritten."""
        self._seen_batches = 0

    def is_time(self) -> bool:
        """Whether the last look at something unwritten is so long ago that it may have to be written."""
        return self._clock_ms() - self._looked_ms >= self._interval_ms

    def is_followed_due(self, unwritten_batches: int) -> bool:
        """Whether a follower with so many unwritten batches and files is due: none came since the last look, or it is long ago."""
        now_ms = self._clock_ms()
        came = unwritten_batches - self._seen_batches
        self._looked_ms, self._seen_batches = now_ms, unwritten_batches
        return came <= 0 or now_ms - self._written_ms >= FOLLOWED_INTERVALS * self._interval_ms

    def is_offset_due(self) -> bool:
        """Whether a newer applied offset, which is all that is not written, is to be written."""
        self._empty_ms = self._clock_ms()
        return self._empty_ms - self._written_ms >= IDLE_WRITE_INTERVAL_MS

    def begin(self, batches: int) -> bool:
        """A write of so many batches and files begins; returns whether it pauses between pieces."""
        now_ms = self._clock_ms()
        came_ms = max(now_ms - max(self._written_ms, self._empty_ms), 1)
        self._written_ms = self._looked_ms = self._empty_ms = now_ms
        self._seen_batches = 0
        return FEW_BATCHES <= batches < RESTED_BATCHES_PER_S * came_ms / 1000
