"""FindBatches' fast encoder: one `struct` call for each batch. Makes the bytes of the general codec (`codec.py`)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from coordinator.protocol.wire import UnencodableMessage, compact_string, varint

_INT32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">ihqq")


class FoundBatch(NamedTuple):
    """One batch; a plain tuple in this order will do as well."""

    batch_id: int
    object_key: str
    magic: int
    byte_offset: int
    byte_size: int
    base_offset: int
    last_offset: int
    log_append_timestamp: int
    batch_max_timestamp: int
    timestamp_type: int


class FoundPartition(NamedTuple):
    """What was found for one partition."""

    partition_index: int
    error_code: int
    log_start_offset: int
    high_watermark: int
    batches: Sequence[FoundBatch]


def encode_find_batches_response(topics: Iterable[tuple[bytes, Sequence[FoundPartition]]], throttle_time_ms: int = 0) -> bytes:
    """Encode a response from (topic id, partitions) pairs. Raises UnencodableMessage."""
    parts: list[bytes] = []
    count = 0
    try:
        for topic_id, partitions in topics:
            if len(topic_id) != 16:
                raise UnencodableMessage(f"FindBatchesTopicResponse.topic_id: {len(topic_id)} bytes, a uuid has 16")
            count += 1
            parts += (topic_id, varint(len(partitions) + 1))
            for index, error_code, log_start_offset, high_watermark, batches in partitions:
                parts += (_PARTITION.pack(index, error_code, log_start_offset, high_watermark), varint(len(batches) + 1))
                for batch_id, object_key, *numbers in batches:
                    pack, key = _row(object_key)
                    parts.append(pack(batch_id, key, *numbers))
                parts.append(b"\0")
            parts.append(b"\0")
        return b"".join((_INT32.pack(throttle_time_ms), varint(count + 1), *parts, b"\0"))
    except struct.error as error:
        raise UnencodableMessage(f"FindBatchesResponse: {error}") from error


@lru_cache(maxsize=4096)
def _row(object_key: str) -> tuple[Callable[..., bytes], bytes]:
    """The layout of a batch of this object, and the key as it stands there. Neighbouring batches share their objects."""
    key = compact_string(object_key, "FindBatchesBatchInfo.object_key")
    return struct.Struct(f">q{len(key)}sbqqqqqqbx").pack, key
