"""The columns of many decoded `FileCommitted` entries, and picking and joining them.

`records.bulk_decode` makes them from bytes, `files_of` from records that another decoder read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from records.bulk import FileNumbers
from records.model import FileCommitted
from records.varints import Int64s

ID_SIZE_BYTES = 16
_ID = np.dtype((np.void, ID_SIZE_BYTES))

NUMBERS_OF = {
    "runs_of_file": ("run_topic", "run_partition", "run_length", "run_base_offset", "run_log_start"),
    "batches_of_file": ("byte_gap", "byte_size", "record_count_minus_one", "timestamp_age", "timestamp_type"),
    "producers_of_file": ("producer_index", "producer_id", "producer_epoch", "base_sequence"),
}
OTHERS_OF = {"others_of_file": ("other_index", "other_code", "other_base_offset", "other_time", "other_log_start")}
"""The columns of an entry that are measured by a count of each file, in the order of the entry."""

_PER_FILE = ("object_format", "file_size", "uploader_broker_id", "created_ms", "append_time_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherNumbers:
    """Columns of the batches that were not accepted anew, over all files together."""

    others_of_file: Int64s
    other_index: Int64s
    other_code: Int64s
    other_base_offset: Int64s
    other_time: Int64s
    other_log_start: Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """Columns over all files; `message` says which of the messages that were read each file is.

    `keys` are the object keys (UTF-8) one after the other; `content_hashes` and `topic_ids` have 16 bytes per item;
    `run_topic` counts from the file's first topic. Columns that an entry leaves out because all values are 0
    (`run_log_start`, `byte_gap`, `timestamp_type`) are filled with zeros.
    """

    message: Int64s
    key_size: Int64s
    keys: bytes
    object_format: Int64s
    file_size: Int64s
    uploader_broker_id: Int64s
    owners_of_file: Int64s
    owner_ids: Int64s
    created_ms: Int64s
    append_time_ms: Int64s
    content_hashes: bytes
    topics_of_file: Int64s
    topic_ids: bytes
    numbers: FileNumbers
    others: OtherNumbers

    def __len__(self) -> int:
        return len(self.message)

    def object_keys(self) -> list[str]:
        """The object key of each file."""
        keys = self.keys
        ends = self.key_size.cumsum().tolist()
        starts = [0, *ends[:-1]]
        if keys.isascii():
            text = keys.decode()
            return [text[start:end] for start, end in zip(starts, ends, strict=False)]
        return [keys[start:end].decode() for start, end in zip(starts, ends, strict=False)]

    def hash_list(self) -> list[bytes]:
        """The content hash of each file."""
        return _split(self.content_hashes)

    def topic_id_list(self) -> list[bytes]:
        """The topic ids of all files, file after file."""
        return _split(self.topic_ids)

    def take(self, which: Int64s) -> FileColumns:
        """The files at these places, in this order."""
        owner = ragged(_starts(self.owners_of_file)[which], self.owners_of_file[which])
        topic = ragged(_starts(self.topics_of_file)[which], self.topics_of_file[which])
        key = ragged(_starts(self.key_size)[which], self.key_size[which])
        return FileColumns(
            message=self.message[which],
            key_size=self.key_size[which],
            keys=np.frombuffer(self.keys, np.uint8)[key].tobytes(),
            owners_of_file=self.owners_of_file[which],
            owner_ids=self.owner_ids[owner],
            content_hashes=np.frombuffer(self.content_hashes, _ID)[which].tobytes(),
            topics_of_file=self.topics_of_file[which],
            topic_ids=np.frombuffer(self.topic_ids, _ID)[topic].tobytes(),
            numbers=FileNumbers(**_take(self.numbers, NUMBERS_OF, which)),
            others=OtherNumbers(**_take(self.others, OTHERS_OF, which)),
            **{name: getattr(self, name)[which] for name in _PER_FILE},
        )


def ragged(starts: Int64s, counts: Int64s) -> Int64s:
    """The indexes `starts[i]` to `starts[i] + counts[i] - 1` for all i in turn."""
    index = np.repeat(starts - _starts(counts), counts)
    index += np.arange(len(index))
    return index


def sums_of(values: Int64s, counts: Int64s) -> Int64s:
    """The sum of each stretch of values, given how long the stretches are."""
    sums = np.zeros(len(values) + 1, np.int64)
    values.cumsum(out=sums[1:])
    ends = counts.cumsum()
    totals: Int64s = sums[ends] - sums[ends - counts]
    return totals


def join_files(pieces: Sequence[FileColumns]) -> FileColumns:
    """Several columns of files, of which there is one at least, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    arrays = ("message", "key_size", "owners_of_file", "owner_ids", "topics_of_file", *_PER_FILE)
    return FileColumns(
        keys=b"".join([piece.keys for piece in pieces]),
        content_hashes=b"".join([piece.content_hashes for piece in pieces]),
        topic_ids=b"".join([piece.topic_ids for piece in pieces]),
        numbers=FileNumbers(**_join([piece.numbers for piece in pieces], NUMBERS_OF)),
        others=OtherNumbers(**_join([piece.others for piece in pieces], OTHERS_OF)),
        **{name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in arrays},
    )


def merge_files(one: FileColumns, other: FileColumns) -> FileColumns:
    """The files of both in the order of their messages."""
    if not len(one) or not len(other):
        return one if len(one) else other
    both = join_files([one, other])
    return both.take(np.argsort(both.message, kind="stable"))


def files_of(records: Sequence[tuple[int, FileCommitted]]) -> FileColumns:
    """The columns of decoded records, each with its message; messages of batches not accepted are left out."""
    files = [record for _, record in records]
    keys = [record.object_key.encode() for record in files]
    return FileColumns(
        message=_array([message for message, _ in records]),
        key_size=_array(list(map(len, keys))),
        keys=b"".join(keys),
        owners_of_file=_array([len(record.owner_ids) for record in files]),
        owner_ids=_array([owner for record in files for owner in record.owner_ids]),
        content_hashes=b"".join([record.content_hash for record in files]),
        topics_of_file=_array([len(record.topic_ids) for record in files]),
        topic_ids=b"".join([topic_id for record in files for topic_id in record.topic_ids]),
        numbers=FileNumbers(**_columns_of(files, NUMBERS_OF)),
        others=OtherNumbers(**_columns_of(files, OTHERS_OF)),
        **{name: _array([getattr(record, name) for record in files]) for name in _PER_FILE},
    )


_MEASURED_BY = {
    "runs_of_file": "run_topic",
    "batches_of_file": "byte_size",
    "producers_of_file": "producer_index",
    "others_of_file": "other_index",
}


def _columns_of(files: Sequence[FileCommitted], kinds: Mapping[str, tuple[str, ...]]) -> dict[str, Int64s]:
    columns: dict[str, Int64s] = {}
    for counts_name, names in kinds.items():
        counts = [len(getattr(record, _MEASURED_BY[counts_name])) for record in files]
        columns[counts_name] = _array(counts)
        for name in names:
            values = [getattr(record, name) or [0] * count for record, count in zip(files, counts, strict=True)]
            columns[name] = _array(list(chain.from_iterable(values)))
    return columns


def _take(numbers: FileNumbers | OtherNumbers, kinds: Mapping[str, tuple[str, ...]], which: Int64s) -> dict[str, Int64s]:
    taken: dict[str, Int64s] = {}
    for counts_name, names in kinds.items():
        counts: Int64s = getattr(numbers, counts_name)
        taken[counts_name] = counts[which]
        index = ragged(_starts(counts)[which], counts[which])
        for name in names:
            taken[name] = getattr(numbers, name)[index]
    return taken


def _join(pieces: Sequence[FileNumbers | OtherNumbers], kinds: Mapping[str, tuple[str, ...]]) -> dict[str, Int64s]:
    names = chain.from_iterable((counts_name, *columns) for counts_name, columns in kinds.items())
    return {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names}


def _starts(counts: Int64s) -> Int64s:
    starts: Int64s = counts.cumsum() - counts
    return starts


def _split(ids: bytes) -> list[bytes]:
    return [ids[at : at + ID_SIZE_BYTES] for at in range(0, len(ids), ID_SIZE_BYTES)]


def _array(values: list[int]) -> Int64s:
    return np.array(values, np.int64)
