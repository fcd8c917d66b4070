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
from spark_jobs.scan.head import HeldEntry, OpenTransaction
from spark_jobs.scan.summary import EventRow, FindingRow, RestartRow
from spark_jobs.scan.transaction import ENTRIES_MAX, Transaction


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
            self._apply_entry(piece, index, verdicts.claims.get(index), applied)
        if not held:
            return applied, None
        return applied, np.array([file for file in range(len(files)) if file not in held], np.int64)

    @staticmethod
    def _begins(piece: Piece, index: int) -> bool:
        """Whether an entry may open a transaction, so that what follows must be looked at one by one."""
        try:
            return any(isinstance(record, TransactionBegan) for record in decode_entry(piece.value(index) or b""))
        except UnreadableEntry:
            return False

    def _apply_entry(self, piece: Piece, index: int, claim: LeadershipClaimed | None, applied: Applied) -> None:
        offset, append_ms, at = int(piece.offsets[index]), int(piece.append_ms[index]), int(piece.at[index])
        value = piece.value(index)
        try:
            if value is None:
                raise UnusableEntryError("a tombstone in the term in force")
            records = decode_entry(value)
            files = sum(isinstance(record, FileCommitted) for record in records)
            if files > FILES_PER_ENTRY_MAX:
                raise UnusableEntryError(f"{files} files in one entry, at most {FILES_PER_ENTRY_MAX} are read")
        except (UnreadableEntry, UnusableEntryError) as error:
            self._audit.quarantine(offset, str(error), value or b"")
            return
        entry = HeldEntry(offset, append_ms, value)
        if claim is not None:
            self._end_by_claim(offset)
        if not self._transaction.holds or any(isinstance(one, TransactionBegan | TransactionEnded) for one in records):
            self._apply_records(records, entry, at, applied, is_claim=claim is not None)
        elif not self._transaction.hold(entry):
            opened = self._transaction.opened
            message = f"transaction {opened.name if opened else ''!r} has more than {ENTRIES_MAX} entries; they count before its end"
            self._audit.find(FindingRow(self._kpart, offset, "transaction-too-large", message))
            self._apply_held(self._transaction.release(), at, applied)

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
                case TransactionBegan():
                    self._unclosed(self._transaction.begin(record.name, entry.offset, entry.append_ms), entry.offset, "another began")
                case TransactionEnded():
                    at = self._end_transaction(record, entry.offset, at, applied)
                case TransactionAborted():
                    self._unclosed(self._transaction.end(), entry.offset, f"it was aborted: {record.reason}", is_wrong=False)
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
                case NoOp() | SnapshotMark():
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

    def _end_transaction(self, record: TransactionEnded, offset: int, at: int, applied: Applied) -> int:
        opened = self._transaction.end()
        if opened is None:
            message = "a transaction ends that never began"
            if self._force.is_adopted:
                self._audit.note(offset, f"{message}, as far as this log was read")
            else:
                self._audit.find(FindingRow(self._kpart, offset, "transaction-unopened", message))
            return at
        if opened.is_applied:
            return at
        if len(opened.entries) != record.num_chunks:
            message = f"transaction {opened.name!r} of offset {opened.offset} ends after another number of entries than it says"
            found = len(opened.entries)
            self._audit.find(FindingRow(self._kpart, offset, "transaction-chunks", message, expected=record.num_chunks, found=found))
        return self._apply_held(opened.entries, at, applied)

    def _end_by_claim(self, offset: int) -> None:
        self._unclosed(self._transaction.end(), offset, "a claim came into force")

    def _unclosed(self, opened: OpenTransaction | None, offset: int, reason: str, *, is_wrong: bool = True) -> None:
        if opened is None:
            return
        message = f"transaction {opened.name!r} of offset {opened.offset} was not closed: {reason}; nothing of it counts"
        if is_wrong:
            self._audit.find(FindingRow(self._kpart, offset, "transaction-unclosed", message, expected=opened.offset, found=offset))
        else:
            self._audit.note(offset, message)
