"""The columns of many files expanded to one value per batch: `records.file_columns.expand` for all files at once.

Works on columns that are consistent, as all are that were decoded; nothing here checks again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from records.bulk import FileNumbers
from records.bulk_files import FileColumns
from records.file_columns import SEQUENCE_MODULUS
from records.varints import Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchColumns:
    """All accepted batches of all files, in order; `file` and `run` are places among the files and among all runs."""

    file: Int64s
    run: Int64s
    base_offset: Int64s
    record_count: Int64s
    byte_offset: Int64s
    byte_size: Int64s
    timestamp_ms: Int64s
    timestamp_type: Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentBatches:
    """The idempotent ones among the accepted batches; `batch` is the place among all of them."""

    batch: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    base_sequence: Int64s
    last_sequence: Int64s


def expand_batches(files: FileColumns) -> BatchColumns:
    """The accepted batches of all files."""
    numbers = files.numbers
    file = np.repeat(np.arange(len(files)), numbers.batches_of_file)
    count = numbers.record_count_minus_one + 1
    return BatchColumns(
        file=file,
        run=np.repeat(np.arange(len(numbers.run_length)), numbers.run_length),
        base_offset=_base_offsets(numbers, count),
        record_count=count,
        byte_offset=_byte_offsets(numbers),
        byte_size=numbers.byte_size,
        timestamp_ms=files.append_time_ms[file] - numbers.timestamp_age,
        timestamp_type=numbers.timestamp_type,
    )


def expand_idempotent(numbers: FileNumbers) -> IdempotentBatches:
    """The idempotent accepted batches of all files."""
    per_file = numbers.producers_of_file
    used = per_file > 0
    step = numbers.producer_index.cumsum()
    first = (per_file.cumsum() - per_file)[used]
    # Distances count within the file: less the distances of the files before, plus the batches before.
    shift = (numbers.batches_of_file.cumsum() - numbers.batches_of_file)[used] - step[first] + numbers.producer_index[first]
    batch = step + shift.repeat(per_file[used])
    last = (numbers.base_sequence + numbers.record_count_minus_one[batch]) % SEQUENCE_MODULUS
    return IdempotentBatches(
        batch=batch,
        producer_id=numbers.producer_id,
        producer_epoch=numbers.producer_epoch,
        base_sequence=numbers.base_sequence,
        last_sequence=last,
    )


def topics_of_runs(files: FileColumns) -> Int64s:
    """The place of each run's topic among the topic ids of all files."""
    first_topic = files.topics_of_file.cumsum() - files.topics_of_file
    places: Int64s = files.numbers.run_topic + first_topic.repeat(files.numbers.runs_of_file)
    return places


def _base_offsets(numbers: FileNumbers, count: Int64s) -> Int64s:
    """Dense within a run."""
    length = numbers.run_length
    before = count.cumsum() - count
    first = length.cumsum() - length
    bases: Int64s = before + (numbers.run_base_offset - before[first]).repeat(length)
    return bases


def _byte_offsets(numbers: FileNumbers) -> Int64s:
    """Where each batch begins: after the one before it and the gap."""
    per_file = numbers.batches_of_file
    end = (numbers.byte_size + numbers.byte_gap).cumsum()
    before = np.zeros(len(end) + 1, np.int64)
    before[1:] = end
    starts: Int64s = end - numbers.byte_size - before[per_file.cumsum() - per_file].repeat(per_file)
    return starts
