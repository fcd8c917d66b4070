"""The slow path of a scan: entries that are looked at one by one, because they hold more than files or are of a transaction.

What it finds goes to the same books as what the fast path finds. Nothing throws: an entry that cannot be decoded, or whose records
are no lawful composition, contradicts the log, and is void for every replica; one of a schema that this version does not know
is left out, and nothing is known of later ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from records.codec import UndecodableEntry, UnknownSchema, UnreadableEntry, decode_entry, encode_entry
from records.committed_files.codec import FileCommitted
from records.log import BrokenRule, OpenTransaction, Role, Verdict, begun_by, composition_fault, role_of, undecodable
from records.model import (
    FeatureLevelSet,
    NoOp,
    ProducersExpired,
    Record,
    RecordsDeleted,
    SnapshotCommitted,
    SnapshotMark,
    TopicDeleted,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)
from spark_jobs.contradiction import stops_replicas
from spark_jobs.migration import MigrationStep
from spark_jobs.moves import MoveStep
from spark_jobs.scan.audit import Audit
from spark_jobs.scan.columns import FilePlace, Int64s, ScannedFiles
from spark_jobs.scan.entries import Piece
from spark_jobs.scan.force import Force, Verdicts
from spark_jobs.scan.head import NOT_SAID, HeldEntry, HeldTransaction
from spark_jobs.scan.levels import Levels
from spark_jobs.scan.summary import EventRow, FindingRow, RestartRow
from spark_jobs.scan.transaction import ENTRIES_MAX, Transaction


class _Contradictory(Exception):
    """An entry is void; so is its transaction."""

    def __init__(self, finding: FindingRow) -> None:
        super().__init__(finding.message)
        self.finding = finding


@dataclass(slots=True)
class Applied:
    """The effects of entries that are not decoded together: files, and steps that cut chains. `void` are entries by index."""

    files: list[tuple[FilePlace, FileCommitted]] = field(default_factory=list)
    cuts: list[tuple[int, Record | None]] = field(default_factory=list)
    void: list[int] = field(default_factory=list)


class SlowPath:
    """See the module's text. All that it is given is shared with the scan, and changed in place.

    `void` names entries that contradict the state, as the store found out, by offset.
    """

    def __init__(
        self,
        kpart: int,
        force: Force,
        transaction: Transaction,
        levels: Levels,
        audit: Audit,
        counts: Counter[str],
        events: list[EventRow | RestartRow],
        void: Mapping[int, FindingRow],
        stopped_at: int | None,
    ) -> None:
        self._kpart = kpart
        self._force = force
        self._transaction = transaction
        self._levels = levels
        self._audit = audit
        self._counts = counts
        self._events = events
        self._void = void
        self.stopped_at = stopped_at

    def apply(self, piece: Piece, rest: Int64s, verdicts: Verdicts, files: ScannedFiles) -> tuple[Applied, npt.NDArray[np.int64] | None]:
        """Apply the other entries one by one; also returns which files count, if not all do: those of no transaction and not void."""
        applied = Applied()
        file_of = dict(zip(files.at.tolist(), range(len(files)), strict=True))
        left_out: set[int] = set()
        todo = rest.tolist()
        if self._void or self._transaction.holds or any(self._begins(piece, index) for index in todo):
            todo = verdicts.counts.nonzero()[0].tolist()
        for index in todo:
            at = int(piece.at[index])
            if at in file_of:
                if not self._transaction.holds and int(piece.offsets[index]) not in self._void:
                    continue
                left_out.add(file_of[at])
            self._apply_entry(piece, index, verdicts, applied)
        if not left_out:
            return applied, None
        return applied, np.array([file for file in range(len(files)) if file not in left_out], np.int64)

    @staticmethod
    def _begins(piece: Piece, index: int) -> bool:
        """Whether an entry opens a transaction, so that what follows must be looked at one by one."""
        try:
            records = decode_entry(piece.value(index) or b"")
        except UnreadableEntry:
            return False
        return len(records) == 1 and isinstance(records[0], TransactionBegan)

    def _apply_entry(self, piece: Piece, index: int, verdicts: Verdicts, applied: Applied) -> None:
        offset, at = int(piece.offsets[index]), int(piece.at[index])
        if index in verdicts.claims:
            self._never_ended(self._transaction.end(), offset, "was cut off by a claim; its client has to ask again")
        elif index in verdicts.adopted:
            self._never_ended(self._transaction.end(), offset, "is of another term than the one that is taken to be in force now")
        entry = HeldEntry(offset, int(piece.append_ms[index]), piece.value(index) or b"")
        try:
            if offset in self._void:
                raise _Contradictory(self._void[offset])
            self._apply_lawful(entry, at, applied, is_beginning=index in verdicts.claims or (verdicts.is_restored and index == 0))
        except UnknownSchema as error:
            self._skip_unknown(entry, at, error, applied)
        except UndecodableEntry as error:
            self._audit.quarantine(offset, str(error), entry.value)
            self._pass_over(FindingRow.of(self._kpart, offset, undecodable(error)), offset)
            applied.void.append(index)
        except _Contradictory as contradictory:
            self._pass_over(contradictory.finding, offset)
            applied.void.append(index)

    def _pass_over(self, finding: FindingRow, offset: int) -> None:
        """The entry is void, and the transaction that is open."""
        self._audit.find(finding)
        self._force.void[Verdict.VOID_CONTRADICTION.value] += 1
        self._never_ended(self._transaction.end(), offset, "is void together with this entry")

    def _skip_unknown(self, entry: HeldEntry, at: int, error: UnknownSchema, applied: Applied) -> None:
        """An entry of a newer version may have changed any part of the state."""
        self._audit.quarantine(entry.offset, str(error), entry.value)
        self._stop(entry.offset, f"its schema is not known: {error}")
        self._never_ended(self._transaction.end(), entry.offset, "holds an entry of a schema that is not known")
        applied.cuts.append((at, None))
        self._events.append(RestartRow(self._kpart, at, entry.offset))

    def _stop(self, offset: int, why: str) -> None:
        """Replicas stop at their first such entry, so it is reported once."""
        if self.stopped_at is None:
            self.stopped_at = offset
            message = f"replicas of this version stop here: {why}"
            self._audit.find(FindingRow(self._kpart, offset, "replica-stops", message))

    def _apply_lawful(self, entry: HeldEntry, at: int, applied: Applied, *, is_beginning: bool) -> None:
        """Apply an entry, or hold it; `is_beginning`: of a term, or of a restored log.

        Raises `_Contradictory` and a decoder's error before anything changed.
        """
        records = decode_entry(entry.value)
        if is_beginning:
            self._apply_records(records, entry, at, applied)
            return
        if self._transaction.is_released and self._ends_released(records):
            return
        opened = self._transaction.opened
        role = role_of(records, entry.offset, opened, may_have_begun=self._force.is_adopted)
        match role:
            case BrokenRule():
                raise _Contradictory(FindingRow.of(self._kpart, entry.offset, role))
            case Role.ALONE:
                self._apply_records(records, entry, at, applied)
            case Role.CHUNK:
                self._take_chunk(records, entry, at, applied)
            case Role.BEGINS:
                self._transaction.begin(begun_by(records, entry.offset), entry.append_ms)
            case Role.ENDS if opened is not None:
                self._end_transaction(opened, entry.offset, at, applied)
            case Role.ABORTS:
                [mark] = records
                assert isinstance(mark, TransactionAborted)
                self._never_ended(self._transaction.end(), entry.offset, f"was aborted: {mark.reason}")
            case _:
                self._audit.note(entry.offset, "a transaction ends that never began, as far as this log was read")
        if role not in (Role.ALONE, Role.CHUNK):
            self._counts[f"record.{type(records[0]).__name__}"] += 1

    def _ends_released(self, records: Sequence[Record]) -> bool:
        """Close a transaction that was too large to be held, whatever its end says: its entries are not counted any more."""
        match records:
            case [TransactionEnded() as mark]:
                self._transaction.end()
                self._counts[f"record.{type(mark).__name__}"] += 1
                return True
        return False

    def _apply_held(self, entries: Sequence[HeldEntry], at: int, applied: Applied) -> int:
        """Apply entries of a transaction at the step of another entry; returns the step after them."""
        for entry in entries:
            at = self._apply_records(decode_entry(entry.value), entry, at, applied)
        return at

    def _apply_records(self, records: Sequence[Record], entry: HeldEntry, at: int, applied: Applied) -> int:
        for record in records:
            why = stops_replicas(record)
            if why is not None:
                self._stop(entry.offset, why)
            match record:
                case FileCommitted():
                    applied.files.append((FilePlace(at, entry.offset, entry.append_ms, 0), record))
                    at += 1
                    continue
                case record if isinstance(record, RecordsDeleted | TopicDeleted | ProducersExpired | MigrationStep | MoveStep):
                    applied.cuts.append((at, record))
                    self._event(record, entry, at)
                case SnapshotCommitted():
                    self._check_snapshot(record, entry.offset)
                    self._event(record, entry, at)
                case FeatureLevelSet():
                    self._levels.raise_to(record.level, entry.offset)
                    self._event(record, entry, at)
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

    def _take_chunk(self, records: Sequence[Record], entry: HeldEntry, at: int, applied: Applied) -> None:
        if self._transaction.is_released:
            fault = composition_fault(records, in_transaction=True)
            if fault is not None:
                raise _Contradictory(FindingRow.of(self._kpart, entry.offset, fault))
            self._apply_records(records, entry, at, applied)
            return
        if self._transaction.hold(entry):
            return
        opened = self._transaction.opened
        message = f"transaction {opened.name if opened else ''!r} has more than {ENTRIES_MAX} entries; they count before its end"
        self._audit.find(FindingRow(self._kpart, entry.offset, "transaction-too-large", message))
        self._apply_held(self._transaction.release(), at, applied)

    def _end_transaction(self, opened: OpenTransaction[HeldEntry], offset: int, at: int, applied: Applied) -> None:
        for entry in opened.chunks:
            fault = composition_fault(decode_entry(entry.value), in_transaction=True)
            if fault is not None:
                raise _Contradictory(FindingRow.of(self._kpart, entry.offset, fault))
        found = len(opened.chunks)
        if opened.num_chunks not in (NOT_SAID, found):
            message = f"transaction {opened.name!r} of offset {opened.offset} has {found} entries, its beginning says {opened.num_chunks}"
            self._audit.find(FindingRow(self._kpart, offset, "transaction-chunks", message, expected=opened.num_chunks, found=found))
        self._transaction.end()
        self._apply_held(opened.chunks, at, applied)

    def _never_ended(self, held: HeldTransaction | None, offset: int, why: str) -> None:
        """An operator may want to know of a transaction that never ended; a leader that fails in the middle is no fault of the log."""
        if held is None:
            return
        outcome = "nothing of it counts"
        if held.is_applied:
            outcome = "the monitor has counted entries of it, because it was too large to be held"
        self._audit.note(offset, f"transaction {held.opened.name!r} of offset {held.opened.offset} {why}: {outcome}")
