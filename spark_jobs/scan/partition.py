"""One ordered pass over the entries of one partition of the metadata topic, from a head on.

    scan = PartitionScan(kpart, head)
    scan.feed(batch)    # Arrow batches in log order: offset, key, value, timestamp_ms
    scan.summary()      # what the store has to take over, as Arrow batches

Whatever the bytes are, nothing throws: what cannot be read is quarantined. What is found never depends on how the log was
cut into Arrow batches or micro-batches. A step number (`at`) orders everything within a pass: entries count by `STEP`,
what several records of an entry do lies in between.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from records.bulk_decode import decode_file_entries
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
from spark_jobs.scan.activity import Activity
from spark_jobs.scan.audit import Audit
from spark_jobs.scan.blocks import FILES_PER_ENTRY_MAX
from spark_jobs.scan.chains import Chains, Cut, runs_of
from spark_jobs.scan.columns import FileColumns, Int64s, Place, columns_of_decoded, columns_of_records, merged
from spark_jobs.scan.entries import Piece, bytes_of, keys_of, numbers_of
from spark_jobs.scan.files import Files, batch_bytes, check_bytes, sane_sizes
from spark_jobs.scan.force import Force, Verdicts
from spark_jobs.scan.garbage import without_collection
from spark_jobs.scan.head import START, Head, HeldEntry, OpenTransaction
from spark_jobs.scan.summary import CountRow, EventRow, FindingRow, HeadRow, HeldRow, RestartRow, SummaryRow, batches_of
from spark_jobs.scan.transaction import ENTRIES_MAX, Transaction

STEP = 1 << 27
"""Steps per entry: more records than any entry and any held transaction has."""


@dataclass(slots=True)
class _Slow:
    """What the entries of a piece that are not decoded together do: files, and steps that cut chains."""

    files: list[tuple[Place, FileCommitted]]
    cuts: list[tuple[int, Record]]


class PartitionScan:
    """See the module's text."""

    def __init__(self, kpart: int, head: Head | None) -> None:
        self._kpart = kpart
        self._is_fresh = head is None
        self._from = head or START
        self._next = self._from.next_offset
        self._force = Force(self._from)
        self._transaction = Transaction(self._from.transaction)
        self._audit = Audit(kpart)
        self._chains = Chains(kpart)
        self._files = Files(kpart)
        self._activity = Activity(kpart)
        self._events: list[EventRow | RestartRow] = []
        self._topic_codes: dict[bytes, int] = {}
        self._counts: Counter[str] = Counter()
        self._entries_read = 0
        self._step = 0
        self._first: int | None = None
        self._append_ms = self._oldest_ms = 0

    # ---- entries

    def feed(self, batch: pa.RecordBatch) -> None:
        """Take the next entries of the log."""
        offsets = numbers_of(batch.column("offset"))
        is_fresh = offsets >= self._next
        if not is_fresh.all():
            self._counts["replayed"] += int((~is_fresh).sum())
            batch = batch.filter(pa.array(is_fresh))
            offsets = offsets[is_fresh]
        if not len(offsets):
            return
        edges = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
        with without_collection():
            for start, stop in pairwise(edges):
                self._take(batch.slice(start, stop - start), offsets[start:stop])

    def _take(self, batch: pa.RecordBatch, offsets: Int64s) -> None:
        """Take entries without a hole between them."""
        first, size = int(offsets[0]), len(offsets)
        if first != self._next:
            self._skip_to(first)
        append_ms = numbers_of(batch.column("timestamp_ms"))
        if self._first is None:
            self._first = first
            self._oldest_ms = int(append_ms[0])
        self._next = first + size
        self._append_ms = int(append_ms[-1])
        self._counts["entries"] += size
        at = (self._step + np.arange(1, size + 1)) * STEP
        self._step += size
        piece = Piece(offsets, append_ms, at, *bytes_of(batch.column("value")))
        verdicts = self._force.judge(keys_of(batch.column("key")), lambda index: self._read_claim(piece, index))
        self._report(piece, verdicts)
        self._activity.add_entries(append_ms, verdicts.counts)
        self._apply(piece, verdicts)

    def _skip_to(self, offset: int) -> None:
        """Entries are missing: either this log was never read before, or they were lost."""
        if self._is_fresh and self._first is None:
            self._audit.note(offset, f"the log begins at offset {offset}: totals hold from here on, the term in force is adopted")
        else:
            message = f"entries {self._next} to {offset - 1} were lost or pruned before they were read; all chains start anew"
            self._audit.find(FindingRow(self._kpart, offset, "log-lost", message, expected=self._next, found=offset))
            self._chains.close()
            self._step += 1
            self._events.append(RestartRow(self._kpart, self._step * STEP, offset))
            self._transaction.end()
        self._force.forget()

    def _read_claim(self, piece: Piece, index: int) -> LeadershipClaimed | None:
        try:
            records = decode_entry(piece.value(index) or b"")
        except UnreadableEntry as error:
            self._audit.quarantine(int(piece.offsets[index]), f"claim: {error}", piece.value(index) or b"")
            return None
        return records[0] if len(records) == 1 and isinstance(records[0], LeadershipClaimed) else None

    def _report(self, piece: Piece, verdicts: Verdicts) -> None:
        messages = {
            "epoch-jump": "a claim skips epochs; it is void, but who wrote it?",
            "void-carries-live-term": "an entry of the term in force is out of its order and void",
        }
        for suspect in verdicts.suspects:
            message = f"{messages[suspect.rule]} expected {suspect.expected}, found {suspect.found}"
            offset = int(piece.offsets[suspect.entry])
            self._audit.find(FindingRow(self._kpart, offset, suspect.rule, message, expected=suspect.expected, found=suspect.found))
        for index in verdicts.adopted:
            self._audit.note(int(piece.offsets[index]), "the claim in force was not seen: this entry's term is taken for it")

    # ---- what counts

    def _apply(self, piece: Piece, verdicts: Verdicts) -> None:
        live = verdicts.counts.nonzero()[0]
        taken, decoded = decode_file_entries(piece.data, piece.starts[live], piece.ends[live])
        files = columns_of_decoded(decoded, piece.at[live], piece.offsets[live], piece.append_ms[live])
        rest = live[~taken]
        if len(rest) or self._transaction.holds:
            slow, held = self._apply_slowly(piece, rest, verdicts, files)
            if held is not None:
                files = files.take(held)
            if slow.files:
                files = merged(files, columns_of_records(slow.files))
            cuts = slow.cuts
        else:
            cuts = []
        self._counts["record.FileCommitted"] += len(files)
        start = 0
        soft: list[Cut] = []
        for at, record in cuts:
            if isinstance(record, RecordsDeleted):
                soft.append((at, (record.topic_id, record.partition)))
                continue
            stop = int(np.searchsorted(files.at, at))
            self._add_files(files.take(np.arange(start, stop)), soft)
            start, soft = stop, []
            self._cut(record)
        self._add_files(files.take(np.arange(start, len(files))) if start else files, soft)

    def _add_files(self, files: FileColumns, cuts: Sequence[Cut]) -> None:
        runs = runs_of(files, self._topic_codes)
        used, sizes = batch_bytes(files), sane_sizes(files)
        check_bytes(self._kpart, files, self._audit)
        self._chains.add(files, runs, cuts)
        if not len(files):
            return
        self._files.add(files, used, sizes)
        self._activity.add_files(files, runs, used, sizes)
        batches = int(files.batches_of_file.sum())
        self._counts["files"] += len(files)
        self._counts["batches"] += batches
        self._counts["records"] += int(files.record_count_minus_one.sum()) + batches
        self._counts["bytes"] += int(used.sum())
        self._counts["file_bytes"] += int(sizes.sum())
        if len(files.other_code):
            codes, counts = np.unique(files.other_code, return_counts=True)
            for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
                self._counts[f"other.{code}"] += count

    def _cut(self, record: Record) -> None:
        """End the links of the chains that a record changes; `RecordsDeleted`, which is frequent, is left to `Chains.add`."""
        match record:
            case DisklessLogInitialized() | DisklessLogReset():
                self._chains.close_partition((record.topic_id, record.partition))
            case TopicDeleted():
                self._chains.close_topic(record.topic_id)
            case ProducersExpired():
                self._chains.close_idle_producers(record.before_ms)
            case _:
                raise AssertionError(f"{type(record).__name__} cuts no chain")

    def _apply_slowly(
        self, piece: Piece, rest: Int64s, verdicts: Verdicts, files: FileColumns
    ) -> tuple[_Slow, npt.NDArray[np.int64] | None]:
        """Apply the other entries one by one; also returns which files count, if not all do: those of no transaction."""
        slow = _Slow([], [])
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
            self._apply_entry(piece, index, verdicts.claims.get(index), slow)
        if not held:
            return slow, None
        return slow, np.array([file for file in range(len(files)) if file not in held], np.int64)

    @staticmethod
    def _begins(piece: Piece, index: int) -> bool:
        """Whether an entry may open a transaction, so that what follows must be looked at one by one."""
        try:
            return any(isinstance(record, TransactionBegan) for record in decode_entry(piece.value(index) or b""))
        except UnreadableEntry:
            return False

    def _apply_entry(self, piece: Piece, index: int, claim: LeadershipClaimed | None, slow: _Slow) -> None:
        offset, append_ms, at = int(piece.offsets[index]), int(piece.append_ms[index]), int(piece.at[index])
        value = piece.value(index)
        try:
            if value is None:
                raise _Unreadable("a tombstone in the term in force")
            records = decode_entry(value)
            files = sum(isinstance(record, FileCommitted) for record in records)
            if files > FILES_PER_ENTRY_MAX:
                raise _Unreadable(f"{files} files in one entry, at most {FILES_PER_ENTRY_MAX} are read")
        except (UnreadableEntry, _Unreadable) as error:
            self._audit.quarantine(offset, str(error), value or b"")
            return
        entry = HeldEntry(offset, append_ms, value)
        if claim is not None:
            self._end_by_claim(offset)
        if not self._transaction.holds or any(isinstance(one, TransactionBegan | TransactionEnded) for one in records):
            self._apply_records(records, entry, at, slow, is_claim=claim is not None)
        elif not self._transaction.hold(entry):
            opened = self._transaction.opened
            message = f"transaction {opened.name if opened else ''!r} has more than {ENTRIES_MAX} entries; they count before its end"
            self._audit.find(FindingRow(self._kpart, offset, "transaction-too-large", message))
            self._apply_held(self._transaction.release(), at, slow)

    def _apply_held(self, entries: Sequence[HeldEntry], at: int, slow: _Slow) -> int:
        """Apply entries of a transaction at the step of another entry; returns the step after them."""
        for entry in entries:
            at = self._apply_records(decode_entry(entry.value), entry, at, slow)
        return at

    def _apply_records(self, records: Sequence[Record], entry: HeldEntry, at: int, slow: _Slow, *, is_claim: bool = False) -> int:
        index = 0
        for record in records:
            match record:
                case FileCommitted():
                    slow.files.append((Place(at, entry.offset, entry.append_ms, index), record))
                    index += 1
                    at += 1
                    continue
                case TransactionBegan():
                    self._unclosed(self._transaction.begin(record.name, entry.offset, entry.append_ms), entry.offset, "another began")
                case TransactionEnded():
                    at = self._end_transaction(record, entry.offset, at, slow)
                case TransactionAborted():
                    self._unclosed(self._transaction.end(), entry.offset, f"it was aborted: {record.reason}", is_wrong=False)
                case RecordsDeleted() | DisklessLogInitialized() | DisklessLogReset() | TopicDeleted() | ProducersExpired():
                    slow.cuts.append((at, record))
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

    def _end_transaction(self, record: TransactionEnded, offset: int, at: int, slow: _Slow) -> int:
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
        return self._apply_held(opened.entries, at, slow)

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

    # ---- the summary

    def summary(self) -> Iterator[pa.RecordBatch]:
        """Everything that the store has to take over; nothing but a counter if no entry was new."""
        with without_collection():
            batches = list(batches_of(self._rows()))
        yield from batches
        yield from self._files.batches

    def _rows(self) -> list[SummaryRow]:
        counts = self._counts.copy()
        if self._first is None:
            return [CountRow(self._kpart, name, value) for name, value in counts.items()]
        self._chains.close()
        counts.update({f"void.{reason}": count for reason, count in self._force.void.items()})
        rows: list[SummaryRow] = [self._head_row(), *self._held_rows()]
        rows += [CountRow(self._kpart, name, value) for name, value in counts.items() if value]
        rows += self._audit.count_rows()
        rows += self._activity.rows()
        rows += self._chains.minutes()
        rows += self._chains.links
        rows += self._chains.producer_links
        rows += self._events
        rows += self._audit.findings
        rows += self._audit.quarantined
        rows += self._audit.notes
        return rows

    def _head_row(self) -> HeadRow:
        force, opened = self._force, self._transaction.opened
        state = {
            "epoch_floor": force.epoch_floor,
            "is_adopted": force.is_adopted,
            "is_confirmed": force.is_confirmed,
            "rival": force.rival,
            "transaction": None if opened is None else [opened.name, opened.offset, opened.append_ms, opened.is_applied],
            "has_held": self._transaction.has_changed,
        }
        return HeadRow(
            kpart=self._kpart,
            next_offset=self._next,
            scanned_from=self._from.next_offset,
            first_offset=self._first or 0,
            append_ms=self._append_ms,
            oldest_ms=self._oldest_ms,
            epoch=force.epoch,
            term=force.term,
            seq=force.seq,
            state=json.dumps(state),
        )

    def _held_rows(self) -> list[HeldRow]:
        opened = self._transaction.opened
        if opened is None or not self._transaction.has_changed:
            return []
        return [HeldRow(self._kpart, entry.offset, entry.append_ms, entry.value) for entry in opened.entries]


class _Unreadable(Exception):
    """An entry that could be decoded, but must not be."""
