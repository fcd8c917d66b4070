"""The columns of the archive, and rows of them: of the runs of committed files, of other records, of entries that do not count."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict

import numpy as np
import pyarrow as pa

from records.committed_files.codec import FileCommitted, FileTable, topic_ids_of
from records.committed_files.lines import BASE_OFFSET, BYTE_SIZE, FILE, LOG_START, PARTITION, RECORD_COUNT, TOPIC_HIGH, TOPIC_LOW
from records.model import Record
from spark_jobs.archive.entries import Entries, Int64s

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
        ("snapshot", pa.int64()),  # where the snapshot ends that the row is from, null for rows of the log
    ]
)
DDL = (
    "kpart int, offset long, record_number int, run_number int, date date, entry_time timestamp, verdict string, record string, "
    "append_time timestamp, object_key string, topic_id string, partition int, base_offset long, next_offset long, batches long, "
    "records long, bytes long, uploader int, file_bytes long, body string, snapshot long"
)

NOT_ACCEPTED = "FileCommitted.not_accepted"
MS_PER_DAY = 86_400_000
TIME_MAX_MS = 253_402_300_799_999
"""The end of the year 9999: times beyond it, which any client may send, are shown as this."""


def run_rows(kpart: int, files: FileTable, lines: Int64s, index: Int64s, number: Int64s, entries: Entries) -> pa.RecordBatch:
    """Rows of accepted batches, of which there is one at least: neighbours of one partition whose offsets follow each other are one."""
    next_offset = lines[:, BASE_OFFSET] + lines[:, RECORD_COUNT]
    named = [FILE, TOPIC_HIGH, TOPIC_LOW, PARTITION, LOG_START]
    is_first = np.ones(len(lines), bool)
    is_first[1:] = (lines[1:, named] != lines[:-1, named]).any(axis=1) | (lines[1:, BASE_OFFSET] != next_offset[:-1])
    first = is_first.nonzero()[0]
    stops = np.append(first[1:], len(lines))
    runs, start = len(first), lines[first]
    file = start[:, FILE]
    runs_of_file = np.bincount(file, minlength=len(files))
    at = index[file]
    times_ms = entries.times_ms[at]
    heads = [files.heads[one] for one in file.tolist()]
    columns: dict[str, object] = {
        "kpart": np.full(runs, kpart),
        "offset": entries.offsets[at],
        "record_number": number[file],
        "run_number": np.arange(runs) - (runs_of_file.cumsum() - runs_of_file)[file],
        "date": pa.array(days_of(times_ms), pa.int32()).cast(pa.date32()),
        "entry_time": time_column(times_ms),
        "verdict": pa.array([APPLIED] * runs),
        "record": pa.array([FileCommitted.__name__] * runs),
        "append_time": time_column(np.array([head.append_time_ms for head in heads], np.int64)),
        "object_key": [head.object_key for head in heads],
        "topic_id": [id_text(topic_id) for topic_id in topic_ids_of(start).tolist()],
        "partition": start[:, PARTITION],
        "base_offset": start[:, BASE_OFFSET],
        "next_offset": next_offset[stops - 1],
        "batches": stops - first,
        "records": np.add.reduceat(lines[:, RECORD_COUNT], first),
        "bytes": np.add.reduceat(lines[:, BYTE_SIZE], first),
        "uploader": [head.uploader_broker_id for head in heads],
        "file_bytes": [head.file_size for head in heads],
        "body": pa.nulls(runs, pa.string()),
        "snapshot": pa.nulls(runs, pa.int64()),
    }
    arrays = [_typed(columns[field.name], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _typed(values: object, data_type: pa.DataType) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, data_type)


def days_of(times_ms: Int64s) -> Int64s:
    """Turn times into days since 1970; a time that no calendar has becomes the nearest that one has."""
    days: Int64s = np.clip(times_ms, 0, TIME_MAX_MS) // MS_PER_DAY
    return days


def microseconds(time_ms: int) -> int:
    """Turn a time into microseconds; one that no calendar has becomes the nearest that one has."""
    return min(max(time_ms, 0), TIME_MAX_MS) * 1000


def time_column(times_ms: Int64s) -> pa.Array:
    """Times in UTC; those that no calendar has become the nearest that one has."""
    return pa.array(np.clip(times_ms, 0, TIME_MAX_MS) * 1000, pa.int64()).cast(_TIME)


def archive_row(kpart: int, offset: int, **columns: object) -> Row:
    """Make a row of which only some columns are known."""
    return {**dict.fromkeys(SCHEMA.names), "kpart": kpart, "offset": offset, **columns}


def names_of(record: Record) -> Row:
    """Which topic, partition and object a record is about, where it is about one."""
    found: Row = {}
    topic_id, partition, key = (getattr(record, name, None) for name in ("topic_id", "partition", "object_key"))
    if isinstance(topic_id, bytes):
        found["topic_id"] = id_text(topic_id)
    if isinstance(partition, int):
        found["partition"] = partition
    if isinstance(key, str):
        found["object_key"] = key
    return found


def json_of(record: Record) -> str:
    """Write a record as JSON, bytes in hexadecimal digits."""
    return json.dumps(asdict(record), default=lambda value: value.hex() if isinstance(value, bytes) else str(value))


def id_text(topic_id: bytes) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
