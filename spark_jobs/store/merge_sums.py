"""Sums: activity by time, histograms and totals. They only ever add up, and old ones of activity are forgotten."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from spark_jobs.scan.summary import BucketRow, CountRow, MinuteRow, SecondRow, UploaderRow, rows_of
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.statements import insert_adding

_SECONDS = insert_adding(
    "activity_second", "second,kpart",
    "kpart", "second", "files", "batches", "records", "bytes", "file_bytes", "multi_owner_files", "void_entries", "entries",
)  # fmt: skip
_SIZES = ("batches", "records", "bytes")
_TOPICS = insert_adding("activity_topic", "minute,topic_id", "minute", "topic_id", *_SIZES)
_PARTITIONS = insert_adding("activity_partition", "minute,topic_id,partition", "minute", "topic_id", "partition", *_SIZES)
_UPLOADERS = insert_adding("activity_uploader", "minute,uploader", "minute", "uploader", "files", "batches", "bytes", "file_bytes")
_BUCKETS = insert_adding("histogram", "name,minute,upper", "name", "minute", "upper", "count")
_TOTALS = insert_adding("total", "name,kpart", "name", "kpart", "value")

SECOND_MS = 1000
MINUTE_MS = 60_000
AGE_MAX_MS = 1 << 40
SECONDS_KEPT = 2 * 3600
MINUTES_KEPT = 24 * 60
PARTITION_MINUTES_KEPT = 60
HISTOGRAMS = ("batches_per_file", "partitions_per_file", "file_bytes", "fill_percent", "freshness_ms")


def add_totals(db: StoreConnection, summary: pa.Table, findings: Counter[int]) -> None:
    """Add the counters of a summary, and the findings of the merge."""
    rows = [(row.name, row.kpart, row.value) for row in rows_of(summary, CountRow)]
    rows += [("findings", kpart, count) for kpart, count in findings.items()]
    db.executemany(_TOTALS, rows)


def add_activity(db: StoreConnection, summary: pa.Table, now_ms: int) -> None:
    """Add what happened; what is too old to be kept is left out at once."""
    oldest_second = now_ms // SECOND_MS - SECONDS_KEPT
    oldest_minute = now_ms // MINUTE_MS - MINUTES_KEPT
    db.executemany(_SECONDS, [row for row in rows_of(summary, SecondRow) if row.second >= oldest_second])
    db.executemany(_UPLOADERS, [row[1:] for row in rows_of(summary, UploaderRow) if row.minute >= oldest_minute])
    _add_minutes(db, [row for row in rows_of(summary, MinuteRow) if row.minute >= oldest_minute], now_ms)
    db.executemany(_BUCKETS, [row[1:] for row in rows_of(summary, BucketRow) if row.minute >= oldest_minute])


def _add_minutes(db: StoreConnection, rows: list[MinuteRow], now_ms: int) -> None:
    topics: dict[tuple[int, bytes], list[int]] = {}
    for row in rows:
        have = topics.setdefault((row.minute, row.topic_id), [0, 0, 0])
        have[0] += row.batches
        have[1] += row.records
        have[2] += row.size_bytes
    db.executemany(_TOPICS, [(*key, *numbers) for key, numbers in topics.items()])
    oldest = now_ms // MINUTE_MS - PARTITION_MINUTES_KEPT
    db.executemany(_PARTITIONS, sorted(row[1:] for row in rows if row.minute >= oldest))


def add_freshness(db: StoreConnection, age_ms: int, now_ms: int) -> None:
    """Count how old the oldest entry of a micro-batch was when it was merged."""
    age_ms = min(max(age_ms, 1), AGE_MAX_MS)
    upper = 1 << (age_ms - 1).bit_length()
    db.execute(_BUCKETS, ("freshness_ms", now_ms // MINUTE_MS, upper, 1))


def forget_old(db: StoreConnection, now_ms: int) -> None:
    """Delete activity that is past its time."""
    minute = now_ms // MINUTE_MS
    db.execute("delete from activity_second where second < ?", (now_ms // SECOND_MS - SECONDS_KEPT,))
    for table in ("activity_topic", "activity_uploader"):
        db.execute(f"delete from {table} where minute < ?", (minute - MINUTES_KEPT,))
    db.execute("delete from unread_span where to_ms < ?", ((minute - MINUTES_KEPT) * MINUTE_MS,))
    db.execute("delete from activity_partition where minute < ?", (minute - PARTITION_MINUTES_KEPT,))
    db.executemany("delete from histogram where name = ? and minute < ?", [(name, minute - MINUTES_KEPT) for name in HISTOGRAMS])
