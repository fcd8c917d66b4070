"""The batches of a CommitFile request as one array: the shape in which they cross the core.

The layout is that of the wire (77 bytes per batch, big-endian), so that a request is decided on without being
decoded field by field. `topic_partition` is the topic id followed by the partition index: the key of `PartitionTable`.
"""

from __future__ import annotations

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

KEY_PARTS = np.dtype({"names": ["high", "low", "partition"], "formats": ["<u8", "<u8", ">i4"], "offsets": [5, 13, 21], "itemsize": 77})
"""`topic_partition` as numbers: the halves of the topic id and the partition index."""

_FEW_BATCHES = 128


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
    # Batches of a partition are mostly adjacent: a key is made only where it changes.
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
