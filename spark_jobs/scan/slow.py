"""The slow path of a scan: entries that are looked at one by one, because they hold more than files or are of a transaction.

What it finds goes to the same books as what the fast path finds. Nothing throws: what cannot be read is quarantined.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from records.codec import UnreadableEntry, decode_entry, encode_entry
from records.model import (
    DisklessLogInitialized,
    DisklessLogReset,
    FileCommitted,
    LeadershipClaimed,
    NoOp,
    ProducersExpired,
    Record,
    RecordsDeleted,
    Restored,
    SnapshotCommitted,
    SnapshotMark,
    TopicDeleted,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)
from spark_jobs.scan.audit import Audit
from spark_jobs.scan.blocks import FILES_PER_ENTRY_MAX
from spark_jobs.scan.columns import FileColumns, Int64s, Place
from spark_jobs.scan.entries import Piece
from spark_jobs.scan.force import Force, Verdicts
from spark_jobs.scan.head import NOT_SAID, HeldEntry, OpenTransaction
from spark_jobs.scan.summary import EventRow, FindingRow, RestartRow
from spark_jobs.scan.transaction import ENTRIES_MAX, Transaction

NOTHING = encode_entry([])
"""Held in the place of an entry that cannot be read."""

Mark = TransactionBegan | TransactionEnded | TransactionAborted
"""What stands alone in its entry and says what becomes of those around it."""


class UnusableEntryError(Exception):
    """An entry that could be decoded, but must not be."""


@dataclass(slots=True)
class Applied:
    """What the entries that are not decoded together do: files, and steps that cut chains."""

    files: list[tuple[Place, FileCommitted]]
    cuts: list[tuple[int, Record]]


class SlowPath:
    """See the module's text. All that it is given is shared with the scan, and changed in place."""

    def __init__(
        self,
        kpart: int,
        force: Force,
        transaction: Transaction,
        audit: Audit,
        counts: Counter[str],
        events: list[EventRow | RestartRow],
    ) -> None:
        self._kpart = kpart
        self._force = force
        self._transaction = transaction
        self._audit = audit
        self._counts = counts
        self._events = events

    def apply(self, piece: Piece, rest: Int64s, verdicts: Verdicts, files: FileColumns) -> tuple[Applied, npt.NDArray[np.int64] | None]:
        """Apply the other entries one by one; also returns which files count, if not all do: those of no transaction."""
        applied = Applied([], [])
        file_of = dict(zip(files.at.tolist(), range(len(files)), strict=True))
        held: set[int] = set()
        todo = rest.tolist()
        if self._transaction.holds or any(self._begins(piece, index) for index in todo):
            todo = verdicts.counts.nonzero()[0].tolist()
        for index in todo:
            at = int(piece.at[index])
            if at in file_of and not self._transaction.holds:
                continue
            if at in file_of:
                held.add(file_of[at])
            self._apply_entry(piece, index, verdicts, applied)
        if not held:
            return applied, None
        return applied, np.array([file for file in range(len(files)) if file not in held], np.int64)

    @staticmethod
    def _begins(piece: Piece, index: int) -> bool:
        """Whether an entry opens a transaction, so that what follows must be looked at one by one."""
        try:
            records = decode_entry(piece.value(index) or b"")
        except UnreadableEntry:
            return False
        return len(records) == 1 and isinstance(records[0], TransactionBegan)

    def _apply_entry(self, piece: Piece, index: int, verdicts: Verdicts, applied: Applied) -> None:
        offset, append_ms, at = int(piece.offsets[index]), int(piece.append_ms[index]), int(piece.at[index])
        value = piece.value(index)
        if index in verdicts.claims:
            self._never_ended(self._transaction.end(), offset, "was cut off by a claim, and whoever asked for it has to ask again")
        elif index in verdicts.adopted:
            self._never_ended(self._transaction.end(), offset, "is of another term than the one that is taken to be in force now")
        try:
            if value is None:
                raise UnusableEntryError("a tombstone in the term in force")
            records = decode_entry(value)
            files = sum(isinstance(record, FileCommitted) for record in records)
            if files > FILES_PER_ENTRY_MAX:
                raise UnusableEntryError(f"{files} files in one entry, at most {FILES_PER_ENTRY_MAX} are read")
        except (UnreadableEntry, UnusableEntryError) as error:
            self._audit.quarantine(offset, str(error), value or b"")
            # It is one of the entries of its transaction all the same.
            records, value = [], NOTHING
        entry = HeldEntry(offset, append_ms, value)
        match records:
            case [TransactionBegan() | TransactionEnded() | TransactionAborted() as mark]:
                self._counts[f"record.{type(mark).__name__}"] += 1
                self._take_mark(mark, entry, at, applied)
            case _ if self._transaction.holds:
                self._hold(entry, at, applied)
            case _:
                self._apply_records(records, entry, at, applied, is_claim=index in verdicts.claims)

    def _apply_held(self, entries: Sequence[HeldEntry], at: int, applied: Applied) -> int:
        """Apply entries of a transaction at the step of another entry; returns the step after them."""
        for entry in entries:
            at = self._apply_records(decode_entry(entry.value), entry, at, applied)
        return at

    def _apply_records(self, records: Sequence[Record], entry: HeldEntry, at: int, applied: Applied, *, is_claim: bool = False) -> int:
        index = 0
        for record in records:
            match record:
                case FileCommitted():
                    applied.files.append((Place(at, entry.offset, entry.append_ms, index), record))
                    index += 1
                    at += 1
                    continue
                case TransactionBegan() | TransactionEnded():
                    message = f"a {type(record).__name__} stands among other records"
                    self._audit.find(FindingRow(self._kpart, entry.offset, "misplaced-transaction", message))
                case RecordsDeleted() | DisklessLogInitialized() | DisklessLogReset() | TopicDeleted() | ProducersExpired():
                    applied.cuts.append((at, record))
                    self._event(record, entry, at)
                case Restored():
                    self._force.epoch_floor = max(self._force.epoch_floor, record.epoch_floor)
                    self._event(record, entry, at)
                case SnapshotCommitted():
                    self._check_snapshot(record, entry.offset)
                    self._event(record, entry, at)
                case LeadershipClaimed() if not is_claim:
                    message = "a claim inside an entry of a term is none"
                    self._audit.find(FindingRow(self._kpart, entry.offset, "misplaced-claim", message))
                case NoOp() | SnapshotMark() | TransactionAborted():
                    pass
                case _:
                    self._event(record, entry, at)
            self._counts[f"record.{type(record).__name__}"] += 1
            at += 1
        return at

    def _event(self, record: Record, entry: HeldEntry, at: int) -> None:
        self._events.append(EventRow(self._kpart, at, entry.offset, entry.append_ms, encode_entry([record])))

    def _check_snapshot(self, record: SnapshotCommitted, offset: int) -> None:
        if record.end_offset > offset:
            message = f"snapshot {record.location} ends at offset {record.end_offset}, which is not before its own entry"
            self._audit.find(FindingRow(self._kpart, offset, "snapshot-beyond-log", message, expected=offset, found=record.end_offset))
        epoch = self._force.epoch or 0
        if record.epoch > epoch and not self._force.is_adopted:
            message = f"snapshot {record.location} names epoch {record.epoch}, epoch {epoch} is in force"
            self._audit.find(FindingRow(self._kpart, offset, "epoch-regression", message, expected=epoch, found=record.epoch))

    # ---- transactions

    def _take_mark(self, mark: Mark, entry: HeldEntry, at: int, applied: Applied) -> None:
        match mark:
            case TransactionBegan():
                before = self._transaction.begin(mark.name, mark.num_chunks, entry.offset, entry.append_ms)
                if before is not None:
                    message = f"transaction {mark.name!r} begins inside transaction {before.name!r} of offset {before.offset}"
                    row = FindingRow(self._kpart, entry.offset, "transaction-unclosed", message, expected=before.offset, found=entry.offset)
                    self._audit.find(row)
            case TransactionEnded():
                self._end_transaction(mark, entry.offset, at, applied)
            case TransactionAborted():
                # A new leader's note on what its claim cut off comes when nothing is open any more.
                self._never_ended(self._transaction.end(), entry.offset, f"was aborted: {mark.reason}")

    def _hold(self, entry: HeldEntry, at: int, applied: Applied) -> None:
        if self._transaction.hold(entry):
            return
        opened = self._transaction.opened
        message = f"transaction {opened.name if opened else ''!r} has more than {ENTRIES_MAX} entries; they count before its end"
        self._audit.find(FindingRow(self._kpart, entry.offset, "transaction-too-large", message))
        self._apply_held(self._transaction.release(), at, applied)

    def _end_transaction(self, record: TransactionEnded, offset: int, at: int, applied: Applied) -> None:
        opened = self._transaction.end()
        if opened is None:
            message = "a transaction ends that never began"
            if self._force.is_adopted:
                self._audit.note(offset, f"{message}, as far as this log was read")
            else:
                self._audit.find(FindingRow(self._kpart, offset, "transaction-unopened", message))
            return
        if opened.is_applied:
            return
        found = len(opened.entries)
        said = [record.num_chunks] if opened.num_chunks == NOT_SAID else [record.num_chunks, opened.num_chunks]
        wrong = [number for number in said if number != found]
        if wrong:
            message = f"transaction {opened.name!r} of offset {opened.offset} ends after another number of entries than it says"
            self._audit.find(FindingRow(self._kpart, offset, "transaction-chunks", message, expected=wrong[0], found=found))
        self._apply_held(opened.entries, at, applied)

    def _never_ended(self, opened: OpenTransaction | None, offset: int, why: str) -> None:
        """An operator may want to know of a transaction that never ended; a leader that fails in the middle is no fault of the log."""
        if opened is None:
            return
        outcome = "nothing of it counts"
        if opened.is_applied:
            outcome = "the monitor has counted entries of it, because it was too large to be held"
        self._audit.note(offset, f"transaction {opened.name!r} of offset {opened.offset} {why}: {outcome}")
