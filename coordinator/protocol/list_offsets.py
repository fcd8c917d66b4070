"""ListOffsets' fast codec: plain tuples instead of message objects, few `struct` calls.

A partition of a request without tagged fields takes exactly 13 bytes, the last of which is 0, so a topic's partitions
are read by one call if every 13th byte is 0. Whatever is not of the plain form goes to the general codec (`codec.py`).
Invariant: bytes made and values read here are those of the general codec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from coordinator.protocol.codec import ELEMENTS_MAX, decode
from coordinator.protocol.messages import ListOffsetsRequest
from coordinator.protocol.wire import UnencodableMessage, compact_string, read_varint, varint

_INT32: Final = struct.Struct(">i")
_ASKED: Final = struct.Struct(">iqx")
_FOUND: Final = struct.Struct(">ihxqqx")
_HEAD: Final = struct.Struct(">ih")
_TAIL: Final = struct.Struct(">qqx")


class ListOffsetsBody(NamedTuple):
    """A ListOffsets request; per topic its id and (partition index, timestamp) pairs."""

    topics: list[tuple[bytes, list[tuple[int, int]]]]
    timeout_ms: int


FoundPartition: TypeAlias = tuple[int, int, str | None, int, int]
"""Partition index, error code, error message, timestamp and offset."""


def decode_list_offsets(data: bytes, offset: int = 0) -> ListOffsetsBody:
    """Decode the body of a ListOffsets request that fills `data` from `offset` on. Raises MalformedMessage."""
    return _decode_plain(data, offset) or _decode_generally(data, offset)


def encode_list_offsets_response(topics: Iterable[tuple[bytes, Sequence[FoundPartition]]], throttle_time_ms: int = 0) -> bytes:
    """Encode a response from (topic id, partitions) pairs. Raises UnencodableMessage."""
    parts: list[bytes] = []
    count = 0
    pack = _FOUND.pack
    try:
        for topic_id, partitions in topics:
            if len(topic_id) != 16:
                raise UnencodableMessage(f"ListOffsetsTopicResponse.topic_id: {len(topic_id)} bytes, a uuid has 16")
            count += 1
            parts += (topic_id, varint(len(partitions) + 1))
            parts += [
                pack(index, error_code, timestamp, offset) if message is None else _told(index, error_code, message, timestamp, offset)
                for index, error_code, message, timestamp, offset in partitions
            ]
            parts.append(b"\0")
        return b"".join((_INT32.pack(throttle_time_ms), varint(count + 1), *parts, b"\0"))
    except struct.error as error:
        raise UnencodableMessage(f"ListOffsetsResponse: {error}") from error


def _told(index: int, error_code: int, message: str, timestamp: int, offset: int) -> bytes:
    text = compact_string(message, "ListOffsetsPartitionResponse.error_message")
    return _HEAD.pack(index, error_code) + text + _TAIL.pack(timestamp, offset)


def _decode_plain(data: bytes, offset: int) -> ListOffsetsBody | None:
    """Decode a request that has no tagged fields anywhere; None if it has some, or is damaged."""
    end = len(data)
    topic_count, position = read_varint(data, offset, end)
    topics: list[tuple[bytes, list[tuple[int, int]]]] = []
    elements = topic_count
    for _ in range(topic_count - 1):
        start = position + 16
        count, position = read_varint(data, start, end)
        count -= 1
        elements += count
        stop = position + _ASKED.size * count
        if count < 0 or stop >= end or elements > ELEMENTS_MAX or data[position + 12 : stop : 13].count(0) != count or data[stop]:
            return None
        topics.append((data[start - 16 : start], list(_ASKED.iter_unpack(data[position:stop]))))
        position = stop + 1
    if topic_count == 0 or position + 5 != end or data[end - 1]:
        return None
    return ListOffsetsBody(topics, _INT32.unpack_from(data, position)[0])


def _decode_generally(data: bytes, offset: int) -> ListOffsetsBody:
    request = decode(ListOffsetsRequest, data, offset)
    topics = [(topic.topic_id, [(one.partition_index, one.timestamp) for one in topic.partitions]) for topic in request.topics]
    return ListOffsetsBody(topics, request.timeout_ms)
