"""How many requests a client lets stand unanswered, learned from what it does: `max.in.flight` is in no request.

A client that waits for answers sends again as soon as one comes, after a silence as long as the file took. One that has nothing to send
does not. So the number of unanswered requests during such a silence, twice in a row, is the client's limit; having more unanswered raises
it. A limit below Kafka's default was wrong when the client is slow to send after answers three times in a row.
"""

from __future__ import annotations

from typing import Final

DEFAULT_LIMIT: Final = 5
"""`max.in.flight.requests.per.connection` of Java's and of idempotent librdkafka's producers."""
SILENT_S: Final = 0.05
"""A client that has sent nothing for so long before an answer may have waited for it."""
RESUMES_S: Final = 0.02
"""A client that waited sends again so soon after an answer, the network's time included."""
_TIMES_SEEN: Final = 2
_TIMES_MISSED: Final = 3


class RequestWindow:
    """The requests of one connection that have no answer yet. Times are given, in seconds."""

    __slots__ = ("_answered_s", "_candidate", "_held", "_last_s", "_misses", "_seen", "_silent_s", "limit", "unanswered")

    def __init__(self) -> None:
        self.unanswered = 0
        self.limit = DEFAULT_LIMIT
        self._last_s = 0.0
        self._answered_s: float | None = None
        """When the last answer went out since which no request came."""
        self._held = 0
        """How many were unanswered before that answer, and those that went out since the last request."""
        self._silent_s = 0.0
        self._candidate = self._seen = self._misses = 0

    @property
    def is_stalled(self) -> bool:
        """Whether the client has as many requests unanswered as it allows."""
        return self.unanswered >= self.limit

    def asked(self, now_s: float) -> None:
        """A request came."""
        if self._answered_s is not None:
            self._judge(now_s - self._answered_s <= RESUMES_S)
            self._answered_s = None
            self._held = 0
        self.unanswered += 1
        self._last_s = now_s
        if self.unanswered > self.limit:
            self.limit = self.unanswered
            self._seen = 0

    def answered(self, now_s: float) -> None:
        """An answer goes out."""
        if self._answered_s is None:
            self._silent_s = now_s - self._last_s
        self._held = max(self._held, self.unanswered)
        self._answered_s = now_s
        self.unanswered -= 1

    def _judge(self, has_resumed: bool) -> None:
        if self._held < self.limit:
            if not has_resumed or self._silent_s < SILENT_S:
                self._seen = 0
                return
            self._seen = self._seen + 1 if self._held == self._candidate else 1
            self._candidate = self._held
            if self._seen >= _TIMES_SEEN:
                self.limit = self._held
                self._seen = self._misses = 0
        elif self.limit < DEFAULT_LIMIT:
            self._misses = 0 if has_resumed else self._misses + 1
            if self._misses >= _TIMES_MISSED:
                self.limit = DEFAULT_LIMIT
                self._misses = 0
