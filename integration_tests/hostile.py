"""Bytes nobody honest would send, from a seed: damaged frames, noise, and requests of every kind with some bytes changed."""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import cast

from coordinator.operations.table import APIS
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import Message, encode
from coordinator.protocol.codec_fields import shape
from coordinator.protocol.framing import request_frame

INT32_MAX = 2**31 - 1
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TIMEOUT_MS_MAX = 500
_LONG, _LONG_TEXT = 3_000, 32_767
"""Elements of a long array; bytes of a long text, which is the longest that Kafka's older messages can carry."""


def damaged_stream(rng: random.Random) -> bytes:
    """What one connection sends instead of requests."""
    noise = rng.randbytes(rng.randrange(1, 600))
    valid = request_frame(ApiKey.API_VERSIONS, 0, 1, "x", b"", flexible=False)
    kind = rng.randrange(9)
    match kind:
        case 0:
            return noise
        case 1:
            return struct.pack(">i", rng.choice([0, -1, -(2**31), INT32_MAX, 100 * 1024 * 1024 + 1, 0x47455420])) + noise
        case 2:
            return struct.pack(">i", 100 * 1024 * 1024) + noise  # announced and never sent
        case 3:
            return valid[: rng.randrange(1, len(valid))]
        case 4:
            return struct.pack(">i", len(noise)) + noise
        case 5:
            head = struct.pack(">hhih", rng.choice(list(APIS)), rng.randrange(-3, 20), rng.randrange(-5, 5), rng.randrange(-(2**15), 2**15))
            return struct.pack(">i", len(head) + len(noise)) + head + noise
        case 6:
            return request_frame(rng.randrange(-(2**15), 2**15), rng.randrange(-2, 30), 7, "x", noise)
        case 7:
            return valid * rng.randrange(1, 20) + noise
        case _:
            return b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" if rng.random() < 0.5 else b"\x16\x03\x01\x02\x00\x01" + noise


def random_message(rng: random.Random, message_type: type[Message]) -> Message:
    """A message of a class with random values; time limits are short, so that an answer is due soon."""
    values: dict[str, object] = {}
    for item in fields(message_type):
        array, inner, nullable = shape(item)
        if nullable and rng.random() < 0.2:
            values[item.name] = None
        elif array:
            values[item.name] = tuple(_value(rng, item.name, inner, item.metadata.get("kafka_type")) for _ in range(rng.randrange(4)))
        else:
            values[item.name] = _value(rng, item.name, inner, item.metadata.get("kafka_type"))
    return message_type(**values)


def _value(rng: random.Random, name: str, inner: object, kind: str | None) -> object:
    if is_dataclass(inner):
        return random_message(rng, cast(type[Message], inner))
    if name == "timeout_ms":
        return rng.randrange(-5, _TIMEOUT_MS_MAX)
    if kind in _BITS:
        edge = 1 << (_BITS[kind] - 1)
        return rng.choice([rng.randrange(-3, 12), rng.randrange(-3, 12), rng.randrange(-edge, edge), edge - 1, -edge])
    match kind:
        case "bool":
            return rng.random() < 0.5
        case "string":
            return rng.choice(["", "a", "topic-1", "0", "\0", "é" * rng.randrange(300), "../x", "wal/x", f"{uuid.UUID(int=5)}:0"])
        case "bytes":
            return rng.randbytes(rng.randrange(40))
        case "uuid" if inner is uuid.UUID:
            return uuid.UUID(bytes=rng.randbytes(16))
        case "uuid":
            return rng.choice([bytes(16), b"\x01" * 16, rng.randbytes(16)])
    raise TypeError(f"{name}: no random values for {kind}")


def extreme_messages(message_type: type[Message], usual: Mapping[str, object]) -> Iterator[Message]:
    """Messages in which one field after the other has each extreme of its type, and messages in which all fields have one.

    Other fields have the value that `usual` has under their names, else a plain one; arrays have one element.
    """
    extremes = {item.name: list(_extremes(item, usual)) for item in fields(message_type)}
    plain = {item.name: _plain(item, usual) for item in fields(message_type)}
    for name, values in extremes.items():
        yield from (message_type(**plain | {name: value}) for value in values)
    for number in range(max(map(len, extremes.values()), default=0)):
        yield message_type(**{name: values[number % len(values)] for name, values in extremes.items()})


def _plain(item: Field[object], usual: Mapping[str, object]) -> object:
    if item.name in usual:
        return usual[item.name]
    array, inner, _ = shape(item)
    if is_dataclass(inner):
        one: object = cast(type[Message], inner)(**{part.name: _plain(part, usual) for part in fields(inner)})
    else:
        one = _extremes_of(inner, item.metadata.get("kafka_type"))[0]
    return (one,) if array else one


def _extremes(item: Field[object], usual: Mapping[str, object]) -> Iterator[object]:
    array, inner, nullable = shape(item)
    if nullable:
        yield None
    singles: Iterable[object]
    if is_dataclass(inner):
        singles = extreme_messages(cast(type[Message], inner), usual)
    else:
        singles = _extremes_of(inner, item.metadata.get("kafka_type"))
    if not array:
        yield from singles
        return
    plain = cast(tuple[object, ...], _plain(item, usual))
    yield from ((), plain * 2, plain * _LONG)
    yield from ((one,) for one in singles)


def _extremes_of(inner: object, kind: str | None) -> list[object]:
    if kind in _BITS:
        edge = 1 << (_BITS[kind] - 1)
        return [0, -1, -edge, edge - 1, 1, edge >> 2]
    match kind:
        case "bool":
            return [False, True]
        case "string":
            return ["a", "", "x" * _LONG_TEXT, "\0", "line\nbreak", "../../etc", "\U0001f512"]
        case "bytes":
            return [b"", bytes(_LONG_TEXT)]
        case "uuid":
            ids = [bytes(range(16)), bytes(16), bytes(15) + b"\x02", b"\xff" * 16]
            return [(uuid.UUID(bytes=one) if any(one) else None) for one in ids] if inner is uuid.UUID else list(ids)
    raise TypeError(f"no extreme values for {kind}")


def changed(rng: random.Random, body: bytes) -> bytes:
    """A body with some bytes changed, cut off, put in or repeated."""
    data = bytearray(body)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if data:
                data[place % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[place % len(data)] = rng.choice([0, 0x7F, 0x80, 0xFF])
            case 2:
                del data[place:]
            case 3:
                data[place:place] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                data[place:place] = b"\xff\xff\xff\xff\x07"  # the largest length a varint can say
            case _:
                data[place:place] = data[: rng.randrange(40)]
    return bytes(data)


def requests_of_every_kind(rng: random.Random, each: int) -> Iterator[bytes]:
    """Frames of every request and version, a quarter of them as they should be, the others changed; in random order."""
    kinds = [(key, version, api.versions[version]) for key, api in APIS.items() for version in api.versions] * each
    rng.shuffle(kinds)
    for number, (key, version, schema) in enumerate(kinds):
        body = encode(random_message(rng, schema.request_type))
        if rng.random() < 0.75:
            body = changed(rng, body)
        yield request_frame(key, version, number, rng.choice([None, "x", "broker-7"]), body, flexible=schema.flexible)
