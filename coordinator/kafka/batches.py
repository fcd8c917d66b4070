"""The batches of a CommitFile request as one array: the shape in which they cross the core.

The layout is that of the wire (77 bytes per batch, big-endian), so that a request is decided on without being
decoded field by field. `topic_partition` is the topic id followed by the partition index: the key of `PartitionTable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

BATCH = np.dtype(
    [
        ("magic", "i1"),
        ("request_id", ">i4"),
        ("topic_partition", "V20"),
        ("byte_offset", ">i4"),
        ("size", ">i4"),
        ("base_offset", ">i8"),
        ("last_offset", ">i8"),
        ("max_timestamp", ">i8"),
        ("timestamp_type", "i1"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("last_sequence", ">i4"),
        ("tags", "u1"),
    ]
)
BatchArray: TypeAlias = npt.NDArray[np.void]

LOG_APPEND_TIME = 1
"""The timestamp type of a batch whose time is when the coordinator accepted it; 0 is CreateTime."""

SEQUENCE_MASK = 0x7FFFFFFF
"""Sequences wrap from 2147483647 to 0."""

CONTENT_HASH_BYTES = 16

KEY_PARTS = np.dtype({"names": ["high", "low", "partition"], "formats": ["<u8", "<u8", ">i4"], "offsets": [5, 13, 21], "itemsize": 77})
"""`topic_partition` as numbers: the halves of the topic id and the partition index."""

_FEW_BATCHES = 128
_REQUEST_ID_AT = 1
_REQUEST_ID_BYTES = 4
_HASH_PIECE_BYTES = 2047


def partition_key(topic_id: bytes, partition: int) -> bytes:
    """The 20 bytes that name a topic partition."""
    return topic_id + partition.to_bytes(4, "big", signed=True)


def split_partition_key(key: bytes) -> tuple[bytes, int]:
    """(topic id, partition index) of a 20-byte key."""
    return key[:16], int.from_bytes(key[16:], "big", signed=True)


def partition_keys(batches: BatchArray) -> set[bytes]:
    """The keys of the partitions that batches belong to."""
    keys = batches["topic_partition"]
    if len(batches) < _FEW_BATCHES:
        return set(keys.tolist())
    # Batches of a partition mostly stand together: only where the key changes is one made.
    return set(keys[is_start_of_run(batches)].tolist())


def is_start_of_run(batches: BatchArray) -> npt.NDArray[np.bool_]:
    """Mask of the first batch and of those whose topic partition is another one than that of the batch before."""
    parts = batches.view(KEY_PARTS)
    is_start = np.zeros(len(batches), bool)
    is_start[:1] = True
    for name in ("high", "low", "partition"):
        column = np.ascontiguousarray(parts[name])
        is_start[1:] |= column[1:] != column[:-1]
    return is_start


def join_batches(parts: Sequence[BatchArray]) -> bytearray:
    """The bytes of the batches of some files, one after the other, without request ids, which a retry may renumber."""
    # As bytes: numpy is slow to see that the types agree, to copy them, and to describe them for a view.
    joined = bytearray().join([part.tobytes() for part in parts])
    zeros = bytes(len(joined) // BATCH.itemsize)
    for place in range(_REQUEST_ID_AT, _REQUEST_ID_AT + _REQUEST_ID_BYTES):
        joined[place :: BATCH.itemsize] = zeros
    return joined


def content_hash(object_format: int, file_size: int, owner_ids: list[int], masked: memoryview) -> bytes:
    """Identify the content of a commit by its head and its share of what `join_batches` returned."""
    # The processor has instructions for SHA-256: it takes half the time of BLAKE2.
    owners = str(owner_ids[0]) if len(owner_ids) == 1 else ",".join(map(str, owner_ids))
    hasher = sha256(f"{object_format} {file_size} {owners} ".encode())
    # In pieces for which hashlib keeps the interpreter: giving it away for microseconds may cost a switch of threads.
    for start in range(0, len(masked), _HASH_PIECE_BYTES):
        hasher.update(masked[start : start + _HASH_PIECE_BYTES])
    return hasher.digest()[:CONTENT_HASH_BYTES]
