"""The rules that the columns of a `FileCommitted` obey, so that readers can rely on them.

Checked before writing and after reading: every column has its length, run lengths add up to the batches, indexes point
into their tables, byte positions and offsets are not negative and stay within 64 bits. Whether batches lie inside the
file, or offsets continue the partition's, is for those who know the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import add

from records.model import FileCommitted
from records.wire import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

_RANGES: dict[str, tuple[int, int]] = {
    "run_topic": (0, INT_MAX),
    "run_partition": (0, INT_MAX),
    "run_length": (1, INT_MAX),
    "run_base_offset": (0, LONG_MAX),
    "run_log_start": (0, LONG_MAX),
    "byte_gap": (LONG_MIN, LONG_MAX),
    "byte_size": (0, INT_MAX),
    "record_count_minus_one": (0, INT_MAX),
    "timestamp_age": (LONG_MIN, LONG_MAX),
    "timestamp_type": (0, 1),
    "producer_index": (0, INT_MAX),
    "producer_id": (0, LONG_MAX),
    "producer_epoch": (0, INT_MAX),
    "base_sequence": (0, INT_MAX),
    "other_index": (0, INT_MAX),
    "other_code": (INT_MIN, INT_MAX),
    "other_base_offset": (LONG_MIN, LONG_MAX),
    "other_time": (LONG_MIN, LONG_MAX),
    "other_log_start": (LONG_MIN, LONG_MAX),
}

NUMBER_COLUMNS = tuple(_RANGES)
"""The columns of numbers in the order of the schema; `other_message` follows them."""

COLUMN_LOWS = [low for low, _ in _RANGES.values()]
"""The least value each column of numbers may hold; stands for the extremes of an empty column."""

COLUMN_HIGHS = [high for _, high in _RANGES.values()]
"""The greatest value each column of numbers may hold."""

_RUN_TOPIC = NUMBER_COLUMNS.index("run_topic")
_RUN_BASE_OFFSET = NUMBER_COLUMNS.index("run_base_offset")
_TIMESTAMP_AGE = NUMBER_COLUMNS.index("timestamp_age")


def number_columns(record: FileCommitted) -> tuple[list[int], ...]:
    """Return the columns of numbers in the order of `NUMBER_COLUMNS`."""
    return (
        record.run_topic, record.run_partition, record.run_length, record.run_base_offset, record.run_log_start,
        record.byte_gap, record.byte_size, record.record_count_minus_one, record.timestamp_age, record.timestamp_type,
        record.producer_index, record.producer_id, record.producer_epoch, record.base_sequence,
        record.other_index, record.other_code, record.other_base_offset, record.other_time, record.other_log_start,
    )  # fmt: skip


def find_file_fault(record: FileCommitted) -> str | None:
    """Return what is wrong with the columns of a record, or None."""
    return find_file_fault_in(record, *column_extremes(number_columns(record)))


def column_extremes(columns: Sequence[list[int]]) -> tuple[list[int], list[int]]:
    """Return the least and the greatest value of each of `number_columns`."""
    least = [min(column) if column else low for column, low in zip(columns, COLUMN_LOWS, strict=True)]
    greatest = [max(column) if column else low for column, low in zip(columns, COLUMN_LOWS, strict=True)]
    return least, greatest


def find_file_fault_in(record: FileCommitted, least: Sequence[int], greatest: Sequence[int]) -> str | None:
    """Return what is wrong with the columns of a record, or None, given the extremes of each of `number_columns`.

    The extremes of an empty column may be anything within its range.
    """
    for name, low, value in zip(NUMBER_COLUMNS, COLUMN_LOWS, least, strict=True):
        if value < low:
            return f"{name} holds {value}, below {low}"
    for name, high, value in zip(NUMBER_COLUMNS, COLUMN_HIGHS, greatest, strict=True):
        if value > high:
            return f"{name} holds {value}, above {high}"
    if record.run_topic and greatest[_RUN_TOPIC] >= len(record.topic_ids):
        return f"run_topic holds {greatest[_RUN_TOPIC]}, there are {len(record.topic_ids)} topic ids"
    return (
        _find_length_fault(record)
        or _find_index_fault(record)
        or _find_overflow(record, greatest[_RUN_BASE_OFFSET], least[_TIMESTAMP_AGE], greatest[_TIMESTAMP_AGE])
    )


def _find_length_fault(record: FileCommitted) -> str | None:
    runs, accepted = len(record.run_topic), len(record.byte_size)
    producers, others = len(record.producer_index), len(record.other_index)
    if not len(record.run_partition) == len(record.run_length) == len(record.run_base_offset) == runs:
        return f"run columns differ in length from run_topic's {runs}"
    if len(record.run_log_start) not in (0, runs):
        return f"run_log_start holds {len(record.run_log_start)} values for {runs} runs"
    if sum(record.run_length) != accepted:
        return f"run lengths add up to {sum(record.run_length)}, byte_size holds {accepted} batches"
    if not len(record.record_count_minus_one) == len(record.timestamp_age) == accepted:
        return f"batch columns differ in length from byte_size's {accepted}"
    if len(record.byte_gap) not in (0, accepted) or len(record.timestamp_type) not in (0, accepted):
        return f"byte_gap or timestamp_type is neither empty nor {accepted} long"
    if not len(record.producer_id) == len(record.producer_epoch) == len(record.base_sequence) == producers:
        return f"producer columns differ in length from producer_index's {producers}"
    lengths = {len(record.other_code), len(record.other_base_offset), len(record.other_time)}
    if lengths | {len(record.other_log_start), len(record.other_message)} != {others}:
        return f"columns of other batches differ in length from other_index's {others}"
    return None


def _find_index_fault(record: FileCommitted) -> str | None:
    accepted = len(record.byte_size)
    total = accepted + len(record.other_index)
    # Distances are not negative here, so their sum is the greatest index; a 0 after the first names an index twice.
    if record.producer_index and (sum(record.producer_index) >= accepted or 0 in record.producer_index[1:]):
        return f"producer_index does not name distinct batches of {accepted} accepted ones"
    if record.other_index and (sum(record.other_index) >= total or 0 in record.other_index[1:]):
        return f"other_index does not name distinct places of {total} batches"
    return None


def _find_overflow(record: FileCommitted, base_offset_max: int, age_min: int, age_max: int) -> str | None:
    accepted = len(record.byte_size)
    if base_offset_max + sum(record.record_count_minus_one) + accepted > LONG_MAX:
        return f"offsets from {base_offset_max} on exceed 64 bits"
    if accepted and not (record.append_time_ms - age_max >= LONG_MIN and record.append_time_ms - age_min <= LONG_MAX):
        return f"timestamps {age_min} to {age_max} ms before {record.append_time_ms} exceed 64 bits"
    if record.byte_gap:
        ends = list(accumulate(map(add, record.byte_gap, record.byte_size)))
        if max(ends) > LONG_MAX or any(end < size for end, size in zip(ends, record.byte_size, strict=True)):
            return "byte positions of batches are negative or exceed 64 bits"
    return None
