"""Kafka's encoding of any kio-style entity: ours in `messages.py`, and kio's own schema classes.

Reads the same declarations as `kio.serial` and makes the same bytes, but is not kio's codec, because a server needs
more: unknown tagged fields are skipped, null is refused where it is not allowed, damaged bytes raise one error type
only, and memory stays bounded: an array that cannot fit in the remaining bytes is refused before anything is
allocated, and so is a message with more than `elements_max` array elements in all.
Invariant: a message is decoded completely (nothing left over, unless allowed) or `MalformedMessage` is raised.

A class is compiled once, on first use, into readers and writers. Neighbouring fields of fixed size are one `struct` call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar, cast

from kio.static.primitive import i16

from coordinator.protocol.codec_fields import FIXED, Codec, Read, Source, Write, array_codec, fixed_array_codec, shape, single_codec
from coordinator.protocol.wire import MalformedMessage, UnencodableMessage, read_tagged_fields, varint

ELEMENTS_MAX: Final = 1_000_000
_NULL: Final = b"\xff"
_PRESENT: Final = b"\x01"


class Message(Protocol):
    """Any kio-style entity."""

    __api_key__: ClassVar[i16]
    __version__: ClassVar[i16]
    __flexible__: ClassVar[bool]
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]


M = TypeVar("M", bound=Message)


ReadInto = Callable[[Source, int, dict[str, object]], int]


def decode(message_type: type[M], data: bytes, offset: int = 0, *, elements_max: int = ELEMENTS_MAX, rest_allowed: bool = False) -> M:
    """Decode the message that fills `data` from `offset` to its end, or only begins there if more bytes may follow.

    Raises MalformedMessage, nothing else.
    """
    source = Source(data, elements_max)
    value, position = entity_codec(message_type).read(source, offset)
    if position != source.end and not rest_allowed:
        raise MalformedMessage(f"{source.end - position} bytes follow the end of {message_type.__name__}")
    return cast(M, value)


def encode(message: Message) -> bytes:
    """Encode a message without its header. Raises UnencodableMessage; TypeError, which names the field, for a value of a wrong type."""
    out = bytearray()
    try:
        entity_codec(type(message)).write(out, message)
    except (UnencodableMessage, AttributeError, TypeError) as error:
        if fault := _wrong_type(message):
            raise TypeError(fault) from error
        raise
    return bytes(out)


def _wrong_type(message: object) -> str:
    """The first field whose value has a type that the field cannot have; empty if there is none."""
    for item in fields(cast(type[Message], message)):
        is_array, wanted, _ = shape(item)
        given = getattr(message, item.name)
        for value in given or () if is_array else (given,):
            if is_dataclass(value) and (fault := _wrong_type(value)):
                return fault
            if wanted in (int, str, bytes) and value is not None and not isinstance(value, cast(type, wanted)):
                what = cast(type, wanted).__name__
                return f"{type(message).__name__}.{item.name} is {value!r} of type {type(value).__name__}; wanted: {what}"
    return ""


@cache
def entity_codec(entity: type[Message]) -> Codec:
    """Compile the codec of an entity. Raises TypeError for a declaration it does not know."""
    flexible = entity.__flexible__
    readers: list[ReadInto] = []
    writers: list[Write] = []
    tagged: dict[int, _Tagged] = {}
    group: list[Field[object]] = []
    size_min = 1 if flexible else 0

    def close_group() -> None:
        nonlocal size_min
        if group:
            read, write, size = _fixed_group(entity.__name__, group)
            readers.append(read)
            writers.append(write)
            size_min += size
            group.clear()

    for item in fields(entity):
        if "tag" in item.metadata:
            tagged[int(item.metadata["tag"])] = _Tagged(item.name, _default(entity, item), _field_codec(entity, item))
        elif _is_fixed(item):
            group.append(item)
        else:
            close_group()
            codec = _field_codec(entity, item)
            readers.append(_read_into(item.name, codec.read))
            writers.append(_write_from(item.name, codec.write))
            size_min += codec.size_min
    close_group()
    if flexible:
        readers.append(_tagged_reader(entity.__name__, tagged))
        writers.append(_tagged_writer(tagged))
    elif tagged:
        raise TypeError(f"{entity.__name__}: tagged fields need a flexible version")
    return _entity(entity, readers, writers, size_min)


def _entity(entity: type[Message], readers: Sequence[ReadInto], writers: Sequence[Write], size_min: int) -> Codec:
    construct = cast(Callable[..., object], entity)

    def read(source: Source, position: int) -> tuple[object, int]:
        values: dict[str, object] = {}
        for step in readers:
            position = step(source, position, values)
        return construct(**values), position

    def write(out: bytearray, value: object) -> None:
        for step in writers:
            step(out, value)

    return Codec(read, write, size_min)


def _field_codec(entity: type[Message], item: Field[object]) -> Codec:
    where = f"{entity.__name__}.{item.name}"
    array, inner, nullable = shape(item)
    if is_dataclass(inner):
        if not array:
            one = entity_codec(cast(type[Message], inner))
            return _nullable_codec(where, one) if nullable else one
        return array_codec(where, entity_codec(cast(type[Message], inner)), entity.__flexible__, nullable)
    kind = str(item.metadata["kafka_type"])
    if array and kind in FIXED and kind != "uuid":
        return fixed_array_codec(where, FIXED[kind], entity.__flexible__, nullable)
    one = single_codec(where, kind, inner, entity.__flexible__, nullable and not array)
    return array_codec(where, one, entity.__flexible__, nullable) if array else one


def _nullable_codec(where: str, one: Codec) -> Codec:
    """The codec of a structure that may be null: a byte before it is below 0 then, and 1 else."""

    def read(source: Source, position: int) -> tuple[object, int]:
        if position >= source.end:
            raise MalformedMessage(f"{where}: the bytes end before it")
        is_null = source.data[position] >= 0x80
        return (None, position + 1) if is_null else one.read(source, position + 1)

    def write(out: bytearray, value: object) -> None:
        out += _NULL if value is None else _PRESENT
        if value is not None:
            one.write(out, value)

    return Codec(read, write, 1)


# --- fields of fixed size, read and written together ---


def _fixed_group(owner: str, group: Sequence[Field[object]]) -> tuple[ReadInto, Write, int]:
    names = tuple(item.name for item in group)
    layout = struct.Struct(">" + "".join(FIXED[item.metadata["kafka_type"]] for item in group))
    size, unpack, pack = layout.size, layout.unpack_from, layout.pack
    uuids = tuple(place for place, item in enumerate(group) if item.metadata["kafka_type"] == "uuid")
    get = attrgetter(*names)

    def read(source: Source, position: int, values: dict[str, object]) -> int:
        if source.end - position < size:
            raise MalformedMessage(f"{owner}: the bytes end inside {names[0]}..{names[-1]}")
        values.update(zip(names, unpack(source.data, position), strict=True))
        return position + size

    def write(out: bytearray, value: object) -> None:
        row = get(value) if len(names) > 1 else (get(value),)
        for place in uuids:
            if len(row[place]) != 16:
                raise UnencodableMessage(f"{owner}.{names[place]}: {len(row[place])} bytes, a uuid has 16")
        try:
            out += pack(*row)
        except struct.error as error:
            raise UnencodableMessage(f"{owner}: {dict(zip(names, row, strict=True))}: {error}") from error

    return read, write, size


def _is_fixed(item: Field[object]) -> bool:
    array, inner, nullable = shape(item)
    kind = item.metadata.get("kafka_type")
    return not array and not nullable and kind in FIXED and (kind != "uuid" or inner is bytes)


def _read_into(name: str, read: Read) -> ReadInto:
    def step(source: Source, position: int, values: dict[str, object]) -> int:
        values[name], position = read(source, position)
        return position

    return step


def _write_from(name: str, write: Write) -> Write:
    get = attrgetter(name)
    return lambda out, value: write(out, get(value))


# --- tagged fields ---


class _Tagged(NamedTuple):
    name: str
    default: object
    codec: Codec


def _default(entity: type[Message], item: Field[object]) -> object:
    """Return the value of a tagged field that is not sent. kio declares none for structures; as in Kafka their fields are 0.

    Raises `TypeError` for a field that has no default.
    """
    if item.default is not MISSING:
        return item.default
    array, inner, _ = shape(item)
    if array or not is_dataclass(inner) or not all(map(_is_fixed, fields(inner))):
        raise TypeError(f"{entity.__name__}.{item.name}: a tagged field needs a default")
    return cast(Callable[..., object], inner)(**{one.name: 0 for one in fields(inner)})


def _tagged_reader(owner: str, tagged: dict[int, _Tagged]) -> ReadInto:
    known = frozenset(tagged)
    defaults = {one.name: one.default for one in tagged.values()}

    def read(source: Source, position: int, values: dict[str, object]) -> int:
        values.update(defaults)
        if position < source.end and source.data[position] == 0:
            return position + 1
        found, after = read_tagged_fields(source.data, position, source.end, known)
        for tag, (start, stop) in found.items():
            name, _, codec = tagged[tag]
            values[name], position = codec.read(source, start)
            if position != stop:
                raise MalformedMessage(f"{owner}.{name}: tagged field {tag} says {stop - start} bytes and has {position - start}")
        return after

    return read


def _tagged_writer(tagged: dict[int, _Tagged]) -> Write:
    ascending = sorted(tagged.items())

    def write(out: bytearray, value: object) -> None:
        count, section = 0, bytearray()
        for tag, (name, default, codec) in ascending:
            one = getattr(value, name)
            if one != default:
                raw = bytearray()
                codec.write(raw, one)
                section += varint(tag) + varint(len(raw)) + raw
                count += 1
        out += varint(count)
        out += section

    return write if ascending else _write_no_tags


def _write_no_tags(out: bytearray, _value: object) -> None:
    out.append(0)
