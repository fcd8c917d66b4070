"""The state digest: equal states have equal digests, in any order in which they were reached.

digest = sum modulo 2^128 of one hash per logical row, kept as two sums of 64 bits, so that a row is added or taken
away in constant time and a whole array of rows in a few numpy calls. Local row numbers never enter a hash.

Rows that count: the live batches, log positions and producers of the user partitions that exist, the known files, topics and
deleted topics, tombstones, the items of the directory, and one row for the position (the claim in force, its last entry, the
log's time). What a replica computes for itself, such as row numbers or counters of live batches, does not count.
Replicas keep the sum as they apply the log; `verify` computes it anew from the log alone. This module is all they share.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

UINT64_MASK = (1 << 64) - 1
U64 = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

RECORD_HASH_BYTES = 8

HASH_SEEDS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
"""Seeds of the low and the high half of a batch's hash."""

HASH_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""Multipliers of splitmix64's finaliser."""

BATCH_COLUMNS = ("base", "count", "byte_offset", "size", "file", "index", "timestamp", "type")
"""The hashed columns of a batch after its partition key: `file` is the offset of the entry that committed it, `index` its place
among the accepted batches of that entry, `timestamp` its largest one (not the append time) in ms."""

PRODUCER_RING = np.dtype([("first", "<i4"), ("last", "<i4"), ("base", "<i8"), ("time", "<i8")])
"""A remembered batch of a producer: sequences, base offset, LogAppendTime or -1. Hashed oldest first."""

_HASHER = blake2b(digest_size=16)
"""Copied for every hash: that takes half the time of making one."""

_THREE_NUMBERS = struct.Struct(">qqq")
_FOUR_NUMBERS = struct.Struct(">qqqq")
_SEVEN_NUMBERS = struct.Struct(">qqqqqqq")
_LANE_SEEDS = tuple(map(np.uint64, HASH_SEEDS))
_MULTIPLY_1, _MULTIPLY_2 = map(np.uint64, HASH_MULTIPLIERS)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_SLICE_ROWS = 1 << 12


class Digest(NamedTuple):
    """Two sums modulo 2^64."""

    low: int = 0
    high: int = 0

    def plus(self, other: Digest) -> Digest:
        return Digest((self.low + other.low) & UINT64_MASK, (self.high + other.high) & UINT64_MASK)

    def minus(self, other: Digest) -> Digest:
        return Digest((self.low - other.low) & UINT64_MASK, (self.high - other.high) & UINT64_MASK)

    def to_bytes(self) -> bytes:
        """16 bytes, big-endian."""
        return self.high.to_bytes(8, "big") + self.low.to_bytes(8, "big")

    @staticmethod
    def from_bytes(raw: bytes) -> Digest:
        return Digest(int.from_bytes(raw[8:16], "big"), int.from_bytes(raw[:8], "big"))


EMPTY = Digest()


def _mix(x: U64, scratch: U64) -> None:
    """The finaliser of splitmix64, in place."""
    np.right_shift(x, _S30, out=scratch)
    x ^= scratch
    x *= _MULTIPLY_1
    np.right_shift(x, _S27, out=scratch)
    x ^= scratch
    x *= _MULTIPLY_2
    np.right_shift(x, _S31, out=scratch)
    x ^= scratch


def _hash(raw: bytes) -> bytes:
    hasher = _HASHER.copy()
    hasher.update(raw)
    return hasher.digest()


def hash_bytes(*parts: bytes) -> Digest:
    """The hash of a row that is better described by bytes; parts are length-prefixed."""
    return Digest.from_bytes(_hash(_prefixed(*parts)))


def _prefixed(*parts: bytes) -> bytes:
    return b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def key_lanes(key: bytes) -> tuple[int, int]:
    """A 20-byte partition key as two int64 values for `hash_batches`."""
    raw = _hash(key)
    return int.from_bytes(raw[:8], "big", signed=True), int.from_bytes(raw[8:], "big", signed=True)


def hash_batches(lane_low: Int64s, lane_high: Int64s, batches: Mapping[str, Int64s] | npt.NDArray[np.void]) -> tuple[U64, U64]:
    """Two hashes per batch, given the lanes of its partition key and the `BATCH_COLUMNS` by name."""
    low = lane_low.view(np.uint64) ^ _LANE_SEEDS[0]
    high = lane_high.view(np.uint64) ^ _LANE_SEEDS[1]
    words = _words(batches)
    scratch = np.empty(min(len(low), _SLICE_ROWS), np.uint64)
    # Slices that stay in the cache of the processor.
    for start in range(0, len(low), _SLICE_ROWS):
        stop = min(start + _SLICE_ROWS, len(low))
        low_lane, high_lane, free = low[start:stop], high[start:stop], scratch[: stop - start]
        for word in words:
            values = word[start:stop]
            low_lane ^= values
            _mix(low_lane, free)
            low_lane += _LANE_SEEDS[0]
            high_lane += values
            _mix(high_lane, free)
            high_lane ^= _LANE_SEEDS[1]
    return low, high


def _words(batches: Mapping[str, Int64s] | npt.NDArray[np.void]) -> list[U64]:
    """The columns of a batch in as few numbers as hold them: sizes and places in a file have 31 bits, counts 32."""
    base, count, byte_offset, size, file, index, timestamp, kind = (
        np.ascontiguousarray(batches[name], np.int64).view(np.uint64) for name in BATCH_COLUMNS
    )
    return [base, count | byte_offset << _S32, size | kind << _S31 | index << _S32, file, timestamp]


def hash_partition(key: bytes, high_watermark: int, log_start: int, first_offset: int, prefix_start: int, leader_epoch: int) -> bytes:
    """The hash of a user partition that exists, without its batches, as `Digest.to_bytes`.

    `prefix_start` and `leader_epoch` are -1 for one of which no leader of a classic partition spoke; its hash has no trace of them.
    """
    numbers = b"%d %d %d" % (high_watermark, log_start, first_offset)
    if (prefix_start, leader_epoch) != (-1, -1):
        numbers += b" %d %d" % (prefix_start, leader_epoch)
    return _hash(_prefixed(b"partition", key, numbers))


def hash_producer(key: bytes, producer_id: int, epoch: int, last_append_ms: int, ring: bytes) -> bytes:
    """The hash of a producer of a user partition, as `Digest.to_bytes`; `ring` are its remembered batches as `PRODUCER_RING`."""
    return _hash(b"producer" + key + _THREE_NUMBERS.pack(producer_id, epoch, last_append_ms) + ring)


def hash_file(
    file_id: int,
    object_key: str,
    content_hash: bytes,
    object_format: int,
    file_size: int,
    uploader_broker_id: int,
    owner_ids: str,
    created_ms: int,
    append_time_ms: int,
    batch_count: int,
) -> bytes:
    """The hash of a known file as it was committed, as `Digest.to_bytes`; `owner_ids` are separated by commas.

    Its counter of live batches is not in the hash: it follows from the batches.
    """
    numbers = _SEVEN_NUMBERS.pack(file_id, file_size, append_time_ms, batch_count, object_format, uploader_broker_id, created_ms)
    return _hash(b"file" + numbers + _prefixed(content_hash, owner_ids.encode(), object_key.encode()))


def hash_record(encoded: bytes) -> bytes:
    """The hash of the entry that committed a file: a replica keeps the entry's bytes for some time, and their hash with the file."""
    return blake2b(encoded, digest_size=RECORD_HASH_BYTES).digest()


def hash_topic(topic_id: bytes, name: str, order_offset: int, deleted_ms: int) -> Digest:
    """The hash of a topic with partitions here (`deleted_ms` -1), or of a deleted one that is remembered."""
    return hash_bytes(b"topic", topic_id, name.encode(), b"%d %d" % (order_offset, deleted_ms))


def hash_tombstone(object_key: str, reason: str, time_ms: int, created_ms: int) -> bytes:
    """The hash of the tombstone of an object key, as `Digest.to_bytes`."""
    return _hash(_prefixed(b"tombstone", object_key.encode(), reason.encode(), b"%d %d" % (time_ms, created_ms)))


def hash_item(what: str, identity: str, says: Mapping[str, object]) -> Digest:
    """The hash of an item of the directory (a placement, a deletion, a node, the schema level), whose fields can be written as JSON."""
    return hash_bytes(b"directory", json.dumps([what, identity, says], sort_keys=True).encode())


def hash_position(epoch: int, term: int, seq: int, log_time_ms: int) -> Digest:
    """The hash of the position of a state besides its offset: the claim in force, its last entry that counted, the log's time."""
    return hash_bytes(b"position", _FOUR_NUMBERS.pack(epoch, term, seq, log_time_ms))


def lanes_of(hashes: Sequence[bytes]) -> U64:
    """Hashes as an array of two columns: what `Digest` calls high, and low."""
    return np.frombuffer(b"".join(hashes), ">u8").astype(np.uint64).reshape(-1, 2)


def sum_of(lanes: U64) -> Digest:
    """The sum of hashes."""
    high, low = lanes.sum(axis=0, dtype=np.uint64).tolist()
    return Digest(low, high)
