"""Columns of many plain commits at once, sorted by user partition: what the rebuild hashes and counts in a few numpy calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from records.file_columns import CommittedBatches, expand
from records.model import FileCommitted

Int64s = npt.NDArray[np.int64]

LOG_APPEND_TIME = 1


@dataclass(slots=True, kw_only=True)
class Commits:
    """Accepted batches of some files. `columns` has `BATCH_COLUMNS` and more, in log order; `keys` of `number` name partitions."""

    keys: list[bytes]
    number: Int64s
    file: Int64s
    columns: dict[str, Int64s]
    append_time: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    first_sequence: Int64s
    last_sequence: Int64s

    def effective_time(self) -> Int64s:
        """Append time for LogAppendTime batches, else the batch's largest timestamp."""
        times: Int64s = np.where(self.columns["type"] == LOG_APPEND_TIME, self.append_time, self.columns["timestamp"])
        return times


def gather(offsets: Sequence[int], files: Sequence[FileCommitted]) -> Commits:
    """The batches of files committed by the entries at these offsets."""
    batches = [expand(file) for file in files]
    counts = np.array([len(one) for one in batches], np.int64)
    keys: dict[bytes, int] = {}
    numbers: list[Int64s] = []
    for file, one in zip(files, batches, strict=True):
        of_run = [
            keys.setdefault(file.topic_ids[topic] + partition.to_bytes(4, "big", signed=True), len(keys))
            for topic, partition in zip(file.run_topic, file.run_partition, strict=True)
        ]
        numbers.append(np.array(of_run, np.int64)[one.run])
    file_of = np.repeat(np.arange(len(files)), counts)
    offset_of = np.array(offsets, np.int64)[file_of]
    firsts = counts.cumsum() - counts
    columns = {
        "base": _joined(batches, "base_offset"),
        "count": _joined(batches, "record_count"),
        "byte_offset": _joined(batches, "byte_offset"),
        "size": _joined(batches, "byte_size"),
        "file": offset_of,
        "index": np.arange(len(file_of)) - firsts[file_of],
        "timestamp": _joined(batches, "timestamp_ms"),
        "type": _joined(batches, "timestamp_type"),
    }
    return Commits(
        keys=list(keys),
        number=np.concatenate(numbers) if numbers else np.zeros(0, np.int64),
        file=file_of,
        columns=columns,
        append_time=np.array([file.append_time_ms for file in files], np.int64)[file_of],
        producer_id=_joined(batches, "producer_id"),
        producer_epoch=_joined(batches, "producer_epoch"),
        first_sequence=_joined(batches, "base_sequence"),
        last_sequence=_joined(batches, "last_sequence"),
    )


def _joined(batches: Sequence[CommittedBatches], name: str) -> Int64s:
    joined: Int64s = np.concatenate([getattr(one, name) for one in batches]) if batches else np.zeros(0, np.int64)
    return joined
