"""Files are committed: the shares of each coordinator in the order in which the files were cut, each until it has an outcome.

`coordinator.client.Committer` keeps whole files in order, so one coordinator without a leader would hold up all partitions that share a
file with one of its own. Here a coordinator's share of a file waits for its share of the file before, and, where a partition has moved to
it, for the share in which that came before. Shares of a file that may go at the same time go in one call. A coordinator decides a share as
a whole, and answers a repetition as before, so a share without an outcome is asked again, unchanged.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from coordinator.client.calls.commits import outcome_of, refused_rows
from coordinator.client.errors import DisklessError, Refusal
from coordinator.client.model import CommitOutcome
from coordinator.client.records.writing import UNDECIDED
from coordinator.client.routing.routed_call import NOT_CREATED
from coordinator.kafka.errors import ErrorCode
from gateway.produce.files import FileLoad
from gateway.produce.lost import LostBatches
from gateway.produce.request import Int64s
from gateway.produce.stats import ProduceStats
from records.file_owners import in_turn

if TYPE_CHECKING:
    from coordinator.client.model import Batches

FIRST_TIMEOUT_MS: Final = 2_000
"""Of the first attempt: coordinators that have not answered then no longer hold up the others."""
TIMEOUT_MS: Final = 10_000
_PAUSE_S: Final = 0.05
_PAUSE_MAX_S: Final = 1.0
_BEHIND_A_LOST_ONE: Final = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "the producer's batch before it was not written: repeat that one first")
_UNDECIDED: Final = np.array(sorted(UNDECIDED), np.int64)
_NOT_HERE: Final = np.array(sorted(NOT_CREATED), np.int64)


class CommitsShares(Protocol):
    """The operation of the service that commits need; `DisklessClient` has it."""

    async def commit_file(
        self,
        object_key: str,
        file_size_bytes: int,
        batches: Batches,
        *,
        owner_ids: Sequence[int] | None = None,
        coordinator_ids: Sequence[int] | None = None,
        uploader_broker_id: int = -1,
        timeout_ms: int | None = None,
    ) -> CommitOutcome:
        """Commit an uploaded file, or some coordinators' shares of one."""


def are_undecided(codes: Int64s) -> npt.NDArray[np.bool_]:
    """Return which codes leave it open whether a batch is, or will be, in the log."""
    return np.isin(codes, _UNDECIDED)


def are_not_here(codes: Int64s) -> npt.NDArray[np.bool_]:
    """Return which codes say that a partition is not there, or takes nothing yet."""
    return np.isin(codes, _NOT_HERE)


class _Turn:
    """The share of a coordinator of a file, for later files with batches of its partitions."""

    __slots__ = ("coordinator", "is_decided", "keys")

    def __init__(self, coordinator: int) -> None:
        self.coordinator = coordinator
        self.is_decided = False
        self.keys: list[bytes] = []


class CutFile:
    """A file whose place in the order is taken."""

    def __init__(self, key: str, data: bytes, load: FileLoad) -> None:
        """`load` is sorted and has the places of its batches in `data`."""
        self.key = key
        self.data = data
        self.load = load
        self.owner_ids = in_turn(key, load.coordinators.tolist())
        self.waiting = set(self.owner_ids)
        """Coordinators whose shares have not been sent."""
        self.turns = {one: _Turn(one) for one in self.owner_ids}
        self.behind: dict[int, list[_Turn]] = {}
        """By coordinator: shares of earlier files that have to be decided first, since a partition has moved between the two."""
        self.stored_s = 0.0
        """When it was uploaded, by the loop's clock."""
        self.accepted = 0
        """Batches that a coordinator has taken, in this file or before."""


Settle = Callable[[CutFile, Int64s, CommitOutcome], None]
"""Told of batches, by their indexes in the file, that have the outcome of the same row."""


class ShareCommits:
    """Sends shares when it is their turn. Used on one event loop."""

    def __init__(
        self,
        client: CommitsShares,
        stats: ProduceStats,
        *,
        settle: Settle,
        ended: Callable[[CutFile], None],
        failed: Callable[[str], None],
        rng: random.Random,
        uploader_id: int,
    ) -> None:
        """`ended` is told of a file when all its shares are decided, `failed` of attempts that ended in an unexpected way."""
        self._client = client
        self._stats = stats
        self._settle = settle
        self._ended = ended
        self._failed = failed
        self._rng = rng
        self._uploader_id = uploader_id
        self._lost = LostBatches()
        self._queues: dict[int, deque[CutFile]] = {}
        self._newest: dict[bytes, _Turn] = {}
        """The share in which each partition came last, while it is not decided."""
        self._ready: set[CutFile] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def enter(self, file: CutFile) -> None:
        """Take a file's place in the order, before it is uploaded."""
        for coordinator in file.owner_ids:
            self._queues.setdefault(coordinator, deque()).append(file)
        for key, coordinator in zip(file.load.rows["topic_partition"].tolist(), file.load.coordinators.tolist(), strict=True):
            before, turn = self._newest.get(key), file.turns[coordinator]
            if before is not turn:
                if before is not None and before.coordinator != coordinator:
                    file.behind.setdefault(coordinator, []).append(before)
                self._newest[key] = turn
                turn.keys.append(key)

    def uploaded(self, file: CutFile) -> None:
        """The file may be committed when it is its turn."""
        self._ready.add(file)
        self._go(file)

    def has_turn(self, file: CutFile, coordinator: int) -> bool:
        """Whether all is decided that has to be before a share: those of earlier files, also elsewhere if its partitions were there."""
        return self._queues[coordinator][0] is file and all(turn.is_decided for turn in file.behind.get(coordinator, ()))

    def drop(self, file: CutFile) -> None:
        """The file will never be committed: later ones need not wait for it."""
        self._lost.lose(file.load.rows, asyncio.get_running_loop().time())
        followers: list[CutFile] = []
        for coordinator in file.owner_ids:
            followers += self._take_out(file, coordinator)
        self._go_all(followers)

    async def close(self) -> None:
        """Give up what has no outcome."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take_out(self, file: CutFile, coordinator: int) -> list[CutFile]:
        """A share needs no turn any more; returns the files that may have theirs."""
        queue = self._queues[coordinator]
        queue.remove(file)
        turn = file.turns[coordinator]
        turn.is_decided = True
        for key in turn.keys:
            if self._newest.get(key) is turn:
                del self._newest[key]
        if not queue:
            del self._queues[coordinator]
        waiting = [other[0] for other in self._queues.values() if other[0].behind]
        return [*([queue[0]] if queue else []), *waiting]

    def _go_all(self, files: list[CutFile]) -> None:
        for file in dict.fromkeys(files):
            if file in self._ready:
                self._go(file)

    def _go(self, file: CutFile) -> None:
        """Send the shares of a file whose turn it is."""
        turns = [coordinator for coordinator in sorted(file.waiting) if self.has_turn(file, coordinator)]
        if turns:
            file.waiting.difference_update(turns)
            task = asyncio.get_running_loop().create_task(self._commit(file, turns), name=f"commit-{file.key}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _commit(self, file: CutFile, coordinators: list[int]) -> None:
        """Commit shares until each has an outcome."""
        is_whole = len(coordinators) == len(file.owner_ids)
        rows = np.arange(len(file.load.rows)) if is_whole else np.flatnonzero(np.isin(file.load.coordinators, coordinators))
        pause_s, timeout_ms = _PAUSE_S, FIRST_TIMEOUT_MS
        rows = self._behind_lost(file, rows)
        while len(rows):
            outcome = await self._attempt(file, rows, timeout_ms)
            timeout_ms = TIMEOUT_MS
            if outcome is not None:
                rows = self._take(file, rows, outcome)
            if not len(rows):
                return
            self._stats.commits_repeated += 1
            await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _behind_lost(self, file: CutFile, rows: Int64s) -> Int64s:
        """Refuse batches whose producers have to repeat an earlier one; return the others."""
        if not self._lost:
            return rows
        missing = self._lost.are_missing(file.load.rows[rows], asyncio.get_running_loop().time())
        if not missing.any():
            return rows
        self._settle(file, rows[missing], outcome_of(file.key, file.owner_ids, refused_rows(int(missing.sum()), _BEHIND_A_LOST_ONE)))
        left = rows[~missing]
        self._decide(file, set(file.load.coordinators[rows].tolist()) - set(file.load.coordinators[left].tolist()))
        return left

    async def _attempt(self, file: CutFile, rows: Int64s, timeout_ms: int) -> CommitOutcome | None:
        load = file.load
        batches = load.rows if len(rows) == len(load.rows) else load.rows[rows]
        try:
            return await self._client.commit_file(
                file.key,
                len(file.data),
                batches,
                owner_ids=file.owner_ids,
                coordinator_ids=file.load.coordinators[rows].tolist(),
                uploader_broker_id=self._uploader_id,
                timeout_ms=timeout_ms,
            )
        except DisklessError as error:
            self._failed(f"commit of {file.key}: {error}")
            return None

    def _take(self, file: CutFile, rows: Int64s, outcome: CommitOutcome) -> Int64s:
        """Settle what has an outcome; return the batches to commit again."""
        if outcome.is_ok:
            file.accepted += len(rows)
            self._settle(file, rows, outcome)
            self._decide(file, set(file.load.coordinators[rows].tolist()))
            return rows[:0]
        codes = outcome.error_codes.astype(np.int64)
        coordinators = file.load.coordinators[rows]
        is_undecided = are_undecided(codes)
        open_ids = np.unique(coordinators[is_undecided])
        is_open = np.isin(coordinators, open_ids)
        # Partitions that are not there, or not yet, keep their coordinator from deciding the share: it goes without them.
        is_refused = is_open & are_not_here(codes)
        is_settled = ~is_open | is_refused
        if is_settled.any():
            places = np.flatnonzero(is_settled)
            # Where a partition is by now, a later batch of the producer would come before these.
            elsewhere = rows[is_settled & are_not_here(codes)]
            if len(elsewhere):
                self._lost.lose(file.load.rows[elsewhere], asyncio.get_running_loop().time())
            file.accepted += int((codes[places] == ErrorCode.NONE).sum())
            self._settle(file, rows[places], outcome if is_settled.all() else _only(outcome, places))
        left = rows[~is_settled]
        self._decide(file, set(coordinators.tolist()) - set(file.load.coordinators[left].tolist()))
        return left

    def _decide(self, file: CutFile, decided: set[int]) -> None:
        """Shares have outcomes: the next file's may go."""
        followers: list[CutFile] = []
        for coordinator in sorted(decided):
            followers += self._take_out(file, coordinator)
        if all(turn.is_decided for turn in file.turns.values()):
            self._ready.discard(file)
            self._ended(file)
        self._go_all(followers)


def _only(outcome: CommitOutcome, places: Int64s) -> CommitOutcome:
    """Some rows of an outcome."""
    messages = {row: outcome.messages[place] for row, place in enumerate(places.tolist()) if place in outcome.messages}
    return replace(
        outcome,
        error_codes=outcome.error_codes[places],
        base_offsets=outcome.base_offsets[places],
        append_times_ms=outcome.append_times_ms[places],
        log_start_offsets=outcome.log_start_offsets[places],
        duplicates=outcome.duplicates[places],
        messages=messages,
    )
