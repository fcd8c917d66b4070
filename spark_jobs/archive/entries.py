"""Entries of one metadata partition as the archive reads them, and the head of the log behind some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from records.codec import UnreadableEntry, decode_entry
from records.entry_key import EntryKey, decode_key
from records.model import Record
from spark_jobs.scan.force import Force, Keys
from spark_jobs.scan.head import Head

Int64s = npt.NDArray[np.int64]


class HeldMessage(NamedTuple):
    """A message that was read, but waits for the end of a transaction."""

    offset: int
    time_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Entries:
    """Consecutive entries of one metadata partition."""

    offsets: Int64s
    times_ms: Int64s
    raw_keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    keys: Sequence[EntryKey | None]


def entries_of(batch: pa.RecordBatch) -> Entries:
    """Read the entries of a batch of Spark's Kafka source."""
    numbers = numbers_of(batch.column("offset")), numbers_of(batch.column("timestamp_ms"))
    return made_entries(*numbers, batch.column("key").to_pylist(), batch.column("value").to_pylist())


def made_entries(offsets: Int64s, times_ms: Int64s, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Entries:
    """Put entries together from their columns."""
    return Entries(offsets, times_ms, keys, values, [decode_key(key) for key in keys])


def slice_of(entries: Entries, start: int, stop: int) -> Entries:
    """Return the entries from `start` to `stop` (exclusive)."""
    part = slice(start, stop)
    return Entries(entries.offsets[part], entries.times_ms[part], entries.raw_keys[part], entries.values[part], entries.keys[part])


def head_of(force: Force, next_offset: int) -> Head:
    """Return the head of the log as the judgement stands, with `next_offset` to be read next."""
    fence = force.fence
    return Head(
        next_offset=next_offset,
        epoch=force.epoch,
        term=None if fence is None else fence.term,
        seq=None if fence is None else fence.seq,
        is_adopted=force.is_adopted,
        is_confirmed=force.is_confirmed,
        rival=force.rival,
    )


def head_before(before: Head, entries: Entries, index: int) -> Head:
    """The head before entry `index`, told again from the one before all of them."""
    force = Force(before)
    if index:
        force.judge(keys_of(entries.keys[:index]), lambda place: readable(entries.values[place]), int(entries.offsets[0]))
    return head_of(force, int(entries.offsets[index]))


def numbers_of(column: pa.Array) -> Int64s:
    """Return a column of whole numbers."""
    numbers: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def keys_of(keys: Sequence[EntryKey | None]) -> Keys:
    """Return keys as columns, with zeros for those that are none of ours."""
    rows = np.array([key or (0, 0, 0) for key in keys], np.int64).reshape(-1, 3)
    return Keys(rows[:, 0], rows[:, 1], rows[:, 2], np.array([key is not None for key in keys], bool))


def readable(value: bytes | None) -> Sequence[Record]:
    """The records of an entry; one that cannot be read has none."""
    try:
        return decode_entry(value or b"")
    except UnreadableEntry:
        return []
