"""The files of a piece of the log as columns, whichever way they were decoded.

`ScannedFiles` is what the rules of the scan work on: plain files come from `records.bulk_decode`, all others from records
that the codec decoded, and `merged` puts both in log order. Values are those of `records.model.FileCommitted`, with the
columns that an entry leaves out filled with zeros; only files whose columns agree with each other get here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from records import bulk_files
from records.bulk_files import ragged
from records.model import FileCommitted

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


class FilePlace(NamedTuple):
    """Where a file stands: its step in the scan, the offset and time of its entry, and its number within the entry."""

    at: int
    offset: int
    append_ms: int
    number: int


@dataclass(slots=True, kw_only=True)
class ScannedFiles:
    """One value per file in the first block, then one per run, batch, idempotent batch and batch not accepted anew.

    `keys` are the object keys one after the other, `topic_ids` a row of two numbers per id.
    """

    at: Int64s
    offset: Int64s
    append_ms: Int64s
    number: Int64s
    key_size: Int64s
    keys: Bytes
    file_size: Int64s
    uploader: Int64s
    created_ms: Int64s
    append_time_ms: Int64s
    owners_of_file: Int64s
    topics_of_file: Int64s
    runs_of_file: Int64s
    batches_of_file: Int64s
    producers_of_file: Int64s
    others_of_file: Int64s
    owner_ids: Int64s
    topic_ids: Int64s
    run_topic: Int64s
    run_partition: Int64s
    run_length: Int64s
    run_base_offset: Int64s
    run_log_start: Int64s
    byte_gap: Int64s
    byte_size: Int64s
    record_count_minus_one: Int64s
    producer_index: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    base_sequence: Int64s
    other_code: Int64s

    def __len__(self) -> int:
        return len(self.at)

    def key(self, file: int) -> str:
        """The object key of a file."""
        start = int(self.key_size[:file].sum())
        return self.keys[start : start + int(self.key_size[file])].tobytes().decode()

    def take(self, which: Int64s) -> ScannedFiles:
        """The files at these places, in their order."""
        values: dict[str, object] = {}
        pickers = {count: ragged(starts_of(getattr(self, count))[which], getattr(self, count)[which]) for count in _COUNTS}
        for field in fields(self):
            count = _COUNT_OF.get(field.name)
            values[field.name] = getattr(self, field.name)[which if count is None else pickers[count]]
        return ScannedFiles(**values)  # type: ignore[arg-type]


_COUNTS = ("key_size", "owners_of_file", "topics_of_file", "runs_of_file", "batches_of_file", "producers_of_file", "others_of_file")
_COUNT_OF = {
    "keys": "key_size",
    "owner_ids": "owners_of_file",
    "topic_ids": "topics_of_file",
    **dict.fromkeys(("run_topic", "run_partition", "run_length", "run_base_offset", "run_log_start"), "runs_of_file"),
    **dict.fromkeys(("byte_gap", "byte_size", "record_count_minus_one"), "batches_of_file"),
    **dict.fromkeys(("producer_index", "producer_id", "producer_epoch", "base_sequence"), "producers_of_file"),
    "other_code": "others_of_file",
}


def starts_of(counts: Int64s) -> Int64s:
    """Where the values of each file begin."""
    starts: Int64s = counts.cumsum() - counts
    return starts


def columns_of_decoded(files: bulk_files.FileColumns, at: Int64s, offset: Int64s, append_ms: Int64s) -> ScannedFiles:
    """The files of many entries that were decoded together; the places are given by message."""
    message, numbers = files.message, files.numbers
    return ScannedFiles(
        at=at[message],
        offset=offset[message],
        append_ms=append_ms[message],
        number=np.zeros(len(message), np.int64),
        key_size=files.key_size,
        keys=np.frombuffer(files.keys, np.uint8),
        file_size=files.file_size,
        uploader=files.uploader_broker_id,
        created_ms=files.created_ms,
        append_time_ms=files.append_time_ms,
        owners_of_file=files.owners_of_file,
        topics_of_file=files.topics_of_file,
        runs_of_file=numbers.runs_of_file,
        batches_of_file=numbers.batches_of_file,
        producers_of_file=numbers.producers_of_file,
        others_of_file=files.others.others_of_file,
        owner_ids=files.owner_ids,
        topic_ids=_ids(files.topic_ids),
        run_topic=numbers.run_topic,
        run_partition=numbers.run_partition,
        run_length=numbers.run_length,
        run_base_offset=numbers.run_base_offset,
        run_log_start=numbers.run_log_start,
        byte_gap=numbers.byte_gap,
        byte_size=numbers.byte_size,
        record_count_minus_one=numbers.record_count_minus_one,
        producer_index=numbers.producer_index,
        producer_id=numbers.producer_id,
        producer_epoch=numbers.producer_epoch,
        base_sequence=numbers.base_sequence,
        other_code=files.others.other_code,
    )


def _ids(ids: bytes) -> Int64s:
    return np.frombuffer(ids, np.int64).reshape(-1, 2)


def columns_of_records(records: Sequence[tuple[FilePlace, FileCommitted]]) -> ScannedFiles:
    """The files of records that were decoded one by one."""

    def per_file(values: Sequence[int]) -> Int64s:
        return np.array(values, np.int64)

    def flat(name: str, counts: Int64s) -> Int64s:
        columns: list[list[int]] = [getattr(record, name) for _, record in records]
        filled = [column or [0] * count for column, count in zip(columns, counts.tolist(), strict=True)]
        return np.array(list(chain.from_iterable(filled)), np.int64)

    def lengths(name: str) -> Int64s:
        return per_file([len(getattr(record, name)) for _, record in records])

    keys = [record.object_key.encode() for _, record in records]
    runs, batches, producers = lengths("run_length"), lengths("byte_size"), lengths("producer_index")
    owners, others = lengths("owner_ids"), lengths("other_code")
    return ScannedFiles(
        at=per_file([place.at for place, _ in records]),
        offset=per_file([place.offset for place, _ in records]),
        append_ms=per_file([place.append_ms for place, _ in records]),
        number=per_file([place.number for place, _ in records]),
        key_size=per_file(list(map(len, keys))),
        keys=np.frombuffer(b"".join(keys), np.uint8),
        file_size=per_file([record.file_size for _, record in records]),
        uploader=per_file([record.uploader_broker_id for _, record in records]),
        created_ms=per_file([record.created_ms for _, record in records]),
        append_time_ms=per_file([record.append_time_ms for _, record in records]),
        owners_of_file=owners,
        topics_of_file=lengths("topic_ids"),
        runs_of_file=runs,
        batches_of_file=batches,
        producers_of_file=producers,
        others_of_file=others,
        owner_ids=flat("owner_ids", owners),
        topic_ids=_ids(b"".join([topic_id for _, record in records for topic_id in record.topic_ids])),
        run_topic=flat("run_topic", runs),
        run_partition=flat("run_partition", runs),
        run_length=flat("run_length", runs),
        run_base_offset=flat("run_base_offset", runs),
        run_log_start=flat("run_log_start", runs),
        byte_gap=flat("byte_gap", batches),
        byte_size=flat("byte_size", batches),
        record_count_minus_one=flat("record_count_minus_one", batches),
        producer_index=flat("producer_index", producers),
        producer_id=flat("producer_id", producers),
        producer_epoch=flat("producer_epoch", producers),
        base_sequence=flat("base_sequence", producers),
        other_code=flat("other_code", others),
    )


def merged(first: ScannedFiles, second: ScannedFiles) -> ScannedFiles:
    """The files of both, in log order."""
    values: dict[str, object] = {}
    for field in fields(ScannedFiles):
        values[field.name] = np.concatenate((getattr(first, field.name), getattr(second, field.name)))
    both = ScannedFiles(**values)  # type: ignore[arg-type]
    return both.take(np.argsort(both.at, kind="stable"))
