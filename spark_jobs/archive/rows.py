"""From entries of the metadata log to rows of the archive, for use with `mapInArrow`: pure, ordered, and total.

A row is one run of a committed file (consecutive batches of one user partition), or one other record as JSON, or one
entry that does not count or cannot be read. Whatever the bytes are, every entry leaves one row at least, and nothing is
raised. Behind the rows of a metadata partition comes one with its new head, which the writer takes out again.

Entries from the beginning of a transaction (KIP-868) on leave rows when it is over, and then those that it says. Until then
the head stays before it, so that a new start reads it all again; what was read of it already comes back as held rows, which
the writer takes out, too, and hands over to the next run.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from records.codec import UndecodableEntry, UnknownSchema, UnreadableEntry, decode_entry
from records.committed_files.codec import FileCommitted, FileTable, begins_like_a_file, read_files, table_of
from records.committed_files.lines import BASE_OFFSET, DETAIL, FILE, LOG_START, VERDICT, BatchVerdict
from records.entry_key import EntryKey
from records.log import BrokenRule, OpenTransaction, Role, begun_by, composition_fault, role_of, undecodable
from records.model import Record
from spark_jobs.archive.columns import (
    ABORTED,
    APPLIED,
    CLAIM,
    CONTRADICTION,
    HEAD,
    HELD,
    NOT_ACCEPTED,
    SCHEMA,
    UNREADABLE,
    VOID,
    Row,
    archive_row,
    days_of,
    json_of,
    microseconds,
    names_of,
    run_rows,
)
from spark_jobs.archive.entries import (
    Entries,
    HeldMessage,
    Int64s,
    entries_of,
    head_before,
    head_of,
    keys_of,
    made_entries,
    numbers_of,
    readable,
    slice_of,
)
from spark_jobs.scan.force import Force, Verdicts
from spark_jobs.scan.head import Head

Batches = Iterator[pa.RecordBatch]

START = Head(next_offset=0, epoch=0, term=0, seq=0)


class _Part(NamedTuple):
    """The entries from `start` to `stop` (exclusive) of some that were judged."""

    entries: Entries
    verdicts: Verdicts
    start: int
    stop: int


@dataclass(slots=True)
class _Held:
    """A transaction without its end, the head before it, and everything that was read since its beginning."""

    opened: OpenTransaction[Sequence[Record]]
    head: Head
    parts: list[_Part] = field(default_factory=list)


class ArchiveScan:
    """Turns the entries of one metadata partition into rows, from a head on."""

    def __init__(self, kpart: int, head: Head | None) -> None:
        self._kpart = kpart
        self._next = (head or START).next_offset
        self._force = Force(head or START)
        self._held: _Held | None = None
        self._wrong: dict[int, str] = {}

    def read(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of the next entries; those below the head are replays and leave none."""
        yield from self._take(entries_of(batch))

    def resume(self, held: Sequence[HeldMessage]) -> Iterator[pa.RecordBatch]:
        """Take what the run before had read beyond the head."""
        if held:
            offsets, times_ms, keys, values = zip(*held, strict=True)
            yield from self._take(made_entries(np.array(offsets, np.int64), np.array(times_ms, np.int64), keys, values))

    def _take(self, entries: Entries) -> Iterator[pa.RecordBatch]:
        first = int(np.searchsorted(entries.offsets, self._next))
        offsets = entries.offsets
        cuts = [first, *(np.flatnonzero(np.diff(offsets[first:]) != 1) + first + 1).tolist(), len(offsets)]
        for start, stop in pairwise(cuts):
            if start == stop:
                continue
            if int(offsets[start]) != self._next:
                # Entries are lost: the term in force is not known any more, nor whether a transaction ended.
                yield from self._close(ABORTED)
                self._force.forget()
            yield from self._take_whole(slice_of(entries, start, stop))
            self._next = int(offsets[stop - 1]) + 1

    def _take_whole(self, entries: Entries) -> Iterator[pa.RecordBatch]:
        """Take entries without a hole between them: cut where transactions begin and end."""
        # A claim that may come into force is judged when everything before it took effect.
        may_claim = [at for at, key in enumerate(entries.keys) if at and key is not None and key.seq == 0 and key.epoch > 0]
        for start, stop in pairwise([0, *may_claim, len(entries.offsets)]):
            yield from self._take_term(slice_of(entries, start, stop))

    def _take_term(self, entries: Entries) -> Iterator[pa.RecordBatch]:
        """Take entries of which only the first may be a claim."""
        before = self._head_at(int(entries.offsets[0]))
        verdicts = self._force.judge(keys_of(entries.keys), lambda index: readable(entries.values[index]), int(entries.offsets[0]))
        start = 0

        def part(stop: int) -> _Part:
            return _Part(entries, verdicts, start, stop)

        for index in np.flatnonzero(verdicts.counts).tolist():
            value = entries.values[index]
            if verdicts.is_restored and index == 0:
                continue
            if index in verdicts.claims or index in verdicts.adopted:
                if self._held is not None:
                    yield from self._close(ABORTED, part(index))
                    start = index
                if index in verdicts.claims:
                    continue
            if self._held is None and value is not None and begins_like_a_file(value):
                continue
            offset = int(entries.offsets[index])
            role, records = self._role(offset, value)
            match role:
                case BrokenRule():
                    # The entry is void, and so is a transaction that is open.
                    self._wrong[offset] = role.message
                    yield from self._close(APPLIED if self._held is None else ABORTED, part(index))
                    start = index
                case Role.BEGINS:
                    yield from self._close(APPLIED, part(index))
                    start = index
                    self._held = _Held(begun_by(records, offset), head_before(before, entries, index))
                case Role.ENDS if self._held is not None:
                    yield from self._close(APPLIED, part(index + 1))
                    start = index + 1
                case Role.ABORTS:
                    yield from self._close(ABORTED, part(index))
                    start = index
                case Role.CHUNK if self._held is not None:
                    self._held.opened.chunks.append(records)
                case _:
                    pass
        rest = part(len(entries.offsets))
        if self._held is None:
            yield from self._rows_of(rest, APPLIED)
        else:
            self._held.parts.append(rest)

    def _close(self, verdict: str, last: _Part | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of the open transaction, if there is one, and of the part behind it; `verdict` is theirs."""
        parts = [] if self._held is None else self._held.parts
        self._held = None
        for part in parts if last is None else [*parts, last]:
            yield from self._rows_of(part, verdict)

    def head_rows(self) -> list[Row]:
        """The new head, as a row, and what was read beyond it."""
        held = self._held
        head = self._head() if held is None else held.head
        rows = [archive_row(self._kpart, head.next_offset, verdict=HEAD, body=json.dumps(asdict(head)))]
        for part in () if held is None else held.parts:
            rows += [self._held_row(part.entries, index) for index in range(part.start, part.stop)]
        return rows

    def _role(self, offset: int, value: bytes | None) -> tuple[Role | BrokenRule, Sequence[Record]]:
        """The effect of an entry that counts, as far as it can be told without the state, and its records."""
        opened = None if self._held is None else self._held.opened
        try:
            records = decode_entry(value or b"")
        except UnknownSchema:
            return Role.ALONE if opened is None else Role.CHUNK, []
        except UndecodableEntry as error:
            return undecodable(error), []
        role = role_of(records, offset, opened, may_have_begun=self._force.is_adopted)
        if role is Role.ENDS and opened is not None:
            role = composition_fault([record for chunk in opened.chunks for record in chunk], in_transaction=True) or role
        return role, records

    def _head(self) -> Head:
        return self._head_at(self._next)

    def _head_at(self, next_offset: int) -> Head:
        return head_of(self._force, next_offset)

    def _held_row(self, entries: Entries, index: int) -> Row:
        texts = [None if one is None else base64.b64encode(one).decode() for one in (entries.raw_keys[index], entries.values[index])]
        body = json.dumps([int(entries.times_ms[index]), *texts])
        return archive_row(self._kpart, int(entries.offsets[index]), verdict=HELD, body=body)

    def _rows_of(self, part: _Part, applied: str) -> Iterator[pa.RecordBatch]:
        """The rows of some entries; those that count have the verdict `applied`, unless they are claims or cannot be read."""
        entries, verdicts, start, stop = part
        wrong = {index: why for index in range(start, stop) if (why := self._wrong.pop(int(entries.offsets[index]), None)) is not None}
        live = np.flatnonzero(verdicts.counts[start:stop]) + start if applied == APPLIED else np.zeros(0, np.int64)
        if wrong:
            live = live[~np.isin(live, list(wrong))]
        taken, files = read_files([entries.values[index] or b"" for index in live.tolist()])
        rows: list[Row] = []
        yield from self._file_rows(files, live[taken], np.zeros(len(files), np.int64), entries, rows)
        slow: list[tuple[int, int, FileCommitted]] = []
        done = set(live[taken].tolist())
        for index in range(start, stop):
            if index in wrong:
                rows += self._wrong_rows(index, entries, wrong[index])
            elif index not in done:
                verdict = CLAIM if index in verdicts.claims else applied if verdicts.counts[index] else VOID
                rows += self._other_rows(index, entries, verdict, slow)
        if slow:
            found = table_of([record for _, _, record in slow])
            places, numbers = (np.array([one[part] for one in slow], np.int64) for part in (0, 1))
            yield from self._file_rows(found, places, numbers, entries, rows)
        if rows:
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)

    def _file_rows(self, files: FileTable, index: Int64s, number: Int64s, entries: Entries, rows: list[Row]) -> Iterator[pa.RecordBatch]:
        """One row for each run; files without an accepted batch and batches not accepted go to `rows`, as JSON."""
        is_accepted = files.lines[:, VERDICT] == 0
        if is_accepted.any():
            yield run_rows(self._kpart, files, files.lines[is_accepted], index, number, entries)
        told = set(files.lines[~is_accepted, FILE].tolist()) | set(range(len(files))).difference(files.lines[is_accepted, FILE].tolist())
        for file in sorted(told):
            lines = files.lines_of(file)
            places = (lines[:, VERDICT] != 0).nonzero()[0]
            others = lines[places]
            body = {
                "verdict": [BatchVerdict(verdict).name.lower() for verdict in others[:, VERDICT].tolist()],
                "base_offset": others[:, BASE_OFFSET].tolist(),
                "detail": others[:, DETAIL].tolist(),
                "log_start": others[:, LOG_START].tolist(),
                "place": places.tolist(),
            }
            head = files.heads[file]
            row = self._at(int(index[file]), entries, APPLIED)
            row |= {"record": NOT_ACCEPTED, "record_number": int(number[file]), "object_key": head.object_key, "batches": len(others)}
            row |= {"append_time": microseconds(head.append_time_ms), "uploader": head.uploader_broker_id}
            rows.append(row | {"file_bytes": head.file_size, "body": json.dumps(body)})

    def _wrong_rows(self, index: int, entries: Entries, why: str) -> list[Row]:
        """The rows of an entry that contradicts the log: its records with the reason, or the reason alone."""
        base = self._at(index, entries, CONTRADICTION)
        records = readable(entries.values[index])
        if not records:
            return [base | {"body": json.dumps({"error": why})}]
        bodies = [json.dumps({"error": why, "record": json.loads(json_of(record))}) for record in records]
        return [
            base | {"record": type(record).__name__, "record_number": at, "body": body}
            for at, (record, body) in enumerate(zip(records, bodies, strict=True))
        ]

    def _other_rows(self, index: int, entries: Entries, verdict: str, slow: list[tuple[int, int, FileCommitted]]) -> list[Row]:
        """The rows of an entry that is no plain commit, or counts for nothing; commits in it that count are added to `slow`."""
        base = self._at(index, entries, verdict)
        try:
            records = decode_entry(entries.values[index] or b"")
        except UnreadableEntry as error:
            is_of_term = verdict in (APPLIED, ABORTED)
            return [base | {"verdict": UNREADABLE if is_of_term else verdict, "body": json.dumps({"error": str(error)})}]
        if verdict in (VOID, ABORTED):
            return [
                base | {"record": type(record).__name__, "record_number": at, "body": json_of(record)} for at, record in enumerate(records)
            ] or [base]
        rows: list[Row] = []
        for at, record in enumerate(records):
            if isinstance(record, FileCommitted):
                slow.append((index, at, record))
            else:
                rows.append(base | names_of(record) | {"record": type(record).__name__, "record_number": at, "body": json_of(record)})
        return rows or ([] if records else [base])

    def _at(self, index: int, entries: Entries, verdict: str) -> Row:
        time_ms = int(entries.times_ms[index])
        date = days_of(np.array([time_ms]))[0]
        return archive_row(
            self._kpart,
            int(entries.offsets[index]),
            record_number=0,
            run_number=0,
            date=int(date),
            entry_time=microseconds(time_ms),
            verdict=verdict,
        )


def archive_function(heads: Mapping[int, Head], held: Mapping[int, Sequence[HeldMessage]]) -> Callable[[Batches], Batches]:
    """Return the function for Spark that turns entries (partition, offset, key, value, timestamp_ms) into rows, from heads on.

    `held` is what the run before read beyond its heads.
    """

    def run(batches: Batches) -> Batches:
        scans: dict[int, ArchiveScan] = {}
        for batch in batches:
            kparts = numbers_of(batch.column("partition"))
            cuts = [0, *(np.flatnonzero(np.diff(kparts)) + 1).tolist(), len(kparts)]
            for start, stop in pairwise(cuts):
                if stop > start:
                    kpart = int(kparts[start])
                    if kpart not in scans:
                        scans[kpart] = ArchiveScan(kpart, heads.get(kpart))
                        yield from scans[kpart].resume(held.get(kpart, ()))
                    yield from scans[kpart].read(batch.slice(start, stop - start))
        rows = [row for scan in scans.values() for row in scan.head_rows()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)

    return run


class Split(NamedTuple):
    """The result of a run: rows for the table, the new heads of partitions that had entries, and what those hold beyond them."""

    rows: pa.Table
    heads: dict[int, Head]
    held: dict[int, list[HeldMessage]]


def split(table: pa.Table) -> Split:
    """Take the new heads and what is held out of the rows."""
    verdict = table.column("verdict")
    is_head, is_held = pc.equal(verdict, HEAD), pc.equal(verdict, HELD)
    heads: dict[int, Head] = {}
    held: dict[int, list[HeldMessage]] = {}
    for row in table.filter(is_head).select(["kpart", "body"]).to_pylist():
        fields = json.loads(row["body"])
        rival = fields.pop("rival")
        heads[row["kpart"]] = Head(**fields, rival=None if rival is None else EntryKey(*rival))
        held[row["kpart"]] = []
    for row in table.filter(is_held).select(["kpart", "offset", "body"]).to_pylist():
        time_ms, *texts = json.loads(row["body"])
        key, value = (None if text is None else base64.b64decode(text) for text in texts)
        held[row["kpart"]].append(HeldMessage(row["offset"], time_ms, key, value))
    return Split(table.filter(pc.invert(pc.or_(is_head, is_held))), heads, held)
