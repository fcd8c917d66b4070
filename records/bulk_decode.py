"""Many `FileCommitted` entries decoded together: the counterpart of `records.bulk`.

    taken, files = decode_file_entries(data, starts, ends)

`data` (uint8) holds the values of many messages, an Arrow column's buffer or joined values, message i being
`data[starts[i]:ends[i]]` (int64). Messages may be anything. Taken are those that are exactly what
`records.codec.encode_entry` writes for one `FileCommitted`, with at most `OWNERS_MAX` owners and without error messages:
files with duplicates are taken, files with rejections, which have messages, are not. `taken` is a mask of the messages;
`files` (`records.bulk_files.FileColumns`) has the columns of those files in their order, and `files.message` the
message of each. All other messages are left to `records.codec.decode_entry`, which is the truth, and which gives for a
taken message the very record that is in the columns. No bytes make this fail, and memory is bounded by a multiple of
the size of the messages.

How many values a file has in the columns of runs, batches, producers and others is in `*_of_file`: the values of file f
in a column of kind k are `column[ends[f] - k_of_file[f] : ends[f]]` with `ends = k_of_file.cumsum()`. What the columns
mean is said in `records.model.FileCommitted`; `records.bulk_expand` derives offsets, positions and sequences.
`records.bulk_files` also makes the same columns from records that `decode_entry` gave (`files_of`), puts both in the
order of their messages (`merge_files`) and picks files (`FileColumns.take`).

`read_files` is the same without cutting keys and ids out of the messages: what it returns (`RawFiles`) says where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from records import decode_loops
from records.bulk import FileNumbers
from records.bulk_files import ID_SIZE_BYTES, NUMBERS_OF, OTHERS_OF, FileColumns, OtherNumbers, join_files
from records.fast import PREFIX_OF_LEVEL
from records.varints import Bytes, Int64s

__all__ = ["OWNERS_MAX", "FileColumns", "RawFiles", "decode_file_entries", "read_files"]

Mask = npt.NDArray[np.bool_]
Table = npt.NDArray[np.int64]
"""Two-dimensional."""

OWNERS_MAX = 64
"""A file with more owners is left to the codec: no version writes one, and its owners need no room here."""

SLICE_BYTES = 1 << 20
"""How many bytes of messages are worked on at a time, so that what is needed meanwhile stays small."""

HEAD_FIELDS = (
    "message", "key_start", "key_size", "object_format", "file_size", "uploader_broker_id", "owners_of_file", "created_ms",
    "append_time_ms", "hash_start", "topics_of_file", "topics_start", "runs_of_file", "batches_of_file", "producers_of_file",
    "others_of_file",
)  # fmt: skip
"""The properties of a file as a whole, in the order of the rows of `RawFiles.heads`."""

_ROW = {name: row for row, name in enumerate(HEAD_FIELDS)}
_PREFIXES = b"".join(PREFIX_OF_LEVEL.values())


_COLUMNS = {"runs_of_file": 0, "batches_of_file": 5, "producers_of_file": 10, "others_of_file": 14}
"""The first of the rows of `RawFiles.columns` that a count measures."""
_COLUMN_COUNT = 20


@dataclass(slots=True)
class RawFiles:
    """Files as they were read: a column of `heads` per file, and the columns of an entry, a row each, over all files together.

    The rows of `columns` are those that `records.bulk_files.NUMBERS_OF` and `OTHERS_OF` name, in that order. Places in `heads`
    are in the bytes that were read. Arrays are longer than what is in them. `all_accepted` is whether every message is a file
    with batches, none of which was not accepted.
    """

    files: int
    owners: int
    runs: int
    batches: int
    producers: int
    others: int
    all_accepted: bool
    heads: Table
    owner_ids: Int64s
    columns: Table

    def __len__(self) -> int:
        return self.files

    def head(self, name: str) -> Int64s:
        """One of `HEAD_FIELDS`."""
        row: Int64s = self.heads[_ROW[name], : self.files]
        return row


def numbers_max(size_bytes: int) -> int:
    """How many numbers the columns of messages of so many bytes may need."""
    return _COLUMN_COUNT * (size_bytes // 3)


def read_files(data: Bytes | bytes, starts: Int64s, ends: Int64s, room: Int64s | None = None) -> RawFiles:
    """Read the messages that are plain `FileCommitted` entries; see the module's text.

    `data` must be contiguous, and 0 <= start <= end <= len(data) for every message. The columns stand in `room`, when it is
    given and there are `numbers_max` places: memory that was used a moment ago is faster than new.
    """
    messages = len(starts)
    sizes = (ends - starts).tolist()
    total_bytes = sum(sizes)
    heads = np.empty((len(HEAD_FIELDS), messages), np.int64)
    owner_ids = np.empty(min(messages * OWNERS_MAX, total_bytes), np.int64)
    places = numbers_max(total_bytes)
    columns = (np.empty(places, np.int64) if room is None or len(room) < places else room[:places]).reshape(_COLUMN_COUNT, -1)
    files, owners, runs, batches, producers, others, accepted = decode_loops.read_files(
        data if isinstance(data, bytes) else data.data,  # type: ignore[arg-type]  # bytes read as a memoryview of them does
        _PREFIXES,  # type: ignore[arg-type]
        starts.data,
        ends.data,
        OWNERS_MAX,
        np.empty(max(sizes, default=0), np.int64).data,
        heads.data,
        owner_ids.data,
        columns.data,
    )
    return RawFiles(files, owners, runs, batches, producers, others, accepted == messages, heads, owner_ids, columns)


def decode_file_entries(data: Bytes, starts: Int64s, ends: Int64s) -> tuple[Mask, FileColumns]:
    """Decode the messages that are plain `FileCommitted` entries; see the module's text.

    `data` must be contiguous, and 0 <= start <= end <= len(data) for every message.
    """
    raw = data.tobytes()  # cheaper to cut than a view
    portion = (ends - starts).cumsum() // SLICE_BYTES
    cuts = [0, *((portion[1:] != portion[:-1]).nonzero()[0] + 1).tolist(), len(starts)]
    pieces = [_decode_slice(raw, start, starts[start:stop], ends[start:stop]) for start, stop in pairwise(cuts)]
    files = join_files(pieces)
    taken = np.zeros(len(starts), bool)
    taken[files.message] = True
    return taken, files


def _decode_slice(raw: bytes, first_message: int, starts: Int64s, ends: Int64s) -> FileColumns:
    files = read_files(raw, starts, ends)
    head = files.head
    totals = dict(zip(_COLUMNS, (files.runs, files.batches, files.producers, files.others), strict=True))
    numbers = {
        name: files.columns[row, : totals[kind]]
        for kind, names in (NUMBERS_OF | OTHERS_OF).items()
        for row, name in enumerate(names, _COLUMNS[kind])
    }
    return FileColumns(
        message=head("message") + first_message,
        key_size=head("key_size"),
        keys=_join_bytes(raw, head("key_start"), head("key_size")),
        object_format=head("object_format"),
        file_size=head("file_size"),
        uploader_broker_id=head("uploader_broker_id"),
        owners_of_file=head("owners_of_file"),
        owner_ids=files.owner_ids[: files.owners],
        created_ms=head("created_ms"),
        append_time_ms=head("append_time_ms"),
        content_hashes=_join_bytes(raw, head("hash_start"), np.full(len(files), ID_SIZE_BYTES)),
        topics_of_file=head("topics_of_file"),
        topic_ids=_join_bytes(raw, head("topics_start"), head("topics_of_file") * ID_SIZE_BYTES),
        numbers=FileNumbers(**_of_kinds(files, numbers, NUMBERS_OF)),
        others=OtherNumbers(**_of_kinds(files, numbers, OTHERS_OF)),
    )


def _of_kinds(files: RawFiles, numbers: dict[str, Int64s], kinds: Mapping[str, tuple[str, ...]]) -> dict[str, Int64s]:
    return {kind: files.head(kind) for kind in kinds} | {name: numbers[name] for names in kinds.values() for name in names}


def _join_bytes(raw: bytes, starts: Int64s, sizes: Int64s) -> bytes:
    return b"".join([raw[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)])
