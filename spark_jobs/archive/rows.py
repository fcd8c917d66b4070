"""From entries of the metadata log to rows of the archive, for use with `mapInArrow`: pure, ordered, and total.

A row is one run of a committed file (consecutive batches of one user partition), or one other record as JSON, or one
entry that does not count or cannot be read. Whatever the bytes are, every entry leaves one row at least, and nothing is
raised. Behind the rows of a metadata partition comes one with its new head, which the writer takes out again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from records.bulk_decode import decode_file_entries
from records.bulk_expand import topics_of_runs
from records.bulk_files import FileColumns, files_of
from records.codec import UnreadableEntry, decode_entry
from records.entry_key import decode_key
from records.model import EntryKey, FileCommitted, LeadershipClaimed, Record
from spark_jobs.scan.force import Force, Keys, Verdicts
from spark_jobs.scan.head import Head

Int64s = npt.NDArray[np.int64]
Batches = Iterator[pa.RecordBatch]
Row = dict[str, object]

APPLIED, CLAIM, VOID, UNREADABLE, HEAD = "applied", "claim", "void", "unreadable", "head"

_TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("kpart", pa.int32()),  # partition of the metadata topic
        ("offset", pa.int64()),
        ("record_number", pa.int32()),  # within the entry
        ("run_number", pa.int32()),  # within the file
        ("date", pa.date32()),  # of the entry, in UTC: what the table is partitioned by
        ("entry_time", _TIME),  # Kafka's time of the entry
        ("verdict", pa.string()),  # applied, claim, void, unreadable
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
        ("body", pa.string()),  # JSON of a record that is no commit, of batches not accepted, or why an entry is void or unreadable
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


@dataclass(frozen=True, slots=True)
class _Entries:
    """Consecutive entries of one metadata partition."""

    offsets: Int64s
    times_ms: Int64s
    keys: Sequence[EntryKey | None]
    values: Sequence[bytes | None]


class ArchiveScan:
    """Turns the entries of one metadata partition into rows, from a head on."""

    def __init__(self, kpart: int, head: Head | None) -> None:
        self._kpart = kpart
        self._head = START if head is None else head
        self._next = self._head.next_offset
        self._force = Force(self._head)

    def read(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of the next entries; those below the head are replays and leave none."""
        offsets = _numbers(batch.column("offset"))
        fresh = batch.filter(pa.array(offsets >= self._next))
        offsets = offsets[offsets >= self._next]
        if not len(offsets):
            return
        cuts = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
        for start, stop in pairwise(cuts):
            if int(offsets[start]) != self._next:
                self._force.forget()  # entries are lost: the term in force is not known any more
            self._next = int(offsets[stop - 1]) + 1
            yield from self._rows_of(_entries(fresh.slice(start, stop - start)))

    def head_row(self) -> Row:
        """The new head, as a row."""
        force = self._force
        head = Head(
            next_offset=self._next,
            epoch=force.epoch,
            term=force.term,
            seq=force.seq,
            epoch_floor=force.epoch_floor,
            is_adopted=force.is_adopted,
            is_confirmed=force.is_confirmed,
            rival=force.rival,
        )
        return _row(self._kpart, self._next, verdict=HEAD, body=json.dumps(asdict(head)))

    def _rows_of(self, entries: _Entries) -> Iterator[pa.RecordBatch]:
        verdicts = self._force.judge(_keys(entries.keys), lambda index: _claim(entries.values[index]))
        live = np.flatnonzero(verdicts.counts)
        data = [entries.values[index] or b"" for index in live.tolist()]
        ends = np.cumsum(np.array([len(value) for value in data], np.int64))
        starts = ends - np.array([len(value) for value in data], np.int64)
        taken, files = decode_file_entries(np.frombuffer(b"".join(data), np.uint8), starts, ends)
        rows: list[Row] = []
        yield from self._file_rows(files, live[files.message], np.zeros(len(files), np.int64), entries, rows)
        slow: list[tuple[int, int, FileCommitted]] = []
        done = set(live[taken].tolist())
        for index in range(len(entries.values)):
            if index not in done:
                rows += self._other_rows(index, entries, verdicts, slow)
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

    def _other_rows(self, index: int, entries: _Entries, verdicts: Verdicts, slow: list[tuple[int, int, FileCommitted]]) -> list[Row]:
        """The rows of an entry that is no plain commit; commits in it are added to `slow`."""
        verdict = CLAIM if index in verdicts.claims else APPLIED if verdicts.counts[index] else VOID
        base = self._at(index, entries, verdict)
        try:
            records = decode_entry(entries.values[index] or b"")
        except UnreadableEntry as error:
            return [base | {"verdict": UNREADABLE if verdict == APPLIED else verdict, "body": json.dumps({"error": str(error)})}]
        if verdict == VOID:
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


def archive_function(heads: Mapping[int, Head]) -> Callable[[Batches], Batches]:
    """Return the function for Spark that turns entries (partition, offset, key, value, timestamp_ms) into rows, from heads on."""

    def run(batches: Batches) -> Batches:
        scans: dict[int, ArchiveScan] = {}
        for batch in batches:
            kparts = _numbers(batch.column("partition"))
            cuts = [0, *(np.flatnonzero(np.diff(kparts)) + 1).tolist(), len(kparts)]
            for start, stop in pairwise(cuts):
                if stop > start:
                    kpart = int(kparts[start])
                    scan = scans.setdefault(kpart, ArchiveScan(kpart, heads.get(kpart)))
                    yield from scan.read(batch.slice(start, stop - start))
        rows = [scan.head_row() for scan in scans.values()]
        if rows:
            yield pa.RecordBatch.from_pylist(rows, SCHEMA)

    return run


def split_heads(table: pa.Table) -> tuple[pa.Table, dict[int, Head]]:
    """Take the new heads out of the rows."""
    is_head = pc.equal(table.column("verdict"), HEAD)
    heads: dict[int, Head] = {}
    for row in table.filter(is_head).select(["kpart", "body"]).to_pylist():
        fields = json.loads(row["body"])
        rival = fields.pop("rival")
        heads[row["kpart"]] = Head(**fields, rival=None if rival is None else EntryKey(*rival))
    return table.filter(pc.invert(is_head)), heads


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
    return _Entries(
        _numbers(batch.column("offset")),
        _numbers(batch.column("timestamp_ms")),
        [decode_key(key) for key in batch.column("key").to_pylist()],
        batch.column("value").to_pylist(),
    )


def _numbers(column: pa.Array) -> Int64s:
    numbers: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _keys(keys: Sequence[EntryKey | None]) -> Keys:
    rows = np.array([key or (0, 0, 0) for key in keys], np.int64).reshape(-1, 3)
    return Keys(rows[:, 0], rows[:, 1], rows[:, 2], np.array([key is not None for key in keys], bool))


def _claim(value: bytes | None) -> LeadershipClaimed | None:
    try:
        records = decode_entry(value or b"")
    except UnreadableEntry:
        return None
    match records:
        case [LeadershipClaimed() as claim]:
            return claim
    return None


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
