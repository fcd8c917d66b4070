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
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from records.codec import UndecodableEntry, UnknownSchema, decode_entry
from records.committed_files.lines import RECORD_COUNT, VERDICT, BatchVerdict
from records.log import Verdict
from records.model import (
    ProducersExpired,
    Record,
    RecordsDeleted,
    TopicDeleted,
)
from spark_jobs.migration import MIGRATION_STEPS
from spark_jobs.moves import MOVE_STEPS
from spark_jobs.scan.activity import Activity
from spark_jobs.scan.audit import Audit
from spark_jobs.scan.chains import Chains, Cut, partitions_of
from spark_jobs.scan.columns import Int64s, Mask, ScannedFiles, columns_of_records, columns_of_table, merged, read_columns
from spark_jobs.scan.entries import Piece, bytes_of, keys_of, numbers_of
from spark_jobs.scan.entry_by_entry import SlowPath
from spark_jobs.scan.files import Files, batch_bytes, check_bytes, check_owners, check_times, counted_here, find_beyond, sane_sizes
from spark_jobs.scan.force import Force, Keys, UnknownClaim, Verdicts
from spark_jobs.scan.garbage import without_collection
from spark_jobs.scan.head import START, Head
from spark_jobs.scan.levels import Levels
from spark_jobs.scan.summary import STEP, CountRow, EventRow, FindingRow, HeadRow, HeldRow, RestartRow, SummaryRow, batches_of
from spark_jobs.scan.transaction import Transaction


class PartitionScan:
    """See the module's text."""

    def __init__(self, kpart: int, head: Head | None, void: Mapping[int, FindingRow]) -> None:
        """`void` names entries that contradict the state as the store knows it, by offset."""
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
        self._levels = Levels(kpart, self._from.level, self._audit)
        self._slow = SlowPath(
            kpart, self._force, self._transaction, self._levels, self._audit, self._counts, self._events, void, self._from.stopped_at
        )
        self._void = void
        self._log_time_ms = self._from.log_time_ms
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
        keys = keys_of(batch.column("key"))
        # The effect of an entry (commit a snapshot, end a transaction) is known before a claim after it is judged.
        may_claim = (keys.seq == 0) & keys.is_well_formed & (keys.epoch > (self._force.epoch or 0))
        edges = [0, *(may_claim[1:].nonzero()[0] + 1).tolist(), size]
        for start, stop in pairwise(edges):
            which = slice(start, stop)
            part = Keys(keys.epoch[which], keys.term[which], keys.seq[which], keys.is_well_formed[which])
            self._take_judged(piece.part(start, stop), part)

    def _take_judged(self, piece: Piece, keys: Keys) -> None:
        """Take entries of which only the first may be a claim."""
        verdicts = self._force.judge(keys, lambda index: self._read_claim(piece, index), int(piece.offsets[0]))
        self._report(piece, verdicts)
        if verdicts.is_restored and self._is_fresh:
            self._audit.note(0, "the log goes on from a snapshot of another one, which was not read: what was before is not known")
            self._events.append(RestartRow(self._kpart, int(piece.at[0]), 0))
        counts = self._apply(piece, verdicts)
        self._activity.add_entries(piece.append_ms, counts)

    def _skip_to(self, offset: int) -> None:
        """Entries are missing: either this log was never read before, or they were lost."""
        if self._is_fresh and self._first is None:
            self._audit.note(offset, f"the log begins at offset {offset}: totals hold from here on, the term in force is adopted")
        else:
            message = (
                f"entries {self._next} to {offset - 1} were lost or pruned before they were read, or are what Kafka writes after another"
                " program's transactions; all chains start anew"
            )
            self._audit.find(FindingRow(self._kpart, offset, "log-lost", message, expected=self._next, found=offset))
            self._chains.close()
            self._step += 1
            self._events.append(RestartRow(self._kpart, self._step * STEP, offset))
            self._transaction.end()
        self._force.forget()
        self._levels.forget()

    def _read_claim(self, piece: Piece, index: int) -> Sequence[Record] | UnknownClaim:
        try:
            return decode_entry(piece.value(index) or b"")
        except UnknownSchema:
            return UnknownClaim()
        except UndecodableEntry as error:
            self._audit.quarantine(int(piece.offsets[index]), f"claim: {error}", piece.value(index) or b"")
            return []

    def _report(self, piece: Piece, verdicts: Verdicts) -> None:
        messages = {
            "epoch-jump": "a claim skips epochs and is void",
            "void-carries-live-term": "an entry of the term in force is out of its order and void",
        }
        for suspect in verdicts.suspects:
            message = f"{messages[suspect.rule]}: {suspect.what} {suspect.expected} was expected, {suspect.found} was found"
            offset = int(piece.offsets[suspect.entry])
            self._audit.find(FindingRow(self._kpart, offset, suspect.rule, message, expected=suspect.expected, found=suspect.found))
        for index in verdicts.adopted:
            self._audit.note(int(piece.offsets[index]), "the claim in force was not seen: this entry's term is taken for it")

    # ---- what counts

    def _apply(self, piece: Piece, verdicts: Verdicts) -> Mask:
        """Apply what counts; returns which entries are not void."""
        counts = verdicts.counts
        live = counts.nonzero()[0]
        taken, table = read_columns(*piece.bytes_of(live))
        of_files = live[taken]
        places = piece.at[of_files], piece.offsets[of_files], piece.append_ms[of_files]
        files = columns_of_table(table, *places, np.zeros(len(taken), np.int64))
        rest = np.delete(live, taken)
        if len(rest) or self._transaction.holds or self._void:
            slow, held = self._slow.apply(piece, rest, verdicts, files)
            if held is not None:
                files = files.take(held)
            if slow.files:
                files = merged(files, columns_of_records(slow.files))
            counts[slow.void] = False
            cuts = slow.cuts
        else:
            cuts = []
        beyond = find_beyond(self._kpart, files)
        if beyond:
            files = self._without(files, beyond, piece, counts)
        self._levels.check(piece, live)
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
        return counts

    def _without(self, files: ScannedFiles, beyond: Mapping[int, FindingRow], piece: Piece, counts: Mask) -> ScannedFiles:
        """Leave out files that contradict the log by themselves."""
        for file, finding in beyond.items():
            self._audit.find(finding)
            counts[int(files.offset[file]) - int(piece.offsets[0])] = False
        self._force.void[Verdict.VOID_CONTRADICTION.value] += len(beyond)
        return files.take(np.array([file for file in range(len(files)) if file not in beyond], np.int64))

    def _add_files(self, files: ScannedFiles, cuts: Sequence[Cut]) -> None:
        partitions = partitions_of(files, self._topic_codes)
        used, sizes = batch_bytes(files), sane_sizes(files)
        check_bytes(self._kpart, files, self._audit)
        check_owners(self._kpart, files, self._audit)
        self._chains.add(files, partitions, cuts)
        if not len(files):
            return
        self._log_time_ms = check_times(self._kpart, files, self._log_time_ms, self._audit)
        self._files.add(files, used, sizes)
        is_counted = counted_here(self._kpart, files)
        self._activity.add_files(files, partitions, used, sizes, is_counted)
        self._counts["files"] += int(is_counted.sum())
        self._counts["batches"] += len(files.batches)
        self._counts["records"] += int(files.batches[:, RECORD_COUNT].sum())
        self._counts["bytes"] += int(used.sum())
        self._counts["file_bytes"] += int(sizes[is_counted].sum())
        verdicts, counts = np.unique(files.others[:, VERDICT], return_counts=True)
        for verdict, count in zip(verdicts.tolist(), counts.tolist(), strict=True):
            self._counts[f"other.{BatchVerdict(verdict).name.lower()}"] += count

    def _cut(self, record: Record | None) -> None:
        """End the links of the chains that a record changes; `RecordsDeleted`, which is frequent, is left to `Chains.add`.

        None is an entry that could not be understood: it may have changed any.
        """
        match record:
            case None:
                self._chains.close()
            case record if isinstance(record, (*MIGRATION_STEPS, *MOVE_STEPS)):
                self._chains.close_partition((record.topic_id, record.partition))
            case TopicDeleted():
                self._chains.close_topic(record.topic_id)
            case ProducersExpired():
                self._chains.close_idle_producers(record.before_ms)
            case _:
                raise AssertionError(f"{type(record).__name__} cuts no chain")

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
        rows += self._levels.uses
        return rows

    def _head_row(self) -> HeadRow:
        force, held = self._force, self._transaction.held
        fence, opened = force.fence, None if held is None else held.opened
        state = {
            "is_adopted": force.is_adopted,
            "is_confirmed": force.is_confirmed,
            "rival": force.rival,
            "transaction": held and opened and [opened.name, opened.offset, held.append_ms, held.is_applied, opened.num_chunks],
            "has_held": self._transaction.has_changed,
            "level": self._levels.level,
            "log_time_ms": self._log_time_ms,
            "stopped_at": self._slow.stopped_at,
        }
        return HeadRow(
            kpart=self._kpart,
            next_offset=self._next,
            scanned_from=self._from.next_offset,
            first_offset=self._first or 0,
            append_ms=self._append_ms,
            oldest_ms=self._oldest_ms,
            epoch=force.epoch,
            term=None if fence is None else fence.term,
            seq=None if fence is None else fence.seq,
            state=json.dumps(state),
        )

    def _held_rows(self) -> list[HeldRow]:
        opened = self._transaction.opened
        if opened is None or not self._transaction.has_changed:
            return []
        return [HeldRow(self._kpart, entry.offset, entry.append_ms, entry.value) for entry in opened.chunks]
