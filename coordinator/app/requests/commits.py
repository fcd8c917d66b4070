"""Commits from connections, without a task: those that were read together start in one call, and those that are answered together are
encoded and written together, in the next round of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from functools import partial

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import RequestRun
from coordinator.app.requests.ordering import ConnectionOrder
from coordinator.core.commands import CommitAnswer
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.commits import CommitRequest, read_commits, write_commit
from coordinator.operations.files import COMMIT_FILE
from coordinator.operations.first_error import first_commit_error
from coordinator.runtime.node.node import Node
from coordinator.runtime.routing.router import CommitSubmission, Router

LOG = logging.getLogger("coordinator.dispatch")

_NAME = COMMIT_FILE.name
_COMMITTED = (_NAME, 0)


class CommitDesk:
    """The commits of one process; shares the order of connections and the counts with everything else."""

    def __init__(self, *, node: Node, metrics: Metrics, order: ConnectionOrder, answered: Counter[tuple[str, int]]) -> None:
        self._node = node
        self._order = order
        self._counts = answered
        self._observe = metrics.series("request_seconds", _NAME).observe
        self._loop = asyncio.get_running_loop()
        self._due: list[_CommitRun] = []

    def take(self, run: RequestRun) -> None:
        """Take CommitFile requests. Raises MalformedMessage after taking those before it."""
        commits, refusals, damage = read_commits(run.frames, run.kind.body_offset, run.kind.client_id)
        for place, refusal in refusals:
            run.replies.give(place, write_commit(refusal))
            self._counts[(_NAME, first_commit_error(refusal))] += 1
        if commits:
            started = _CommitRun(self, self._node.router, run, commits)
            self._order.start_run(run.peer.connection_id, COMMIT_FILE.lane, len(commits), started.start)
        if damage is not None:
            raise damage

    def failed(self, started: _CommitRun, error: Exception) -> None:
        """A commit raised. The connection is closed, and no later request on it may start."""
        LOG.error("commit failed peer=%s", started.peer.address, exc_info=error)
        self._counts[(_NAME, ErrorCode.UNKNOWN_SERVER_ERROR)] += 1
        started.replies.fail()

    def answer_soon(self, started: _CommitRun) -> None:
        """Some of these have answers: to be called for the first."""
        if not self._due:
            self._loop.call_soon(self._answer_due)
        self._due.append(started)

    def _answer_due(self) -> None:
        due, self._due = self._due, []
        now_s = self._loop.time()
        for started in due:
            self._answer(started, now_s)

    def _answer(self, started: _CommitRun, now_s: float) -> None:
        answers, started.answers = started.answers, []
        committed = 0
        bodies: list[tuple[int, bytes]] = []
        try:
            for place, answer in answers:
                bodies.append((place, write_commit(answer)))
                error = first_commit_error(answer)
                if error:
                    self._counts[(_NAME, error)] += 1
                else:
                    committed += 1
        except Exception as error:  # noqa: BLE001 - what it is says `failed`
            self.failed(started, error)
            return
        self._counts[_COMMITTED] += committed
        self._observe(now_s - started.received_s, len(answers))
        started.replies.give_all(bodies)
        self._order.leave(started.peer.connection_id, len(answers))


class _CommitRun:
    """Commits that were read together. It may wait long for one of them, so it lets go of the others."""

    __slots__ = ("_owner", "_rest", "_router", "answers", "peer", "received_s", "replies")

    def __init__(self, owner: CommitDesk, router: Router, run: RequestRun, commits: list[CommitRequest]) -> None:
        self.peer = run.peer
        self.received_s = run.received_s
        self.replies = run.replies
        self.answers: list[tuple[int, CommitAnswer]] = []
        """The answers that were not taken yet, with their places in the run."""
        self._owner = owner
        self._router = router
        self._rest = commits

    def start(self, first: int, stop: int) -> int:
        """See `StartRun`."""
        answered = self._answered
        commits: list[CommitSubmission] = [
            (partial(answered, place), command, timeout_ms, size_bytes)
            for place, command, timeout_ms, size_bytes in self._rest[: stop - first]
        ]
        at = 0
        try:
            for reached in self._router.commit_all(commits):
                at += reached
        except Exception as error:  # noqa: BLE001 - what it is says `failed`
            self._owner.failed(self, error)
        del self._rest[: min(at + 1, len(commits))]
        return at

    def _answered(self, place: int, answer: CommitAnswer) -> None:
        if not self.answers:
            self._owner.answer_soon(self)
        self.answers.append((place, answer))
