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
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from records.bulk import FileNumbers
from records.bulk_checks import Checker, have_lengths
from records.bulk_cut import COLUMNS, Cut, cut_columns
from records.bulk_files import ID_SIZE_BYTES, FileColumns, OtherNumbers, join_files
from records.bulk_head import OWNERS_MAX, Heads, Mask, find_candidates, read_heads
from records.varints import Bytes, Int64s

__all__ = ["OWNERS_MAX", "FileColumns", "decode_file_entries"]

SLICE_BYTES = 4 << 20
"""How many bytes of messages are worked on at a time, so that what is needed meanwhile stays small."""

_SPARSE = {"run_log_start": "runs_of_file", "byte_gap": "batches_of_file", "timestamp_type": "batches_of_file"}


def decode_file_entries(data: Bytes, starts: Int64s, ends: Int64s) -> tuple[Mask, FileColumns]:
    """Decode the messages that are plain `FileCommitted` entries; see the module's text.

    `data` must be contiguous, and 0 <= start <= end <= len(data) for every message.
    """
    candidates = find_candidates(data, starts, ends)
    raw = data.tobytes()  # cheaper to cut than a view
    pieces = [_decode_slice(data, raw, part, starts[part], ends[part]) for part in _slices(candidates, (ends - starts)[candidates])]
    files = join_files(pieces)
    taken = np.zeros(len(starts), bool)
    taken[files.message] = True
    return taken, files


def _slices(candidates: Int64s, sizes: Int64s) -> list[Int64s]:
    """The candidates in portions of about `SLICE_BYTES`."""
    before = sizes.cumsum() - sizes
    portion = before // SLICE_BYTES
    return np.split(candidates, (portion[1:] != portion[:-1]).nonzero()[0] + 1)


def _decode_slice(data: Bytes, raw: bytes, message: Int64s, start: Int64s, end: Int64s) -> FileColumns:
    heads = read_heads(data, message, start, end)
    # The last byte is the end of the entry's array of records, and keeps one file's numbers apart from the next one's.
    heads = heads.keep(data.take(heads.end - 1, mode="clip") == 0)
    encoded = np.frombuffer(_join_bytes(raw, heads.columns_start, heads.end), np.uint8)
    cut, sound = cut_columns(encoded, (heads.end - heads.columns_start).cumsum())
    sound &= have_lengths(cut.counts)
    heads, cut = heads.keep(sound), cut.keep(sound)
    numbers, bounds = cut.gather()
    checker = Checker(numbers, bounds, cut.counts)
    checker.check(heads.topic_count, heads.append_time_ms)
    keys = _join_bytes(raw, heads.key_start, heads.key_start + heads.key_size)
    if not keys.isascii():
        checker.sound &= _are_text(raw, heads)
    if not checker.sound.all():
        heads, cut = heads.keep(checker.sound), cut.keep(checker.sound)
        numbers, bounds = cut.gather()
        keys = _join_bytes(raw, heads.key_start, heads.key_start + heads.key_size)
    return _assemble(raw, heads, keys, _columns(cut, numbers, bounds))


def _join_bytes(raw: bytes, starts: Int64s, ends: Int64s) -> bytes:
    return b"".join([raw[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])


def _are_text(raw: bytes, heads: Heads) -> Mask:
    """Which object keys are UTF-8."""
    return np.array(
        [_is_text(raw[start : start + size]) for start, size in zip(heads.key_start.tolist(), heads.key_size.tolist(), strict=True)], bool
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _columns(cut: Cut, numbers: Int64s, bounds: Int64s) -> dict[str, Int64s]:
    """The columns by name, with those filled in that an entry may leave out, and how many values each file has of a kind."""
    columns = {name: numbers[start:end] for name, start, end in zip(COLUMNS, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)}
    counts = dict(zip(COLUMNS, cut.counts, strict=True))
    columns |= {
        "runs_of_file": counts["run_topic"],
        "batches_of_file": counts["byte_size"],
        "producers_of_file": counts["producer_index"],
        "others_of_file": counts["other_index"],
    }
    for name, kind in _SPARSE.items():
        of_file = columns[kind]
        total = int(of_file.sum())
        if len(columns[name]) < total:
            filled = np.zeros(total, np.int64)
            filled[np.repeat(counts[name] > 0, of_file)] = columns[name]
            columns[name] = filled
    return columns


def _assemble(raw: bytes, heads: Heads, keys: bytes, columns: dict[str, Int64s]) -> FileColumns:
    owners = heads.owners
    places = np.arange(len(owners))[:, None] < heads.owner_count
    return FileColumns(
        message=heads.message,
        key_size=heads.key_size,
        keys=keys,
        object_format=heads.object_format,
        file_size=heads.file_size,
        uploader_broker_id=heads.uploader_broker_id,
        owners_of_file=heads.owner_count,
        owner_ids=owners.T[places.T],
        created_ms=heads.created_ms,
        append_time_ms=heads.append_time_ms,
        content_hashes=_join_bytes(raw, heads.hash_start, heads.hash_start + ID_SIZE_BYTES),
        topics_of_file=heads.topic_count,
        topic_ids=_join_bytes(raw, heads.topics_start, heads.topics_start + heads.topic_count * ID_SIZE_BYTES),
        numbers=FileNumbers(**{field.name: columns[field.name] for field in fields(FileNumbers)}),
        others=OtherNumbers(**{field.name: columns[field.name] for field in fields(OtherNumbers)}),
    )
