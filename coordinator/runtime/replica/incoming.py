"""Requests on their way into the core: those of one tick of the loop are handed over together.

While a group is in flight they wait for others a moment longer; `Grouping` says how long, the timers are here. While the state database
is far behind they wait until enough is written, but not for ever: a disk may hang. While a lock keeps it from being written they wait
until their deadlines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from coordinator.core.commands import Answer, Command
from coordinator.core.events import Event, Submitted
from coordinator.core.request import Request
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.replica.grouping import Grouping

LOG = logging.getLogger("coordinator.replica")

STUCK = (
    "another connection has locked the state database of the coordinator, and memory holds as many changes as it may"
    " (state.flush.backlog.max.batches); nothing was written. End the lock, `diskless doctor` names the node, and retry"
)

Answered: TypeAlias = Callable[[Answer], None]
"""The receiver of an answer: the token of every request. It has a name because making such a type takes a microsecond."""

Submission: TypeAlias = tuple[Answered, Command, int, int]
"""A command on its way: the receiver of its answer, its timeout in milliseconds, and its size in bytes."""


class IncomingRequests:
    """The requests to one replica that its core has not got yet."""

    def __init__(
        self,
        *,
        grouping: Grouping,
        loop: asyncio.AbstractEventLoop,
        clock_ms: Callable[[], int],
        feed: Callable[[Event], None],
        is_behind: Callable[[], bool],
        is_stuck: Callable[[], bool],
        backlog_s: float,
    ) -> None:
        """`is_behind` says whether the state database is so far behind that requests wait for it, `backlog_s` at most; `is_stuck`
        whether they wait on, because nothing can be written.
        """
        self._grouping = grouping
        self._loop = loop
        self._clock_ms = clock_ms
        self._feed = feed
        self._is_behind = is_behind
        self._is_stuck = is_stuck
        self._backlog_s = backlog_s
        self._was_behind = False
        self._waiting: list[Request] = []
        self._arrived_ms = 0
        self._size_bytes = 0
        self._spacing: asyncio.TimerHandle | None = None

    def submit(self, command: Command, timeout_ms: int, callback: Answered, size_bytes: int = 0) -> None:
        """Queue a command; `callback` gets its answer within the timeout and a tick, or `backlog_s` if that is longer."""
        self.submit_all(((callback, command, timeout_ms, size_bytes),))

    def submit_all(self, submissions: Sequence[Submission]) -> None:
        """Queue commands, in order; see `submit`."""
        waiting = self._waiting
        if not waiting:
            self._arrived_ms = self._clock_ms()
            self._schedule()
        arrived_ms = self._arrived_ms
        for callback, command, timeout_ms, size_bytes in submissions:
            waiting.append(Request(callback, command, arrived_ms + timeout_ms, size_bytes))
            self._size_bytes += size_bytes
        if self._spacing is not None and self._size_bytes >= self._grouping.enough_bytes:
            self.end_spacing()

    async def ask(self, command: Command, timeout_ms: int) -> Answer:
        """Submit a command and wait for its answer, which comes within the timeout and a tick."""
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self.submit(command, timeout_ms, lambda value: None if answer.done() else answer.set_result(value))
        return await answer

    def end_spacing(self) -> None:
        """Hand over the waiting requests with the next iteration of the loop, unless they have to wait for the state database."""
        if self._spacing is not None and not self._is_behind():
            self._spacing.cancel()
            self._spacing = None
            self._loop.call_soon(self._hand_over)

    def _schedule(self) -> None:
        is_behind = self._is_behind()
        if is_behind and not self._was_behind:
            LOG.warning("the state database is far behind: commits wait for it")
        self._was_behind = is_behind
        wait_s = self._backlog_s if is_behind else self._grouping.wait_s(self._loop.time())
        if wait_s > 0:
            self._spacing = self._loop.call_later(wait_s, self._hand_over)
        else:
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        if self._is_stuck():
            self._refuse_late()
            self._spacing = self._loop.call_later(self._backlog_s, self._hand_over) if self._waiting else None
            return
        requests, self._waiting = self._waiting, []
        self._grouping.submitted(self._size_bytes)
        self._size_bytes, self._spacing = 0, None
        self._feed(Submitted(requests))

    def _refuse_late(self) -> None:
        """Answer the waiting requests whose deadline has passed."""
        now_ms = self._clock_ms()
        late = [request for request in self._waiting if request.deadline_ms <= now_ms]
        self._waiting = [request for request in self._waiting if request.deadline_ms > now_ms]
        self._size_bytes = sum(request.size_bytes for request in self._waiting)
        for request in late:
            cast(Answered, request.token)(request.command.refused(ErrorCode.REQUEST_TIMED_OUT, STUCK))
