"""The life of the WAL files: live, waiting (for another owner), deletable, removed, fenced.

A file is live while it has live batches in its owner's partition of the metadata topic. Then it is the turn of its owners one
after the other: each hands it over to the next, the last one deletes it. Rows of the same key in several partitions are one
object; which of them has its turn follows from the hand-overs. Each row is judged by its own partition's log alone, apart from
the turn, because partitions are read at different speeds. Files that are gone stay as long as their tombstones in the log: their
keys may not be committed again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from records.file_owners import in_turn
from records.model import FilesFenced, FilesHandedOver, FilesRemoved, TombstonesExpired
from spark_jobs.contradiction import live_conflict
from spark_jobs.scan.blocks import file_number
from spark_jobs.scan.summary import EventRow, FindingRow, ScannedFileRow
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.findings import ContradictedError, Findings
from spark_jobs.store.run_blocks import Loss
from spark_jobs.store.statements import insert_new, marks

LIVE, WAITING, DELETABLE, REMOVED, FENCED = "live", "waiting", "deletable", "removed", "fenced"

NEVER_CREATED_MS = -1
"""Stands for the time of creation of a key whose file was never seen."""

FILE_COLUMNS = (
    "file_number", "kpart", "object_key", "entry_offset", "append_ms", "uploader", "file_bytes", "batches", "live_batches", "live_bytes",
    "owners", "state", "state_since_ms", "created_ms",
)  # fmt: skip
_INSERT = insert_new("file", *FILE_COLUMNS)
_BY_KEY = "select file_number, entry_offset, owners, next_owner, state, live_batches from file where kpart = ? and object_key = ?"
_LOSE = "update file set live_batches = live_batches - ?, live_bytes = live_bytes - ? where file_number = ?"
_SET_STATE = "update file set state = ?, state_since_ms = ? where file_number = ?"
_SET_CREATED = "update file set created_ms = ? where file_number = ?"
# Keys that were never committed here have numbers below zero.
INSERT_TOMBSTONE = """insert into file (file_number, kpart, object_key, entry_offset, append_ms, file_bytes, batches, live_batches,
    live_bytes, owners, state, state_since_ms, created_ms)
    values ((select coalesce(min(file_number), 0) - 1 from file where file_number < 0), ?,?,?,?,0,0,0,0,'[]',?,?,?)"""
_EXPIRE = """delete from file where kpart = ? and created_ms >= 0 and created_ms < ?
    and (state in ('removed', 'fenced') or state = 'waiting' and next_owner is not null)"""

FileEvent = FilesFenced | FilesHandedOver | FilesRemoved | TombstonesExpired


class FileMerge:
    """The files of one partition of the metadata topic while a micro-batch is merged."""

    def __init__(self, db: StoreConnection, kpart: int, rows: Sequence[ScannedFileRow], findings: Findings) -> None:
        self._db = db
        self._kpart = kpart
        self._rows = rows
        self._taken = 0
        self._findings = findings

    def take_until(self, at: int) -> None:
        """Insert the files of steps before one."""
        start, rows = self._taken, self._rows
        stop = len(rows)
        if rows and rows[-1].at >= at:
            stop = next(place for place in range(start, len(rows)) if rows[place].at >= at)
        if stop > start:
            self._insert(rows[start:stop])
            self._taken = stop

    def take_all(self) -> None:
        """Insert all files that are left."""
        if self._taken < len(self._rows):
            self._insert(self._rows[self._taken :])
            self._taken = len(self._rows)

    def _insert(self, rows: Sequence[ScannedFileRow]) -> None:
        cursor = self._db.executemany(_INSERT, map(_values, rows))
        if cursor.rowcount != len(rows):
            self._find_repeated(rows)
        for row in rows:
            if not row.batches and row.owners.count(","):
                self.settle(row.object_key, row.append_ms)

    def _find_repeated(self, rows: Sequence[ScannedFileRow]) -> None:
        for row in rows:
            known = self._db.execute(_BY_KEY, (row.kpart, row.object_key)).fetchone()
            if known is None or known[0] == _number(row):
                continue
            offset, state = known[1], known[4]
            if state in (LIVE, DELETABLE, WAITING) and known[3] is None:
                rule, message = "file-committed-twice", f"file {row.object_key} was committed at offset {offset} before"
            else:
                rule, message = (
                    "file-committed-after-fence",
                    f"file {row.object_key} was {state} at offset {offset}, it must not be committed",
                )
            raise ContradictedError(FindingRow(self._kpart, row.offset, rule, message, object_key=row.object_key, expected=offset))

    def _refuse_live(self, rule: str, key: str, state: str, live: int, row: EventRow) -> None:
        """An owner may let go of a file only when it has no live batches here."""
        conflict = live_conflict(rule, key, live) if state == LIVE else None
        if conflict is not None:
            raise ContradictedError(FindingRow.of(self._kpart, row.offset, conflict, object_key=key))

    def _find(self, offset: int, rule: str, message: str, key: str, expected: int | None = None, found: int | None = None) -> None:
        self._findings.add(FindingRow(self._kpart, offset, rule, message, object_key=key, expected=expected, found=found))

    # ---- batches that die

    def lose(self, losses: Sequence[Loss]) -> None:
        """Count dead batches out of their files; the files must be there."""
        self._db.executemany(_LOSE, [(loss.batches, loss.size_bytes, loss.file_number) for loss in losses])
        # The last loss of a file is what emptied it.
        last_ms = {loss.file_number: loss.append_ms for loss in losses}
        for number in _empty(self._db, list(last_ms)):
            (key,) = self._db.execute("select object_key from file where file_number = ?", (number,)).fetchone()
            self.settle(key, last_ms[number])

    def settle(self, object_key: str, since_ms: int) -> None:
        """Give an empty file the state that its owners' turns give it."""
        row = self._db.execute(_BY_KEY, (self._kpart, object_key)).fetchone()
        if row is None:
            return
        number, _, owners_text, next_owner, state, live = row
        if state not in (LIVE, WAITING, DELETABLE) or live > 0:
            return
        owners = in_turn(object_key, json.loads(owners_text))
        is_last = not owners or owners[-1] == self._kpart
        has_turn = len(owners) <= 1 or owners[0] == self._kpart or self._was_handed(object_key, owners)
        wanted = DELETABLE if is_last and has_turn and next_owner is None else WAITING
        if wanted != state:
            self._db.execute(_SET_STATE, (wanted, since_ms, number))

    def _was_handed(self, object_key: str, owners: Iterable[int]) -> bool:
        others = [(owner, object_key, self._kpart) for owner in owners if owner != self._kpart]
        query = "select 1 from file where kpart = ? and object_key = ? and next_owner = ?"
        return any(self._db.execute(query, other).fetchone() is not None for other in others)

    def _is_removed(self, object_key: str, owners: Iterable[int]) -> bool:
        query = "select 1 from file where kpart = ? and object_key = ? and state = 'removed'"
        return any(self._db.execute(query, (owner, object_key)).fetchone() is not None for owner in owners)

    # ---- events

    def apply(self, record: FileEvent, row: EventRow) -> None:
        """Apply a record about files; those committed before it must be there, and deleted batches subtracted."""
        match record:
            case FilesFenced():
                for key, created_ms in zip(record.object_keys, record.created_ms, strict=True):
                    self._fence(key, created_ms, row)
            case FilesHandedOver():
                for key, next_owner_id in zip(record.object_keys, record.next_owner_ids, strict=True):
                    self._hand_over(key, next_owner_id, row)
            case FilesRemoved():
                for key in record.object_keys:
                    self._remove(key, row)
            case TombstonesExpired():
                self._db.execute(_EXPIRE, (self._kpart, record.keys_before_ms))

    def _fence(self, key: str, created_ms: int, row: EventRow) -> None:
        known = self._db.execute(_BY_KEY, (self._kpart, key)).fetchone()
        if known is None:
            self._db.execute(INSERT_TOMBSTONE, (self._kpart, key, row.offset, row.append_ms, FENCED, row.append_ms, created_ms))
            return
        if known[5] > 0 and known[4] == LIVE:
            self._find(row.offset, "live-file-fenced", f"file {key} has {known[5]} live batches", key, 0, known[5])
        self._db.execute(_SET_STATE, (FENCED, row.append_ms, known[0]))
        self._db.execute(_SET_CREATED, (created_ms, known[0]))

    def _hand_over(self, key: str, next_owner_id: int, row: EventRow) -> None:
        known = self._db.execute(_BY_KEY, (self._kpart, key)).fetchone()
        if known is None:
            self._bury(key, row)
        else:
            self._refuse_live("live-file-handed-over", key, known[4], known[5], row)
            self._bury_again(known[0], known[4])
            self._db.execute("update file set next_owner = ? where file_number = ?", (next_owner_id, known[0]))
            if known[4] not in (REMOVED, FENCED):
                # The last owner's partition may have been read further than this one.
                is_removed = self._is_removed(key, json.loads(known[2]))
                self._db.execute(_SET_STATE, (REMOVED if is_removed else WAITING, row.append_ms, known[0]))
        FileMerge(self._db, next_owner_id, (), self._findings).settle(key, row.append_ms)

    def _bury(self, key: str, row: EventRow) -> None:
        """A key that was never committed is also known as gone, for good: it has no time of creation."""
        self._db.execute(INSERT_TOMBSTONE, (self._kpart, key, row.offset, row.append_ms, REMOVED, row.append_ms, NEVER_CREATED_MS))

    def _bury_again(self, number: int, state: str) -> None:
        """The tombstone of a key that was gone already says nothing of its creation."""
        if state in (REMOVED, FENCED):
            self._db.execute(_SET_CREATED, (NEVER_CREATED_MS, number))

    def _remove(self, key: str, row: EventRow) -> None:
        known = self._db.execute(_BY_KEY, (self._kpart, key)).fetchone()
        if known is None:
            self._bury(key, row)
            return
        self._refuse_live("live-file-removed", key, known[4], known[5], row)
        self._bury_again(known[0], known[4])
        self._db.execute(_SET_STATE, (REMOVED, row.append_ms, known[0]))
        for owner in json.loads(known[2]):
            if owner != self._kpart:
                query = "update file set state = 'removed', state_since_ms = ? where kpart = ? and object_key = ? and state = 'waiting'"
                self._db.execute(query, (row.append_ms, owner, key))


def _number(row: ScannedFileRow) -> int:
    return file_number(row.kpart, row.offset, row.number)


def _values(row: ScannedFileRow) -> tuple[object, ...]:
    state = LIVE if row.batches else WAITING if row.owners.count(",") else DELETABLE
    return (
        _number(row), row.kpart, row.object_key, row.offset, row.append_ms, row.uploader, row.file_bytes, row.batches, row.batches,
        row.size_bytes, row.owners, state, row.append_ms, row.created_ms,
    )  # fmt: skip


def _empty(db: StoreConnection, numbers: Sequence[int]) -> list[int]:
    """Return the files among `numbers` that have no live batches and are not marked as empty yet."""
    found: list[int] = []
    for start in range(0, len(numbers), 500):
        some = numbers[start : start + 500]
        query = f"select file_number from file where file_number in ({marks(some)}) and live_batches <= 0 and state = 'live'"
        found += [number for (number,) in db.execute(query, some)]
    return found
