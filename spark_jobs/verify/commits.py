"""The batches of many commits as columns, with user partitions numbered: what the rebuild works on in a few numpy calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from records.bulk_expand import IdempotentBatches, expand_batches, expand_idempotent, topics_of_runs
from records.bulk_files import FileColumns

Int64s = npt.NDArray[np.int64]

LOG_APPEND_TIME = 1


@dataclass(slots=True, kw_only=True)
class Commits:
    """Accepted batches of some files in log order. `columns` are `BATCH_COLUMNS`; `keys[number[i]]` is the partition of batch i."""

    keys: list[bytes]
    number: Int64s
    file: Int64s
    columns: dict[str, Int64s]
    append_time: Int64s
    idempotent: IdempotentBatches

    def effective_time(self) -> Int64s:
        """Append time for LogAppendTime batches, else the batch's largest timestamp."""
        times: Int64s = np.where(self.columns["type"] == LOG_APPEND_TIME, self.append_time, self.columns["timestamp"])
        return times


def gather(offsets: Int64s, files: FileColumns) -> Commits:
    """The batches of files, each committed by the entry at its offset."""
    batches = expand_batches(files)
    per_file = files.numbers.batches_of_file
    keys, number_of_run = _number_partitions(files)
    first = per_file.cumsum() - per_file
    columns = {
        "base": batches.base_offset,
        "count": batches.record_count,
        "byte_offset": batches.byte_offset,
        "size": batches.byte_size,
        "file": offsets[batches.file],
        "index": np.arange(len(batches.file)) - first[batches.file],
        "timestamp": batches.timestamp_ms,
        "type": batches.timestamp_type,
    }
    return Commits(
        keys=keys,
        number=number_of_run[batches.run],
        file=batches.file,
        columns=columns,
        append_time=files.append_time_ms[batches.file],
        idempotent=expand_idempotent(files.numbers),
    )


def _number_partitions(files: FileColumns) -> tuple[list[bytes], Int64s]:
    """The keys of all partitions that have runs, and which of them each run is of."""
    codes: dict[bytes, int] = {}
    code_of_topic = np.array([codes.setdefault(topic_id, len(codes)) for topic_id in files.topic_id_list()], np.int64)
    named = code_of_topic[topics_of_runs(files)] << 32 | files.numbers.run_partition
    found, number_of_run = np.unique(named, return_inverse=True)
    topics = list(codes)
    keys = [topics[one >> 32] + (one & 0xFFFF_FFFF).to_bytes(4, "big") for one in found.tolist()]
    return keys, number_of_run.astype(np.int64)
