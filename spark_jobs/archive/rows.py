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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from records.bulk_decode import decode_file_entries
from records.bulk_expand import topics_of_runs
from records.bulk_files import FileColumns, files_of
from records.codec import UndecodableEntry, UnknownSchema, UnreadableEntry, decode_entry
from records.entry_key import EntryKey, decode_key
from records.fast import PLAIN_COMMIT_PREFIXES
from records.log import BrokenRule, OpenTransaction, Role, begun_by, composition_fault, role_of, undecodable
from records.model import FileCommitted, Record, Restored
from spark_jobs.scan.force import Force, Keys, Verdicts
from spark_jobs.scan.head import Head

Int64s = npt.NDArray[np.int64]
Batches = Iterator[pa.RecordBatch]
Row = dict[str, object]

APPLIED, CLAIM, VOID, UNREADABLE, ABORTED, CONTRADICTION = "applied", "claim", "void", "unreadable", "aborted", "contradiction"
HEAD, HELD = "head", "held"
"""Verdicts of rows that the writer takes out."""

_TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("kpart", pa.int32()),  # partition of the metadata topic
        ("offset", pa.int64()),
        ("record_number", pa.int32()),  # within the entry
        ("run_number", pa.int32()),  # within the file
        ("date", pa.date32()),  # of the entry, in UTC: what the table is partitioned by
        ("entry_time", _TIME),  # Kafka's time of the entry
        (
            "verdict",
            pa.string(),
        ),  # applied, claim, void, aborted (a transaction without an end), contradiction, unreadable
        ("record", pa.string()),  # type of the record, null where it was not decoded
        ("append_time", _TIME),  # the coordinator's time of the commit
        ("object_key", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("next_offset", pa.int64()),
        ("batches", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("uploader", pa.int32()),
        ("file_bytes", pa.int64()),
        ("body", pa.string()),  # JSON of a record that is no commit, of batches not accepted, or why an entry is unreadable
    ]
)
DDL = (
    "kpart int, offset long, record_number int, run_number int, date date, entry_time timestamp, verdict string, record string, "
    "append_time timestamp, object_key string, topic_id string, partition int, base_offset long, next_offset long, batches long, "
    "records long, bytes long, uploader int, file_bytes long, body string"
)

NOT_ACCEPTED = "FileCommitted.not_accepted"
MS_PER_DAY = 86_400_000
TIME_MAX_MS = 253_402_300_799_999
"""The end of the year 9999: times beyond it, which any client may send, are shown as this."""

START = Head(next_offset=0, epoch=0, term=0, seq=0)


class HeldMessage(NamedTuple):
    """A message that was read, but waits for the end of a transaction."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class _Entries:
    """Consecutive entries of one metadata partition."""

    offsets: Int64s
    times_ms: Int64s
    raw_keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    keys: Sequence[EntryKey | None]


class _Part(NamedTuple):
    """The entries from `start` to `stop` (exclusive) of some that were judged."""

    entries: _Entries
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
        yield from self._take(_entries(batch))

    def resume(self, held: Sequence[HeldMessage]) -> Iterator[pa.RecordBatch]:
        """Take what the run before had read beyond the head."""
        if held:
            offsets, times_ms, keys, values = zip(*held, strict=True)
            yield from self._take(_made_entries(np.array(offsets, np.int64), np.array(times_ms, np.int64), keys, values))

    def _take(self, entries: _Entries) -> Iterator[pa.RecordBatch]:
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
            yield from self._take_whole(_slice(entries, start, stop))
            self._next = int(offsets[stop - 1]) + 1

    def _take_whole(self, entries: _Entries) -> Iterator[pa.RecordBatch]:
        """Take entries without a hole between them: cut where transactions begin and end."""
        # A claim that may come into force is judged when everything before it took effect.
        may_claim = [at for at, key in enumerate(entries.keys) if at and key is not None and key.seq == 0 and key.epoch > 0]
        for start, stop in pairwise([0, *may_claim, len(entries.offsets)]):
            yield from self._take_term(_slice(entries, start, stop))

    def _take_term(self, entries: _Entries) -> Iterator[pa.RecordBatch]:
        """Take entries of which only the first may be a claim."""
        before = self._head_at(int(entries.offsets[0]))
        verdicts = self._force.judge(_keys(entries.keys), lambda index: _readable(entries.values[index]))
        start = 0

        def part(stop: int) -> _Part:
            return _Part(entries, verdicts, start, stop)

        for index in np.flatnonzero(verdicts.counts).tolist():
            value = entries.values[index]
            if index in verdicts.claims or index in verdicts.adopted:
                if self._held is not None:
                    yield from self._close(ABORTED, part(index))
                    start = index
                if index in verdicts.claims:
                    continue
            if self._held is None and value is not None and value.startswith(PLAIN_COMMIT_PREFIXES):
                continue
            offset = int(entries.offsets[index])
            role, records = self._role(offset, value)
            match role:
                case BrokenRule():
                    # It is void, and so is a transaction that is open.
                    self._wrong[offset] = role.message
                    yield from self._close(APPLIED if self._held is None else ABORTED, part(index))
                    start = index
                case Role.BEGINS:
                    yield from self._close(APPLIED, part(index))
                    start = index
                    self._held = _Held(begun_by(records, offset), _head_before(before, entries, index))
                case Role.ENDS if self._held is not None:
                    self._raise_floor(record for chunk in self._held.opened.chunks for record in chunk)
                    yield from self._close(APPLIED, part(index + 1))
                    start = index + 1
                case Role.ABORTS:
                    yield from self._close(ABORTED, part(index))
                    start = index
                case Role.CHUNK if self._held is not None:
                    self._held.opened.chunks.append(records)
                case _:
                    self._raise_floor(records)
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
        rows = [_row(self._kpart, head.next_offset, verdict=HEAD, body=json.dumps(asdict(head)))]
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

    def _raise_floor(self, records: Iterable[Record]) -> None:
        """Epochs of a restored log begin above a floor."""
        for record in records:
            if isinstance(record, Restored):
                self._force.epoch_floor = max(self._force.epoch_floor, record.epoch_floor)

    def _head(self) -> Head:
        return self._head_at(self._next)

    def _head_at(self, next_offset: int) -> Head:
        return _head_of(self._force, next_offset)

    def _held_row(self, entries: _Entries, index: int) -> Row:
        texts = [None if one is None else base64.b64encode(one).decode() for one in (entries.raw_keys[index], entries.values[index])]
        body = json.dumps([int(entries.times_ms[index]), *texts])
        return _row(self._kpart, int(entries.offsets[index]), verdict=HELD, body=body)

    def _rows_of(self, part: _Part, applied: str) -> Iterator[pa.RecordBatch]:
        """The rows of some entries; those that count have the verdict `applied`, unless they are claims or cannot be read."""
        entries, verdicts, start, stop = part
        wrong = {index: why for index in range(start, stop) if (why := self._wrong.pop(int(entries.offsets[index]), None)) is not None}
        live = np.flatnonzero(verdicts.counts[start:stop]) + start if applied == APPLIED else np.zeros(0, np.int64)
        if wrong:
            live = live[~np.isin(live, list(wrong))]
        data = [entries.values[index] or b"" for index in live.tolist()]
        ends = np.cumsum(np.array([len(value) for value in data], np.int64))
        starts = ends - np.array([len(value) for value in data], np.int64)
        taken, files = decode_file_entries(np.frombuffer(b"".join(data), np.uint8), starts, ends)
        rows: list[Row] = []
        yield from self._file_rows(files, live[files.message], np.zeros(len(files), np.int64), entries, rows)
        slow: list[tuple[int, int, FileCommitted]] = []
        done = set(live[taken].tolist())
        for index in range(start, stop):
            if index in wrong:
                rows += self._wrong_rows(index, entries, wrong[index])
            elif index not in done:
                verdict = CLAIM if index in verdicts.claims else applied if verdicts.counts[index] else VOID
                rows += self._other_rows(index, entries, verdict, slow)
        if slow:
            found = files_of([(at, record) for at, (_, _, record) in enumerate(slow)])
            places, numbers = (np.array([one[part] for one in slow], np.int64) for part in (0, 1))
            yield from self._file_rows(found, places, numbers, entries, rows)
        if rows:
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)

    def _file_rows(self, files: FileColumns, index: Int64s, number: Int64s, entries: _Entries, rows: list[Row]) -> Iterator[pa.RecordBatch]:
        """One row for each run; files without an accepted batch and batches not accepted go to `rows`, as JSON."""
        numbers = files.numbers
        if len(numbers.run_length):
            yield _run_rows(self._kpart, files, index, number, entries)
        keys = files.object_keys()
        others = files.others
        stops = others.others_of_file.cumsum()
        for file in np.flatnonzero((others.others_of_file > 0) | (numbers.batches_of_file == 0)).tolist():
            part = slice(int(stops[file] - others.others_of_file[file]), int(stops[file]))
            columns = ("other_code", "other_base_offset", "other_time", "other_log_start")
            body = {name.removeprefix("other_"): getattr(others, name)[part].tolist() for name in columns}
            body["place"] = np.cumsum(others.other_index[part]).tolist()
            at = int(index[file])
            row = self._at(at, entries, APPLIED)
            row |= {"record": NOT_ACCEPTED, "record_number": int(number[file]), "object_key": keys[file], "batches": len(body["code"])}
            row |= {"append_time": _microseconds(int(files.append_time_ms[file])), "uploader": int(files.uploader_broker_id[file])}
            rows.append(row | {"file_bytes": int(files.file_size[file]), "body": json.dumps(body)})

    def _wrong_rows(self, index: int, entries: _Entries, why: str) -> list[Row]:
        """The rows of an entry that contradicts the log: its records with the reason, or the reason alone."""
        base = self._at(index, entries, CONTRADICTION)
        records = _readable(entries.values[index])
        if not records:
            return [base | {"body": json.dumps({"error": why})}]
        bodies = [json.dumps({"error": why, "record": json.loads(_json(record))}) for record in records]
        return [
            base | {"record": type(record).__name__, "record_number": at, "body": body}
            for at, (record, body) in enumerate(zip(records, bodies, strict=True))
        ]

    def _other_rows(self, index: int, entries: _Entries, verdict: str, slow: list[tuple[int, int, FileCommitted]]) -> list[Row]:
        """The rows of an entry that is no plain commit, or counts for nothing; commits in it that count are added to `slow`."""
        base = self._at(index, entries, verdict)
        try:
            records = decode_entry(entries.values[index] or b"")
        except UnreadableEntry as error:
            is_of_term = verdict in (APPLIED, ABORTED)
            return [base | {"verdict": UNREADABLE if is_of_term else verdict, "body": json.dumps({"error": str(error)})}]
        if verdict in (VOID, ABORTED):
            return [
                base | {"record": type(record).__name__, "record_number": at, "body": _json(record)} for at, record in enumerate(records)
            ] or [base]
        rows: list[Row] = []
        for at, record in enumerate(records):
            if isinstance(record, FileCommitted):
                slow.append((index, at, record))
            else:
                rows.append(base | _names(record) | {"record": type(record).__name__, "record_number": at, "body": _json(record)})
        return rows or ([] if records else [base])

    def _at(self, index: int, entries: _Entries, verdict: str) -> Row:
        time_ms = int(entries.times_ms[index])
        date = _days(np.array([time_ms]))[0]
        return _row(
            self._kpart,
            int(entries.offsets[index]),
            record_number=0,
            run_number=0,
            date=int(date),
            entry_time=_microseconds(time_ms),
            verdict=verdict,
        )


def archive_function(heads: Mapping[int, Head], held: Mapping[int, Sequence[HeldMessage]]) -> Callable[[Batches], Batches]:
    """Return the function for Spark that turns entries (partition, offset, key, value, timestamp_ms) into rows, from heads on.

    `held` is what the run before read beyond its heads.
    """

    def run(batches: Batches) -> Batches:
        scans: dict[int, ArchiveScan] = {}
        for batch in batches:
            kparts = _numbers(batch.column("partition"))
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


# ---- columns


def _run_rows(kpart: int, files: FileColumns, index: Int64s, number: Int64s, entries: _Entries) -> pa.RecordBatch:
    numbers = files.numbers
    runs = len(numbers.run_length)
    file = np.repeat(np.arange(len(files)), numbers.runs_of_file)
    first_run = numbers.runs_of_file.cumsum() - numbers.runs_of_file
    first_batch = numbers.run_length.cumsum() - numbers.run_length
    records = np.add.reduceat(numbers.record_count_minus_one + 1, first_batch)
    at = index[file]
    times_ms = entries.times_ms[at]
    topics = [_id_text(topic_id) for topic_id in files.topic_id_list()]
    columns: dict[str, object] = {
        "kpart": np.full(runs, kpart),
        "offset": entries.offsets[at],
        "record_number": number[file],
        "run_number": np.arange(runs) - first_run[file],
        "date": pa.array(_days(times_ms), pa.int32()).cast(pa.date32()),
        "entry_time": _time_column(times_ms),
        "verdict": pa.array([APPLIED] * runs),
        "record": pa.array([FileCommitted.__name__] * runs),
        "append_time": _time_column(files.append_time_ms[file]),
        "object_key": pa.array(files.object_keys()).take(pa.array(file)),
        "topic_id": pa.array(topics).take(pa.array(topics_of_runs(files))),
        "partition": numbers.run_partition,
        "base_offset": numbers.run_base_offset,
        "next_offset": numbers.run_base_offset + records,
        "batches": numbers.run_length,
        "records": records,
        "bytes": np.add.reduceat(numbers.byte_size, first_batch),
        "uploader": files.uploader_broker_id[file],
        "file_bytes": files.file_size[file],
        "body": pa.nulls(runs, pa.string()),
    }
    arrays = [_typed(columns[field.name], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _typed(values: object, data_type: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, data_type)


def _entries(batch: pa.RecordBatch) -> _Entries:
    numbers = _numbers(batch.column("offset")), _numbers(batch.column("timestamp_ms"))
    return _made_entries(*numbers, batch.column("key").to_pylist(), batch.column("value").to_pylist())


def _made_entries(offsets: Int64s, times_ms: Int64s, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> _Entries:
    return _Entries(offsets, times_ms, keys, values, [decode_key(key) for key in keys])


def _slice(entries: _Entries, start: int, stop: int) -> _Entries:
    part = slice(start, stop)
    return _Entries(entries.offsets[part], entries.times_ms[part], entries.raw_keys[part], entries.values[part], entries.keys[part])


def _head_of(force: Force, next_offset: int) -> Head:
    fence = force.fence
    return Head(
        next_offset=next_offset,
        epoch=force.epoch,
        term=None if fence is None else fence.term,
        seq=None if fence is None else fence.seq,
        epoch_floor=force.epoch_floor,
        is_adopted=force.is_adopted,
        is_confirmed=force.is_confirmed,
        rival=force.rival,
    )


def _head_before(before: Head, entries: _Entries, index: int) -> Head:
    """The head before entry `index`, told again from the one before all of them."""
    force = Force(before)
    if index:
        force.judge(_keys(entries.keys[:index]), lambda place: _readable(entries.values[place]))
    return _head_of(force, int(entries.offsets[index]))


def _numbers(column: pa.Array) -> Int64s:
    numbers: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _keys(keys: Sequence[EntryKey | None]) -> Keys:
    rows = np.array([key or (0, 0, 0) for key in keys], np.int64).reshape(-1, 3)
    return Keys(rows[:, 0], rows[:, 1], rows[:, 2], np.array([key is not None for key in keys], bool))


def _readable(value: bytes | None) -> Sequence[Record]:
    """The records of an entry; one that cannot be read has none."""
    try:
        return decode_entry(value or b"")
    except UnreadableEntry:
        return []


def _days(times_ms: Int64s) -> Int64s:
    days: Int64s = np.clip(times_ms, 0, TIME_MAX_MS) // MS_PER_DAY
    return days


def _microseconds(time_ms: int) -> int:
    return min(max(time_ms, 0), TIME_MAX_MS) * 1000


def _time_column(times_ms: Int64s) -> pa.Array:
    return pa.array(np.clip(times_ms, 0, TIME_MAX_MS) * 1000, pa.int64()).cast(_TIME)


def _row(kpart: int, offset: int, **columns: object) -> Row:
    return {**dict.fromkeys(SCHEMA.names), "kpart": kpart, "offset": offset, **columns}


def _names(record: Record) -> Row:
    """Which topic, partition and object a record is about, where it is about one."""
    found: Row = {}
    topic_id, partition, key = (getattr(record, name, None) for name in ("topic_id", "partition", "object_key"))
    if isinstance(topic_id, bytes):
        found["topic_id"] = _id_text(topic_id)
    if isinstance(partition, int):
        found["partition"] = partition
    if isinstance(key, str):
        found["object_key"] = key
    return found


def _json(record: Record) -> str:
    return json.dumps(asdict(record), default=lambda value: value.hex() if isinstance(value, bytes) else str(value))


def _id_text(topic_id: bytes) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
