"""The bytes of Kafka's Produce, versions 3 to 13: where the parts of a request are, and the answer to it. Compiled when installed; the
`.pxd` has the types.

Nothing is made of a request but numbers: the places of names and records in its bytes. Names go into the answer as they came.
"""

from __future__ import annotations

from coordinator.protocol.wire import MalformedMessage

FLEXIBLE_FROM = 9
"""The first version with compact lengths and tagged fields."""
TOPIC_IDS_FROM = 13
CODE, BASE_OFFSET, APPEND_TIME, LOG_START = range(4)
"""The columns of results."""
RESULT_WIDTH = 4
PARTITIONS_MAX = 100_000
"""Of one request, topics included: each costs memory many times its bytes."""


def read_request(
    data: bytes, at: int, version: int, topics: list[tuple[int, int, int, int, int]], spans: list[int]
) -> tuple[bool, int, int]:
    """Read the body of a request that fills `data` from a place on; returns whether it is of a transaction, acks and the timeout.

    A topic is: where its name with its length begins, where the name (or the id) itself does, its end, its first partition and the one
    after its last. Of each partition `spans` gets the index, and start and size of its records. Raises MalformedMessage.
    """
    try:
        return _read(data, at, version, topics, spans)
    except IndexError:
        raise MalformedMessage(f"a Produce request of version {version} ends within a field") from None


def _read(data: bytes, at: int, version: int, topics: list[tuple[int, int, int, int, int]], spans: list[int]) -> tuple[bool, int, int]:
    end, partitions_max = len(data), PARTITIONS_MAX
    is_flexible = version >= FLEXIBLE_FROM
    packed = _length(data, at, is_flexible, 2)
    is_transactional = packed >= 0
    at = _after(at, packed, end)
    acks, timeout_ms = _int(data, at, 2), _int(data, at + 2, 4)
    at += 6
    packed = _length(data, at, is_flexible, 4)
    topic_count = _count(packed, end - at, "topics")
    at += packed & 7
    place = 0
    if topic_count > partitions_max:
        raise MalformedMessage(f"a Produce request has more than {partitions_max} topics and partitions")
    for _ in range(topic_count):
        name = at
        if version < TOPIC_IDS_FROM:
            packed = _length(data, at, is_flexible, 2)
            if packed < 0:
                raise MalformedMessage("a topic of a Produce request has no name")
            key = at + (packed & 7)
            at = _after(at, packed, end)
        else:
            key = at
            at += 16
        stop = at
        packed = _length(data, at, is_flexible, 4)
        partition_count = _count(packed, end - at, "partitions of a topic")
        at += packed & 7
        first = place
        if place + partition_count + topic_count > partitions_max:
            raise MalformedMessage(f"a Produce request has more than {partitions_max} topics and partitions")
        for _ in range(partition_count):
            index = _int(data, at, 4)
            at += 4
            packed = _length(data, at, is_flexible, 4)
            start = at + (packed & 7)
            at = _after(at, packed, end)
            spans.append(index)
            spans.append(start)
            spans.append(at - start)
            if is_flexible:
                at = _after_tags(data, at, end)
            place += 1
        if is_flexible:
            at = _after_tags(data, at, end)
        topics.append((name, key, stop, first, place))
    if is_flexible:
        at = _after_tags(data, at, end)
    if at != end:
        raise MalformedMessage(f"{end - at} bytes follow a Produce request of version {version}")
    return is_transactional, acks, timeout_ms


def write_answer(
    data: bytes,
    version: int,
    topics: list[tuple[int, int, int, int, int]],
    spans: list[int],
    results: memoryview[int],
    tails: dict[int, bytes],
    throttle_ms: int,
) -> bytes:
    """Encode the answer to a request that `read_request` has read, from the results of its partitions in order.

    `tails` has record errors and error message, encoded, of the partitions that have some, by place; only from version 8 on.
    """
    is_flexible = version >= FLEXIBLE_FROM
    size = 16
    for topic in topics:
        size += topic[2] - topic[0] + 6
    size += len(spans) // 3 * 40
    for tail in tails.values():
        size += len(tail)
    out = bytearray(size)
    cells = memoryview(out)
    at = _put_count(len(topics), cells, 0, is_flexible)
    for topic in topics:
        name, stop, first, last = topic[0], topic[2], topic[3], topic[4]
        for byte in range(name, stop):
            cells[at] = data[byte]
            at += 1
        at = _put_count(last - first, cells, at, is_flexible)
        for place in range(first, last):
            _put(spans[3 * place], cells, at, 4)
            _put(results[place, 0], cells, at + 4, 2)
            _put(results[place, 1], cells, at + 6, 8)
            _put(results[place, 2], cells, at + 14, 8)
            at += 22
            if version >= 5:
                _put(results[place, 3], cells, at, 8)
                at += 8
            if version >= 8:
                given = tails.get(place)
                if given is None:
                    at = _put_no_errors(cells, at, is_flexible)
                else:
                    for byte in range(len(given)):
                        cells[at] = given[byte]
                        at += 1
            if is_flexible:
                at += 1
        if is_flexible:
            at += 1
    _put(throttle_ms, cells, at, 4)
    at += 5 if is_flexible else 4
    return bytes(cells[:at])


def _put_no_errors(out: memoryview[int], at: int, is_flexible: bool) -> int:
    """An empty list and no message."""
    if is_flexible:
        out[at] = 1
        return at + 2
    out[at + 4] = 0xFF
    out[at + 5] = 0xFF
    return at + 6


def _put_count(count: int, out: memoryview[int], at: int, is_flexible: bool) -> int:
    """The number of elements of a list; returns where it ends."""
    if not is_flexible:
        _put(count, out, at, 4)
        return at + 4
    rest = count + 1
    while rest > 0x7F:
        out[at] = rest & 0x7F | 0x80
        rest >>= 7
        at += 1
    out[at] = rest
    return at + 1


def _length(data: bytes, at: int, is_flexible: bool, size: int) -> int:
    """A length, -1 for null, times 8, plus the bytes that it takes itself."""
    if not is_flexible:
        return _int(data, at, size) * 8 + size
    rest = shift = taken = 0
    while True:
        byte = data[at + taken]
        rest |= (byte & 0x7F) << shift
        taken += 1
        if byte < 0x80:
            break
        shift += 7
        if taken == 5:
            raise MalformedMessage(f"the varint at {at} is longer than 5 bytes")
    return (rest - 1) * 8 + taken


def _after(at: int, packed: int, end: int) -> int:
    """Where a field ends whose length is at a place; null has no bytes."""
    size, taken = packed >> 3, packed & 7
    if size < -1 or size > end - at - taken:
        raise MalformedMessage(f"a field of {size} bytes at {at}, where {end - at - taken} bytes are left")
    return at + taken + (size if size > 0 else 0)


def _count(packed: int, left: int, what: str) -> int:
    """The number of elements of a list, each of which has bytes."""
    count = packed >> 3
    if count < 0 or count > left:
        raise MalformedMessage(f"a Produce request has {count} {what} in {left} bytes")
    return count


def _after_tags(data: bytes, at: int, end: int) -> int:
    """The end of a section of tagged fields, which nothing here needs."""
    packed = _length(data, at, True, 0)
    at += packed & 7
    fields = (packed >> 3) + 1
    for _ in range(fields):
        packed = _length(data, at, True, 0)
        at += packed & 7
        packed = _length(data, at, True, 0) + 8
        at = _after(at, packed, end)
    return at


def _int(data: bytes, at: int, size: int) -> int:
    """A signed integer, most significant byte first."""
    value = -1 if data[at] & 0x80 else 0
    for place in range(at, at + size):
        value = value * 256 + data[place]
    return value


def _put(value: int, out: memoryview[int], at: int, size: int) -> None:
    """The bytes of an integer, most significant byte first."""
    for place in range(at + size - 1, at - 1, -1):
        out[place] = value & 0xFF
        value >>= 8
