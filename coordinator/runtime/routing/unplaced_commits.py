"""Commits of files some of whose batches have no coordinator: their topic was deleted, is not known (yet), or is too small.

A known key is answered even when its topics are gone: a client that was told "unknown topic" for the repetition
of an acknowledged commit would upload the data again under a new key. So the coordinators that owned the batches are asked
first, only for their known answers. Shares are told apart by the placement of deleted topics, which is remembered
longer than results are kept (`deleted.topic.retention.ms`). A client may have sent a share to where a partition was before
it moved, and the topic was deleted: FENCED_LEADER_EPOCH has it look where that was.
Invariant: nothing of a file is logged while one of its batches would be answered that its topic or partition is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from coordinator.core.commands import CommitAnswer, CommitFile, CommitResult, Outcome
from coordinator.core.files.requests import check_whole
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.routing.cluster_view import ClusterView

Respond = Callable[[CommitAnswer], None]

ANOTHER_IS_UNKNOWN = Outcome(
    error=ErrorCode.COORDINATOR_NOT_AVAILABLE,
    message="nothing of the file was committed: another batch of it names an unknown topic or partition; create it, or retry",
)
_UNDECIDED = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""A coordinator that answers with one of these has not said whether it knows the key."""


class Splitting(Protocol):
    """The router as these commits need it."""

    async def settle(self, keys: set[bytes], timeout_ms: int) -> Outcome | None:
        """Bring the directory up to date; returns why that failed."""

    def unplaced(self, key: bytes) -> Outcome:
        """The outcome for a partition that a current directory does not have."""

    def commit_split(self, command: CommitFile, owners: Sequence[int | None], timeout_ms: int, respond: Respond, size_bytes: int) -> None:
        """Give each coordinator its share; batches without one are left out."""


class UnplacedCommit:
    """One such commit; `run` answers it."""

    def __init__(self, router: Splitting, view: ClusterView, command: CommitFile, timeout_ms: int, size_bytes: int) -> None:
        self._router = router
        self._view = view
        self._command = command
        self._keys: list[bytes] = command.batches["topic_partition"].tolist()
        self._size_bytes = size_bytes
        self._deadline_s = asyncio.get_running_loop().time() + timeout_ms / 1000

    async def run(self, respond: Respond) -> None:
        """Commit the file if all its batches have coordinators after all, else answer what is known of its key."""
        problem = await self._router.settle(set(self._keys), self._left_ms())
        if problem is not None:
            respond(CommitResult.refused(len(self._keys), problem.error, problem.message))
            return
        live = [self._view.owner_of(key) for key in self._keys]
        if None not in live:
            self._router.commit_split(self._command, live, self._left_ms(), respond, self._size_bytes)
            return
        owners = [self._former_owner_of(key) if owner is None else owner for key, owner in zip(self._keys, live, strict=True)]
        checked = check_whole(self._command, self._view.replicas.count)
        refusal = ANOTHER_IS_UNKNOWN if checked.error is ErrorCode.NONE else checked
        known = await self._ask(owners, refusal)
        elsewhere = {owner for owner in owners if owner is not None and not self._view.replicas.is_leading(owner)}
        gone = [place for place, owner in enumerate(live) if owner is None and owners[place] in elsewhere]
        if gone and any(map(self._view.replicas.is_leading, self._command.owner_ids)):
            respond = partial(_respond_moved, respond, gone)
        if all(owners[place] in elsewhere or _is_known(known, place, refusal) for place, owner in enumerate(live) if owner is None):
            # Committed shares are answered again, and another node decides shares that it leads: neither holds up the shares that
            # have a coordinator here.
            self._router.commit_split(self._command._replace(checked=checked), owners, self._left_ms(), respond, self._size_bytes)
            return
        stranger = None if None not in owners else await self._ask_with_strangers(refusal)
        for place, owner in enumerate(live):
            if owner is None and not _is_known(known, place, refusal):
                self._answer_unplaced(known, place, owners[place], refusal, stranger)
        respond(known)

    def _former_owner_of(self, key: bytes) -> int | None:
        """The coordinator that may know the file by a batch without one: what its topic had, else the only one the file names."""
        owner = self._view.former_owner_of(key)
        named = set(self._command.owner_ids)
        if owner is None and len(named) == 1 and self._view.replicas.is_leading(only := named.pop()):
            return only
        return owner

    async def _ask(self, owners: Sequence[int | None], refusal: Outcome) -> CommitResult:
        """Ask coordinators for the answers of their shares; an unknown share is answered `refusal`, and nothing of it is logged."""
        if all(owner is None for owner in owners):
            return CommitResult.refused(len(owners), refusal.error, refusal.message).changeable()
        answered: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()

        def take(answer: CommitAnswer) -> None:
            if not answered.done():
                answered.set_result(answer.result())

        self._router.commit_split(self._command._replace(checked=refusal), owners, self._left_ms(), take, self._size_bytes)
        known = (await answered).changeable()
        for place, owner in enumerate(owners):
            if owner is None:
                known.errors[place], known.messages[place] = int(refusal.error), refusal.message
        return known

    async def _ask_with_strangers(self, refusal: Outcome) -> CommitResult | None:
        """Ask a coordinator that knows the key about a file with batches that no coordinator owns, which is never its own share."""
        for owner in dict.fromkeys(self._command.owner_ids):
            if self._view.replicas.is_leading(owner):
                answer = await self._ask([owner] * len(self._keys), refusal)
                if _is_known(answer, 0, refusal):
                    return answer
        return None

    def _answer_unplaced(self, known: CommitResult, place: int, owner: int | None, refusal: Outcome, stranger: CommitResult | None) -> None:
        """Say why a batch without a coordinator is not committed."""
        if stranger is not None:
            known.errors[place], known.messages[place] = stranger.errors[place], stranger.messages[place]
        elif owner is not None and known.messages[place] != refusal.message:
            return  # the former coordinator cannot answer now
        elif refusal is ANOTHER_IS_UNKNOWN:
            outcome = self._router.unplaced(self._keys[place])
            known.errors[place], known.messages[place] = int(outcome.error), outcome.message

    def _left_ms(self) -> int:
        return max(0, int((self._deadline_s - asyncio.get_running_loop().time()) * 1000))


def _respond_moved(respond: Respond, gone: Sequence[int], answer: CommitAnswer) -> None:
    result = answer.result().changeable()
    for place in gone:
        if result.errors[place] == ErrorCode.NOT_COORDINATOR:
            message = "its topic was deleted, and its coordinator is led elsewhere; look which that was, and commit it there"
            result.errors[place], result.messages[place] = int(ErrorCode.FENCED_LEADER_EPOCH), message
    respond(result)


def _is_known(answer: CommitResult, place: int, refusal: Outcome) -> bool:
    """Whether a coordinator answered a batch from what it knows of the key."""
    return answer.errors[place] not in _UNDECIDED and (answer.errors[place], answer.messages[place]) != (refusal.error, refusal.message)
