"""What the tests of the protocol share: schemas, golden bytes, random messages, and Kafka's JSON form of a message."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from hypothesis import strategies as st
from kio.static.constants import EntityType

import coordinator.protocol as protocol_package
from coordinator.protocol import messages
from coordinator.protocol.codec import Message

SCHEMAS = Path(next(iter(protocol_package.__path__))) / "schemas"
CLASSES = {name: cls for name, cls in vars(messages).items() if dataclasses.is_dataclass(cls)}
TOP = sorted(name for name, cls in CLASSES.items() if cls.__type__ is not EntityType.nested)


def schema(message: str) -> dict:
    """Read the JSON definition of a message, given its Python name."""
    lines = (SCHEMAS / f"Diskless{message}.json").read_text("utf-8").splitlines()
    return json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def golden() -> list[dict]:
    """Messages as Kafka's generated classes encoded them: name, version, values in Kafka's JSON form, bytes in hex."""
    return json.loads((Path(__file__).parent / "golden.json").read_text("utf-8"))


def from_json(message_type: type, values: Mapping[str, typing.Any], fields: list[dict]) -> typing.Any:
    """Build a message from Kafka's JSON form; unknown tagged fields are dropped, as a decoder does."""
    arguments = {}
    hints = {item.name: item.type for item in dataclasses.fields(message_type)}
    for field in fields:
        key = field["name"][0].lower() + field["name"][1:]
        if key not in values:
            continue
        value = values[key]
        kind = field["type"].removeprefix("[]")
        if "fields" in field:
            (inner, _) = typing.get_args(hints[snake(field["name"])])
            value = tuple(from_json(inner, one, field["fields"]) for one in value)
        elif field["type"].startswith("[]"):
            value = tuple(_raw_uuid(one) if kind == "uuid" else one for one in value)
        elif kind == "uuid":
            value = _raw_uuid(value)
        elif kind == "bytes":
            value = base64.b64decode(value)
        arguments[snake(field["name"])] = value
    return message_type(**arguments)


def _raw_uuid(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")


_INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _values(item: dataclasses.Field) -> st.SearchStrategy:
    declared = item.type
    if typing.get_origin(declared) is tuple:
        inner = typing.get_args(declared)[0]
        if dataclasses.is_dataclass(inner):
            return st.lists(messages_of(inner), max_size=3).map(tuple)
        return st.lists(_primitive(item.metadata["kafka_type"]), max_size=4).map(tuple)
    one = _primitive(item.metadata["kafka_type"])
    return st.none() | one if isinstance(declared, types.UnionType) else one


def _primitive(kind: str) -> st.SearchStrategy:
    if kind in _INTEGERS:
        edge = 1 << (_INTEGERS[kind] - 1)
        return st.integers(-edge, edge - 1)
    return {"string": _text, "bool": st.booleans(), "uuid": st.binary(min_size=16, max_size=16), "bytes": st.binary(max_size=40)}[kind]


@cache
def messages_of(message_type: type) -> st.SearchStrategy:
    """Random messages of a class."""
    return st.builds(message_type, **{item.name: _values(item) for item in dataclasses.fields(message_type)})


any_message: st.SearchStrategy[Message] = st.sampled_from(TOP).flatmap(lambda name: messages_of(getattr(messages, name)))


def structures(message_type: type) -> Iterator[type]:
    """List a message class and those nested in it."""
    yield message_type
    for item in dataclasses.fields(message_type):
        for inner in typing.get_args(item.type):
            if dataclasses.is_dataclass(inner):
                yield from structures(inner)
