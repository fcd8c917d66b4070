"""The files of one led coordinator that have no live batches: handed over to their next owner, or their objects deleted.

Decided from the applied state alone. A leader that does not know yet that it was replaced does no harm: a file that became empty stays
empty, owners that are out stay out, and its entries are void. Nothing is asked about a file before it is past `file.commit.max.age.ms`,
so that no honest commit is refused, and before `file.delete.grace.ms` have passed since its last batch went, so that readers find what
they were told of. `FilesRemoved` is logged only for keys that the store confirmed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from coordinator.core.commands import FileStanding, HandOverFiles, Outcome, RemoveFiles
from coordinator.core.files.logged import owner_ids_of
from coordinator.core.reads.file_life import ends_ms
from coordinator.core.tables.stored_rows import EmptyFilesPage, FileRow
from coordinator.core.view import ShardView
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.files.asking import OwnersAsked
from coordinator.runtime.files.objects import ObjectRemover
from coordinator.runtime.files.pace import BackgroundPace
from coordinator.runtime.files.pieces import in_pieces, pieces_of
from coordinator.runtime.files.rules import FileRules
from coordinator.runtime.files.turns import Ask, Delete, HandOver, next_step
from coordinator.runtime.files.walk import Position, Walk
from coordinator.runtime.replica.replica import Replica
from records.file_owners import in_turn

LOG = logging.getLogger("coordinator.files")

ROWS_PER_PIECE = 25
"""Reading rows, and finding out what is next for them, holds the event loop; so many take it for a fraction of a millisecond."""
PIECE_PAUSE_S = 0.001
"""The pause after each piece that was read while commits come, so that they find the event loop free most of the time."""
FILES_AT_ONCE = 4_000
"""Files that are asked about and deleted side by side: no more than the state keeps (`EMPTY_FILES_KEPT_MAX`), and while commits come no
more than go in a second."""
READING_SHARE = 0.1
"""While commits come, so much of the time that a removal is to take passes with reading files, the rest with entries."""
ENTRY_S = 0.02
"""An entry has as many keys as may go in so long."""
KEYS_PER_ENTRY_FREE = 250
"""While no commits come. The first of them may wait for one such entry, a few milliseconds."""
LOG_TIMEOUT_MS = 5_000
LOG_PAUSE_S = (0.002, 0.1)
"""Bounds of the pause after each entry while commits come: as long as the entry was on its way, or longer for the pace."""


class CleanerCounts(NamedTuple):
    """Counts of this node for the files of a coordinator: its work since the process started, and its findings at the last look.

    `waiting` files wait for another owner or for their age, `deletable` ones for the object store. `oldest_empty_ms` is the log's time
    at which the one of them became empty that has been so longest; -1 without one, and where this node does not lead.
    """

    deleted: int = 0
    handed_over: int = 0
    delete_failures: int = 0
    waiting: int = 0
    deletable: int = 0
    oldest_empty_ms: int = -1


@dataclass(slots=True)
class _Met:
    """Files that were looked at; `gone` ones will not be met again. Among those that wait are `unknown` ones: an owner did not answer."""

    gone: int = 0
    unknown: int = 0
    waiting: int = 0
    deletable: int = 0
    oldest_ms: int = -1
    """When the first of those became empty that are not gone, or earlier; -1 when all are gone."""

    def add(self, other: _Met) -> None:
        if other.oldest_ms >= 0:
            self.oldest_ms = other.oldest_ms if self.oldest_ms < 0 else min(self.oldest_ms, other.oldest_ms)
        self.gone += other.gone
        self.unknown += other.unknown
        self.waiting += other.waiting
        self.deletable += other.deletable


class _Open(NamedTuple):
    """A file about which an owner has to be asked; `known` is what other owners have answered."""

    row: FileRow
    owner_ids: Sequence[int]
    known: Mapping[int, FileStanding]


@dataclass(slots=True)
class _Turns:
    """What comes next for files: `questions` are for the owners that have to be asked first, `unknown` counts files without an answer."""

    deletable: list[str] = field(default_factory=list)
    handed: list[tuple[str, int]] = field(default_factory=list)
    """Keys, with the coordinator that each is handed over to."""
    unknown: int = 0
    questions: dict[int, list[_Open]] = field(default_factory=dict)

    def add(self, file: _Open, own_id: int) -> None:
        """Sort a file in; one that waits for another owner is in no list."""
        match next_step(file.owner_ids, own_id, file.known):
            case Ask(owner):
                self.questions.setdefault(owner, []).append(file)
            case HandOver(owner):
                self.handed.append((file.row.object_key, owner))
            case Delete():
                self.deletable.append(file.row.object_key)


class EmptyFiles:
    """See the module's text. `replica` gives the one that is in service now."""

    def __init__(
        self,
        *,
        partition: int,
        replica: Callable[[], Replica],
        asked: OwnersAsked,
        remover: ObjectRemover,
        rules: FileRules,
        pace: BackgroundPace,
        clock_ms: Callable[[], int],
        log_turn: asyncio.Lock,
        on_handed_over: Callable[[int], None],
    ) -> None:
        """`log_turn` is held while an entry is on its way, so that commits come between; `on_handed_over` gets the receivers of files."""
        self._partition = partition
        self._replica = replica
        self._asked = asked
        self._remover = remover
        self._rules = rules
        self._pace = pace
        self._clock_ms = clock_ms
        self._on_handed_over = on_handed_over
        self._deleted = self._handed_over = self._delete_failures = 0
        self._log_turn = log_turn
        self.forget()

    def forget(self) -> None:
        """This node does not lead: the next time begin anew."""
        self._walk = Walk(interval_ms=self._rules.interval_ms, grace_ms=self._rules.delete_grace_ms)
        self._met, self._swept = _Met(), _Met()

    def hurry(self) -> None:
        """A file that has to wait may soon be ours to delete."""
        self._walk.hurry(self._clock_ms())

    @property
    def counts(self) -> CleanerCounts:
        met = self._met
        return CleanerCounts(self._deleted, self._handed_over, self._delete_failures, met.waiting, met.deletable, met.oldest_ms)

    async def look(self) -> bool:
        """Look at files once; returns whether there are more to look at now. Raises `NotReadable`."""
        due_ms = self._log_now_ms() - self._rules.delete_grace_ms
        left = await self._look_at_new(due_ms, self._rules.max_files_per_cycle)
        if left:
            left = await self._look_again(due_ms, left)
        return not left and not self._remover.is_resting

    def _owners_of(self, row: FileRow) -> Sequence[int]:
        """The coordinators that may have live batches of a file, in the order in which they are responsible for it."""
        owners = self._asked.with_linked(owner_ids_of(row.owner_ids), row.created_ms, self._rules.moves_window_ms)
        return in_turn(row.object_key, owners)

    def _log_now_ms(self) -> int:
        """The time as this leader writes it into the log."""
        view = self._replica().view
        return self._clock_ms() - (0 if view is None else view.log_ahead_ms)

    @property
    def _files_at_once(self) -> int:
        return int(min(FILES_AT_ONCE, self._pace.files_per_s))

    @property
    def _keys_per_entry(self) -> int:
        if self._pace.is_free:
            return KEYS_PER_ENTRY_FREE
        least, most = self._pace.rules.keys_per_entry
        return int(min(max(self._pace.files_per_s * ENTRY_S, least), most))

    def _read(self, after: Position, limit: int, before_ms: int) -> EmptyFilesPage:
        return self._replica().look(ShardView.empty_files, before_ms, after, limit)

    async def _page(self, after: Position, limit: int, before_ms: int) -> list[FileRow]:
        """Up to so many files that became empty before a time, read in pieces that leave the event loop to others."""
        rows: list[FileRow] = []
        behind: Position | None = after
        while behind is not None and len(rows) < limit:
            found, behind = self._read(behind, min(ROWS_PER_PIECE, limit - len(rows)), before_ms)
            rows += found
            pause_s = 0.0 if self._pace.is_free else max(PIECE_PAUSE_S, READING_SHARE * ROWS_PER_PIECE / self._pace.files_per_s)
            await asyncio.sleep(pause_s)
        return rows

    async def _look_at_new(self, due_ms: int, left: int) -> int:
        """Look at files that were never looked at; returns how many more may be looked at in this round."""
        while left and not self._remover.is_resting:
            wanted = min(self._files_at_once, left)
            rows = await self._page(self._walk.newest, wanted, due_ms)
            if rows:
                self._met.add(await self._look_at(rows))
                self._walk.saw_new(_position(rows[-1]))
            if len(rows) < wanted:
                return left - len(rows)
            left -= len(rows)
        return left

    async def _look_again(self, due_ms: int, left: int) -> int:
        """Go on with a sweep, if it is time for one; returns how many more files may be looked at in this round."""
        while left and not self._remover.is_resting:
            after = self._walk.sweep_from(self._clock_ms())
            if after is None:
                return left
            wanted = min(self._files_at_once, left)
            page = await self._page(after, wanted, due_ms)
            rows = [row for row in page if _position(row) <= self._walk.newest]
            met = await self._look_at(rows)
            self._swept.add(met)
            is_over = len(rows) < wanted
            self._walk.swept(
                None if is_over else _position(rows[-1]), seen=len(rows), moved=met.gone, unknown=met.unknown, now_ms=self._clock_ms()
            )
            left -= len(rows)
            if is_over:
                self._met, self._swept = self._swept, _Met()
                return left
        return left

    # ---- some files

    async def _look_at(self, rows: Sequence[FileRow]) -> _Met:
        """Do for each file what is its turn, as far as that is possible now."""
        turns = await self._turns(rows)
        removed = await asyncio.gather(*(self._delete(keys) for keys in self._remover.calls_of(turns.deletable)))
        gone = sum(removed)
        met = _Met(gone=gone, unknown=turns.unknown, deletable=len(turns.deletable) - gone)
        for some in pieces_of(turns.handed, self._keys_per_entry):
            met.gone += await self._hand_over(some)
        met.waiting = len(rows) - met.gone - met.deletable
        if met.waiting or met.deletable:
            # The oldest row may be among those that are gone; the next look corrects the time.
            met.oldest_ms = rows[0].emptied_ms
        return met

    async def _turns(self, rows: Sequence[FileRow]) -> _Turns:
        """Ask owners until it is known of each file what comes next, or that an owner does not answer; those that may not end yet wait."""
        turns, own_id = _Turns(), self._partition
        now_ms, rules = self._log_now_ms(), self._rules
        due: list[FileRow] = []
        async for piece in in_pieces(rows, ROWS_PER_PIECE):
            due += [row for row in piece if ends_ms(row, rules.commit_max_age_ms, rules.delete_grace_ms) < now_ms]
        if due and not await self._asked.knows_moves():
            LOG.debug("the directory cannot be read to its end partition=%d", own_id)
            turns.unknown = len(due)
            return turns
        async for piece in in_pieces(due, ROWS_PER_PIECE):
            for row in piece:
                turns.add(_Open(row, self._owners_of(row), {}), own_id)
        while turns.questions:
            questions, turns.questions = turns.questions, {}
            answers = await asyncio.gather(*(self._ask(owner, files) for owner, files in questions.items()))
            for (owner, files), answer in zip(questions.items(), answers, strict=True):
                if isinstance(answer, Outcome):
                    LOG.debug("owner gave no answer partition=%d owner=%d reason=%r", own_id, owner, answer.message)
                    turns.unknown += len(files)
                    continue
                async for answered in in_pieces(list(zip(files, answer, strict=True)), ROWS_PER_PIECE):
                    for file, standing in answered:
                        turns.add(file._replace(known={**file.known, owner: standing}), own_id)
        return turns

    async def _ask(self, owner: int, files: Sequence[_Open]) -> Sequence[FileStanding] | Outcome:
        return await self._asked.ask(owner, [file.row.object_key for file in files], [file.row.created_ms for file in files])

    async def _delete(self, keys: Sequence[str]) -> int:
        """Delete objects and log it; returns how many are."""
        removal = await self._remover.remove(keys)
        self._delete_failures += removal.has_failed
        logged = 0
        for some in pieces_of([key for key in keys if key in removal.gone], self._keys_per_entry):
            logged += self._logged(some, await self._log(RemoveFiles(object_keys=list(some))))
        self._deleted += logged
        return logged

    async def _hand_over(self, files: Sequence[tuple[str, int]]) -> int:
        """Log that later owners are responsible from now on; returns for how many files that was done."""
        keys, owners = [key for key, _ in files], [owner for _, owner in files]
        logged = self._logged(keys, await self._log(HandOverFiles(object_keys=keys, next_owner_ids=owners)))
        self._handed_over += logged
        for owner in set(owners):
            self._on_handed_over(owner)
        return logged

    async def _log(self, command: RemoveFiles | HandOverFiles) -> object:
        """Have an entry written, and pause while commits come; entries of all coordinators of a node take turns."""
        loop = asyncio.get_running_loop()
        async with self._log_turn:
            begun_s = loop.time()
            answer = await self._replica().ask(command, LOG_TIMEOUT_MS)
            if not self._pace.is_free:
                took_s = loop.time() - begun_s
                wanted_s = (1 - READING_SHARE) * len(command.object_keys) / self._pace.files_per_s
                shortest_s, longest_s = LOG_PAUSE_S
                await asyncio.sleep(max(min(max(took_s, shortest_s), longest_s), wanted_s - took_s))
        return answer

    def _logged(self, keys: Sequence[str], answer: object) -> int:
        """How many files an entry took. One that was not logged is met again; one that cannot be is a fault of this node."""
        outcomes = cast(list[Outcome], answer)
        for key, outcome in zip(keys, outcomes, strict=True):
            if outcome.error is ErrorCode.INVALID_REQUEST:
                LOG.error("a file could not be let go partition=%d key=%r reason=%r", self._partition, key, outcome.message)
        return sum(outcome.error is ErrorCode.NONE for outcome in outcomes)


def _position(row: FileRow) -> Position:
    return row.emptied_ms, row.file_id
