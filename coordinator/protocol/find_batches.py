"""FindBatches' fast codec: plain tuples instead of message objects, few `struct` calls.

A partition of a request without tagged fields takes exactly 17 bytes, the last of which is 0, so a topic's partitions
are read by one call if every 17th byte is 0. Whatever is not of the plain form goes to the general codec (`codec.py`).
Invariant: bytes made and values read here are those of the general codec.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from coordinator.protocol.codec import ELEMENTS_MAX, decode
from coordinator.protocol.messages import FindBatchesRequest
from coordinator.protocol.wire import UnencodableMessage, compact_string, read_varint, varint

_INT32: Final = struct.Struct(">i")
_LIMITS: Final = struct.Struct(">ii")
_ASKED: Final = struct.Struct(">iqix")
_PARTITION: Final = struct.Struct(">ihqq")


class FindBatchesBody(NamedTuple):
    """A FindBatches request; per topic its id and (partition index, offset, max partition fetch bytes) triples."""

    fetch_max_bytes: int
    max_batches_per_partition: int
    topics: list[tuple[bytes, list[tuple[int, int, int]]]]
    timeout_ms: int


class BatchLocation(NamedTuple):
    """One batch of a response."""

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


BatchLocationFields: TypeAlias = tuple[int, str, int, int, int, int, int, int, int, int]
"""The fields of a `BatchLocation`, in its order."""


class FoundPartition(NamedTuple):
    """The result for one partition."""

    partition_index: int
    error_code: int
    log_start_offset: int
    high_watermark: int
    batches: Sequence[BatchLocationFields]


def decode_find_batches(data: bytes, offset: int = 0) -> FindBatchesBody:
    """Decode the body of a FindBatches request that fills `data` from `offset` on. Raises MalformedMessage."""
    return _decode_plain(data, offset) or _decode_generally(data, offset)


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
                for batch_id, object_key, magic, byte_offset, byte_size, base, last, append_time, timestamp, kind in batches:
                    pack, key = _row(object_key)
                    parts.append(pack(batch_id, key, magic, byte_offset, byte_size, base, last, append_time, timestamp, kind))
                parts.append(b"\0")
            parts.append(b"\0")
        return b"".join((_INT32.pack(throttle_time_ms), varint(count + 1), *parts, b"\0"))
    except struct.error as error:
        raise UnencodableMessage(f"FindBatchesResponse: {error}") from error


@lru_cache(maxsize=4096)
def _row(object_key: str) -> tuple[Callable[..., bytes], bytes]:
    """The layout of a batch of this object, and the key in its encoded form. Neighbouring batches share their objects."""
    key = compact_string(object_key, "FindBatchesBatchInfo.object_key")
    return struct.Struct(f">q{len(key)}sbqqqqqqbx").pack, key


def _decode_plain(data: bytes, offset: int) -> FindBatchesBody | None:
    """Decode a request that has no tagged fields anywhere; None if it has some, or is damaged."""
    end = len(data)
    if end - offset < _LIMITS.size:
        return None
    fetch_max_bytes, max_batches = _LIMITS.unpack_from(data, offset)
    topic_count, position = read_varint(data, offset + _LIMITS.size, end)
    topics: list[tuple[bytes, list[tuple[int, int, int]]]] = []
    elements = topic_count
    for _ in range(topic_count - 1):
        start = position + 16
        count, position = read_varint(data, start, end)
        count -= 1
        elements += count
        stop = position + 17 * count
        if count < 0 or stop >= end or elements > ELEMENTS_MAX or data[position + 16 : stop : 17].count(0) != count or data[stop]:
            return None
        topics.append((data[start - 16 : start], list(_ASKED.iter_unpack(data[position:stop]))))
        position = stop + 1
    if topic_count == 0 or position + 5 != end or data[end - 1]:
        return None
    return FindBatchesBody(fetch_max_bytes, max_batches, topics, _INT32.unpack_from(data, position)[0])


def _decode_generally(data: bytes, offset: int) -> FindBatchesBody:
    request = decode(FindBatchesRequest, data, offset)
    topics = [
        (topic.topic_id, [(one.partition_index, one.offset, one.max_partition_fetch_bytes) for one in topic.partitions])
        for topic in request.topics
    ]
    return FindBatchesBody(request.fetch_max_bytes, request.max_batches_per_partition, topics, request.timeout_ms)
