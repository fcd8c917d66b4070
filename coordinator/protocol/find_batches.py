"""FindBatches' fast codec: plain tuples instead of message objects, few `struct` calls.

A partition of a request without tagged fields takes exactly 17 bytes, the last of which is 0, so a topic's partitions
are read by one call if every 17th byte is 0. Whatever is not of the plain form goes to the general codec (`codec.py`).
The tagged fields of a long poll are read and written here, since it may name many thousands of partitions.
Invariant: bytes made and values read here are those of the general codec.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from coordinator.protocol.codec import ELEMENTS_MAX, decode, encode
from coordinator.protocol.messages import FindBatchesPartition, FindBatchesRequest, FindBatchesResponse, FindBatchesTopic
from coordinator.protocol.wire import UnencodableMessage, compact_string, read_varint, varint

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_LIMITS: Final = struct.Struct(">ii")
_ASKED: Final = struct.Struct(">iqix")
_PARTITION: Final = struct.Struct(">ihqq")
_AFTER_KEY: Final = struct.Struct(">bqqqqqqbB")
"""A batch of a response behind its object key, with its empty tagged fields."""
_TAGGED_INT32: Final = struct.Struct(">BBi")
_MIN_BYTES, _MAX_WAIT_MS = range(2)
"""The tags of a long poll's fields."""


class FindBatchesBody(NamedTuple):
    """A FindBatches request; per topic its id and (partition index, offset, max partition fetch bytes) triples."""

    fetch_max_bytes: int
    max_batches_per_partition: int
    topics: list[tuple[bytes, list[tuple[int, int, int]]]]
    timeout_ms: int
    min_bytes: int = 1
    max_wait_ms: int = 0


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


def encode_find_batches(body: FindBatchesBody) -> bytes:
    """Encode the body of a request. Raises UnencodableMessage."""
    try:
        tagged = [_TAGGED_INT32.pack(_MIN_BYTES, _INT32.size, body.min_bytes)] if body.min_bytes != 1 else []
        if body.max_wait_ms:
            tagged.append(_TAGGED_INT32.pack(_MAX_WAIT_MS, _INT32.size, body.max_wait_ms))
        parts = [_LIMITS.pack(body.fetch_max_bytes, body.max_batches_per_partition), varint(len(body.topics) + 1)]
        pack = _ASKED.pack
        for topic_id, partitions in body.topics:
            if len(topic_id) != 16:
                return encode(_message_of(body))
            parts += (topic_id, varint(len(partitions) + 1))
            parts += [pack(index, offset, bytes_max) for index, offset, bytes_max in partitions]
            parts.append(b"\0")
        return b"".join((*parts, _INT32.pack(body.timeout_ms), varint(len(tagged)), *tagged))
    except struct.error:
        return encode(_message_of(body))  # it names the field


def _message_of(body: FindBatchesBody) -> FindBatchesRequest:
    topics = []
    for topic_id, points in body.topics:
        partitions = [
            FindBatchesPartition(partition_index=index, offset=offset, max_partition_fetch_bytes=bytes_max)
            for index, offset, bytes_max in points
        ]
        topics.append(FindBatchesTopic(topic_id=topic_id, partitions=tuple(partitions)))
    return FindBatchesRequest(
        fetch_max_bytes=body.fetch_max_bytes,
        max_batches_per_partition=body.max_batches_per_partition,
        topics=tuple(topics),
        timeout_ms=body.timeout_ms,
        min_bytes=body.min_bytes,
        max_wait_ms=body.max_wait_ms,
    )


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
    if topic_count == 0 or position + 5 > end:
        return None
    tagged = _decode_tagged(data, position + _INT32.size, end)
    return None if tagged is None else FindBatchesBody(fetch_max_bytes, max_batches, topics, _INT32.unpack_from(data, position)[0], *tagged)


def _decode_tagged(data: bytes, position: int, end: int) -> tuple[int, int] | None:
    """Decode the tagged fields at the end of a request, if they are those of a long poll in their plain form."""
    values = [1, 0]
    count = data[position]
    if count > len(values) or position + 1 + count * _TAGGED_INT32.size != end:
        return None
    before = -1
    for tag, size, value in _TAGGED_INT32.iter_unpack(data[position + 1 : end]):
        if not before < tag < len(values) or size != _INT32.size:
            return None
        values[tag] = value
        before = tag
    return values[_MIN_BYTES], values[_MAX_WAIT_MS]


def _decode_generally(data: bytes, offset: int) -> FindBatchesBody:
    request = decode(FindBatchesRequest, data, offset)
    topics = [
        (topic.topic_id, [(one.partition_index, one.offset, one.max_partition_fetch_bytes) for one in topic.partitions])
        for topic in request.topics
    ]
    return FindBatchesBody(
        request.fetch_max_bytes, request.max_batches_per_partition, topics, request.timeout_ms, request.min_bytes, request.max_wait_ms
    )


class FoundTopics(NamedTuple):
    """A FindBatches response: per topic its id and what was found of its partitions."""

    throttle_time_ms: int
    topics: list[tuple[bytes, list[FoundPartition]]]


def decode_find_batches_response(data: bytes, *, elements_max: int = ELEMENTS_MAX) -> FoundTopics:
    """Decode a response. Batches become `BatchLocation`. Raises MalformedMessage."""
    try:
        plain = _decode_plain_response(data, elements_max)
    except (struct.error, IndexError):
        plain = None
    return plain or _decode_response_generally(data, elements_max)


def _decode_plain_response(data: bytes, elements_max: int) -> FoundTopics | None:
    """Decode a response without tagged fields; None if it has some, or is damaged. Raises struct.error, IndexError for damage, too."""
    end = len(data)
    (throttle_time_ms,) = _INT32.unpack_from(data)
    topic_count, position = read_varint(data, _INT32.size, end)
    elements = topic_count
    topics: list[tuple[bytes, list[FoundPartition]]] = []
    keys: dict[bytes, str] = {}
    for _ in range(topic_count - 1):
        topic_id = data[position : position + 16]
        count, position = read_varint(data, position + 16, end)
        elements += count
        partitions: list[FoundPartition] = []
        for _ in range(count - 1):
            index, error_code, log_start, high_watermark = _PARTITION.unpack_from(data, position)
            found, position = read_varint(data, position + _PARTITION.size, end)
            elements += found
            if found == 0 or elements > elements_max:
                return None
            batches: list[BatchLocationFields] = []
            for _ in range(found - 1):
                size, start = read_varint(data, position + _INT64.size, end)
                if size == 0:
                    return None
                stop = start + size - 1
                key = data[start:stop]
                text = keys.get(key)
                if text is None:
                    try:
                        text = keys[key] = key.decode()
                    except UnicodeDecodeError:
                        return None
                (batch_id,) = _INT64.unpack_from(data, position)
                *numbers, tags = _AFTER_KEY.unpack_from(data, stop)
                if tags:
                    return None
                batches.append(BatchLocation._make((batch_id, text, *numbers)))
                position = stop + _AFTER_KEY.size
            if data[position]:
                return None
            position += 1
            partitions.append(FoundPartition(index, error_code, log_start, high_watermark, batches))
        if count == 0 or data[position]:
            return None
        position += 1
        topics.append((topic_id, partitions))
    if topic_count == 0 or position + 1 != end or data[position] or elements > elements_max:
        return None
    return FoundTopics(throttle_time_ms, topics)


def _decode_response_generally(data: bytes, elements_max: int) -> FoundTopics:
    response = decode(FindBatchesResponse, data, elements_max=elements_max)
    names = BatchLocation._fields
    topics = [
        (
            topic.topic_id,
            [
                FoundPartition(
                    one.partition_index,
                    one.error_code,
                    one.log_start_offset,
                    one.high_watermark,
                    [BatchLocation(*(getattr(batch, name) for name in names)) for batch in one.batches],
                )
                for one in topic.partitions
            ],
        )
        for topic in response.topics
    ]
    return FoundTopics(response.throttle_time_ms, topics)
