"""Batches spelled out for many files together are those spelled out file by file."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.records_codec import make_file
from records.bulk_expand import expand_batches, expand_idempotent, topics_of_runs
from records.bulk_files import FileColumns, files_of
from records.file_columns import expand
from records.model import FileCommitted
from tests.records.strategies import files_committed


def spelled_out(records: list[FileCommitted]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for file, record in enumerate(records):
        batches = expand(record)
        columns = [
            batches.partition, batches.log_start, batches.base_offset, batches.record_count, batches.byte_offset, batches.byte_size,
            batches.timestamp_ms, batches.timestamp_type, batches.producer_id, batches.producer_epoch, batches.base_sequence,
            batches.last_sequence,
        ]  # fmt: skip
        topics = [record.topic_ids[index] for index in batches.topic_index.tolist()]
        rows += [(file, *row) for row in zip(topics, *(column.tolist() for column in columns), strict=True)]
    return rows


def spelled_out_together(files: FileColumns) -> list[tuple[object, ...]]:
    numbers, batches, idempotent = files.numbers, expand_batches(files), expand_idempotent(files.numbers)
    producers = np.full((4, len(batches.file)), -1)
    producers[:, idempotent.batch] = (
        idempotent.producer_id,
        idempotent.producer_epoch,
        idempotent.base_sequence,
        idempotent.last_sequence,
    )
    topic_ids = files.topic_id_list()
    columns = [
        numbers.run_partition[batches.run], numbers.run_log_start[batches.run], batches.base_offset, batches.record_count,
        batches.byte_offset, batches.byte_size, batches.timestamp_ms, batches.timestamp_type, *producers,
    ]  # fmt: skip
    topics = [topic_ids[place] for place in topics_of_runs(files)[batches.run].tolist()]
    return [tuple(row) for row in zip(batches.file.tolist(), topics, *(column.tolist() for column in columns), strict=True)]


@settings(deadline=None)
@given(st.lists(files_committed(), max_size=6))
def test_any_files(records: list[FileCommitted]) -> None:
    assert spelled_out_together(files_of(list(enumerate(records)))) == spelled_out(records)


def test_realistic_files() -> None:
    records = [make_file(random.Random(size), size) for size in (1, 100, 17, 300)]
    assert spelled_out_together(files_of(list(enumerate(records)))) == spelled_out(records)
