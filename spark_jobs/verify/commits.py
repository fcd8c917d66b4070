"""The accepted batches of many commits with their user partitions numbered: what the rebuild works on in a few numpy calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from records.committed_files.codec import FileTable, last_sequences
from records.committed_files.lines import (
    BASE_OFFSET,
    BASE_SEQUENCE,
    BYTE_OFFSET,
    BYTE_SIZE,
    FILE,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TOPIC_HIGH,
    TOPIC_LOW,
    VERDICT,
)

Int64s = npt.NDArray[np.int64]

LOG_APPEND_TIME = 1


@dataclass(slots=True, kw_only=True)
class Idempotent:
    """The idempotent ones among some accepted batches; `batch` is the place among all of them."""

    batch: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    base_sequence: Int64s
    last_sequence: Int64s


@dataclass(slots=True, kw_only=True)
class Commits:
    """Accepted batches of some files in log order. `columns` are `BATCH_COLUMNS`; `keys[number[i]]` is the partition of batch i."""

    keys: list[bytes]
    number: Int64s
    file: Int64s
    columns: dict[str, Int64s]
    append_time: Int64s
    idempotent: Idempotent

    def effective_time(self) -> Int64s:
        """Append time for LogAppendTime batches, else the batch's largest timestamp."""
        times: Int64s = np.where(self.columns["type"] == LOG_APPEND_TIME, self.append_time, self.columns["timestamp"])
        return times


def gather(offsets: Int64s, files: FileTable) -> Commits:
    """The accepted batches of files, each committed by the entry at its offset."""
    accepted = (files.lines[:, VERDICT] == 0).nonzero()[0]
    lines = files.lines[accepted]
    file = lines[:, FILE]
    keys, number = _number_partitions(lines)
    append_times = np.array([head.append_time_ms for head in files.heads], np.int64)
    columns = {
        "base": lines[:, BASE_OFFSET],
        "count": lines[:, RECORD_COUNT],
        "byte_offset": lines[:, BYTE_OFFSET],
        "size": lines[:, BYTE_SIZE],
        "file": offsets[file],
        "index": accepted - np.array(files.first_line, np.int64)[file],
        "timestamp": lines[:, TIMESTAMP],
        "type": lines[:, TIMESTAMP_TYPE],
    }
    batch = (lines[:, PRODUCER_ID] >= 0).nonzero()[0]
    idempotent = Idempotent(
        batch=batch,
        producer_id=lines[batch, PRODUCER_ID],
        producer_epoch=lines[batch, PRODUCER_EPOCH],
        base_sequence=lines[batch, BASE_SEQUENCE],
        last_sequence=last_sequences(lines[batch]),
    )
    return Commits(keys=keys, number=number, file=file, columns=columns, append_time=append_times[file], idempotent=idempotent)


def _number_partitions(lines: Int64s) -> tuple[list[bytes], Int64s]:
    """The keys of all partitions of some batches, and which of them each batch is of."""
    names = np.empty(len(lines), [("high", ">i8"), ("low", ">i8"), ("partition", ">i4")])
    names["high"], names["low"], names["partition"] = lines[:, TOPIC_HIGH], lines[:, TOPIC_LOW], lines[:, PARTITION]
    codes: dict[bytes, int] = {}
    number = np.array([codes.setdefault(name, len(codes)) for name in names.view("V20").tolist()], np.int64)
    return list(codes), number
