"""The batches of a CommitFile request as one array: the shape in which they cross the core.

The layout is that of the wire (77 bytes per batch, big-endian), so that a request is decided on without being
decoded field by field. `topic_partition` is the topic id followed by the partition index: the key of `PartitionTable`.
"""

from __future__ import annotations

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


def partition_key(topic_id: bytes, partition: int) -> bytes:
    """The 20 bytes that name a topic partition."""
    return topic_id + partition.to_bytes(4, "big", signed=True)


def split_partition_key(key: bytes) -> tuple[bytes, int]:
    """(topic id, partition index) of a 20-byte key."""
    return key[:16], int.from_bytes(key[16:], "big", signed=True)


def content_hash(object_format: int, file_size: int, owner_ids: list[int], batches: BatchArray) -> bytes:
    """Identify the content of a commit: everything but the request ids, which a retry may renumber."""
    masked = batches.copy()
    masked["request_id"] = 0
    head = b"%d %d %s " % (object_format, file_size, ",".join(map(str, owner_ids)).encode())
    # The processor has instructions for SHA-256: it takes half the time of BLAKE2.
    hasher = sha256(head)
    hasher.update(masked.data)
    return hasher.digest()[:CONTENT_HASH_BYTES]
