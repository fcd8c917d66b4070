"""The hashes of many rows at once, each the one that `state_digest` says of a single row, without the interpreter lock.

The rows of a piece become one object of bytes, which holds the lock for a third of the time that hashing them one by one takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from records.hash_loops import hash_spans
from records.state_digest import RECORD_HASH_BYTES, Int64s

DIGEST_BYTES = 16
KEY_BYTES = 20

_PIECE_BYTES = 1 << 18
"""Copied with the interpreter lock in some tenths of a millisecond."""

_FILE_HEAD = np.dtype([("word", "S4"), ("numbers", ">i8", 7), ("content_hash_bytes", ">u4")])
_TOMBSTONE_HEAD = len(b"tombstone").to_bytes(4, "big") + b"tombstone"
_PRODUCER_HEAD = np.dtype([("word", "S8"), ("key", "u1", KEY_BYTES), ("numbers", ">i8", 3)])

Hashes = npt.NDArray[np.uint8]
"""A line of bytes for each row."""


def hash_files(
    file_ids: Sequence[int],
    object_keys: Sequence[str],
    content_hashes: Sequence[bytes],
    object_formats: Sequence[int],
    file_sizes: Sequence[int],
    uploader_broker_ids: Sequence[int],
    owner_ids: Sequence[str],
    created_ms: Sequence[int],
    append_times_ms: Sequence[int],
    batch_counts: Sequence[int],
) -> Hashes:
    """The hashes of known files, of each the one of `state_digest.hash_file`."""
    heads = np.empty(len(file_ids), _FILE_HEAD)
    heads["word"] = b"file"
    columns = (file_ids, file_sizes, append_times_ms, batch_counts, object_formats, uploader_broker_ids, created_ms)
    heads["numbers"] = np.array(columns, np.int64).T
    heads["content_hash_bytes"] = np.fromiter(map(len, content_hashes), np.int64, len(heads))
    return hash_rows([_bytes_of(heads), content_hashes, _few_texts(owner_ids), *_texts(object_keys)], DIGEST_BYTES)


def hash_tombstones(object_keys: Sequence[str], reasons: Sequence[str], times_ms: Sequence[int], created_ms: Sequence[int]) -> Hashes:
    """The hashes of tombstones, of each the one of `state_digest.hash_tombstone`."""
    heads = [_TOMBSTONE_HEAD] * len(object_keys)
    numbers = [f"{time_ms} {created}" for time_ms, created in zip(times_ms, created_ms, strict=True)]
    return hash_rows([heads, *_texts(object_keys), _few_texts(reasons), *_texts(numbers)], DIGEST_BYTES)


def hash_producers(keys: Sequence[bytes], numbers: Int64s, rings: Sequence[bytes]) -> Hashes:
    """The hashes of producers, of each the one of `state_digest.hash_producer`; `numbers` are its id, epoch and last append of each."""
    heads = np.empty(len(keys), _PRODUCER_HEAD)
    heads["word"] = b"producer"
    heads["key"] = np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_BYTES)
    heads["numbers"] = numbers
    return hash_rows([_bytes_of(heads), rings], DIGEST_BYTES)


def hash_records(encoded: Sequence[bytes]) -> Hashes:
    """The hashes of entries that committed files, of each the one of `state_digest.hash_record`."""
    return hash_rows([encoded], RECORD_HASH_BYTES)


def bytes_of(hashes: Hashes) -> list[bytes]:
    """The hashes one by one."""
    return _bytes_of(hashes.view(f"V{hashes.shape[1]}")[:, 0])


def lanes_of_hashes(hashes: Hashes) -> npt.NDArray[np.uint64]:
    """The hashes of rows in the form of `state_digest.lanes_of`."""
    return hashes.view(">u8").astype(np.uint64)


def _texts(texts: Sequence[str]) -> tuple[list[bytes], list[bytes]]:
    """The lengths of texts as 4 bytes each, and their UTF-8."""
    encoded = list(map(str.encode, texts))
    return _bytes_of(np.fromiter(map(len, encoded), np.int64, len(encoded)).astype(">u4")), encoded


def _few_texts(texts: Sequence[str]) -> list[bytes]:
    """Texts of which most are the same, each after its length."""
    known = {text: len(encoded := text.encode()).to_bytes(4, "big") + encoded for text in set(texts)}
    return list(map(known.__getitem__, texts))


def _bytes_of(rows: npt.NDArray[Any]) -> list[bytes]:
    raw: list[bytes] = rows.view(f"V{rows.itemsize}").tolist()
    return raw


def hash_rows(columns: Sequence[Sequence[bytes]], size: int) -> Hashes:
    """The BLAKE2b digest of `size` bytes of each row, the values of its columns one after the other."""
    rows = len(columns[0])
    hashes = np.empty((rows, size), np.uint8)
    lengths = sum(np.fromiter(map(len, column), np.int64, rows) for column in columns)
    ends = np.cumsum(lengths)
    at = before = 0
    while at < rows:
        stop = max(at + 1, int(ends.searchsorted(before + _PIECE_BYTES, "right")))
        piece = columns[0][at:stop] if len(columns) == 1 else chain.from_iterable(zip(*(c[at:stop] for c in columns), strict=True))
        hash_spans(b"".join(piece), (ends[at:stop] - before).data, size, hashes[at:stop].data)
        at, before = stop, int(ends[stop - 1])
    return hashes
