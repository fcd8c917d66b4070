"""JSON definitions of messages, read for one version, and messages between our classes and Kafka's JSON form.

Kafka's form is what its generated JSON converters take and give: names in camel case, topic ids as base64url text, bytes
as base64, unknown tagged fields of a structure under `_tags` (the oracle's own addition). Everything here follows the
definition, so a field that our class lacks, or has under another name, is an error and not a silent difference.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import types
import typing
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from integration_tests.oracle.build import DEFINITIONS

NEVER = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedField:
    """One field as it is in one version; `children` are those of a structure."""

    name: str
    kind: str
    is_array: bool
    is_nullable: bool
    tag: int | None
    children: tuple[DefinedField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One version of a message."""

    name: str
    version: int
    is_flexible: bool
    fields: tuple[DefinedField, ...]


def our_definition(name: str) -> Definition:
    """Read the definition of one of our messages, all of which have version 0 only."""
    return _definition((DEFINITIONS / f"{name}.json").read_text("utf-8"), 0)


def kafka_definition(clients_jar: Path, name: str, version: int) -> Definition:
    """Read the definition of one of Kafka's own messages, which stands beside its classes."""
    with zipfile.ZipFile(clients_jar) as jar:
        return _definition(jar.read(f"common/message/{name}.json").decode(), version)


def _definition(text: str, version: int) -> Definition:
    root = json.loads("\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//")))
    assert _is_in(version, root["validVersions"]), f"{root['name']} has no version {version}"
    return Definition(
        name=root["name"], version=version, is_flexible=_is_in(version, root["flexibleVersions"]), fields=_fields(root["fields"], version)
    )


def _fields(defined: list[dict[str, Any]], version: int) -> tuple[DefinedField, ...]:
    return tuple(
        DefinedField(
            name=field["name"][0].lower() + field["name"][1:],
            kind=field["type"].removeprefix("[]"),
            is_array=field["type"].startswith("[]"),
            is_nullable=_is_in(version, field.get("nullableVersions", NEVER)),
            tag=field["tag"] if _is_in(version, field.get("taggedVersions", NEVER)) else None,
            children=_fields(field.get("fields", []), version),
        )
        for field in defined
        if _is_in(version, field["versions"])
    )


def _is_in(version: int, versions: str) -> bool:
    """Tell whether a version is in a range such as `none`, `4`, `0-3` or `9+`."""
    if versions == NEVER:
        return False
    first, dash, last = versions.partition("-")
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    return int(first) <= version <= int(last if dash else first)


# --- Kafka's form and our classes ---


def from_kafka(message_type: type, fields: tuple[DefinedField, ...], form: Mapping[str, Any]) -> Any:
    """Build a message of our class from Kafka's form. Unknown tagged fields are dropped, as our decoder does."""
    declared = {item.name: item for item in dataclasses.fields(message_type)}
    values = {}
    for field in fields:
        item = _declaration(declared, field, message_type)
        if field.tag is not None and field.name not in form:
            continue  # Kafka leaves out tagged fields that have their default
        values[item.name] = _to_python(form[field.name], field, item)
    assert set(values) | {item.name for item in declared.values() if "tag" in item.metadata} == set(declared), message_type
    return message_type(**values)


def to_kafka(fields: tuple[DefinedField, ...], message: Any) -> dict[str, Any]:
    """Put a message of our class into Kafka's form."""
    declared = {item.name: item for item in dataclasses.fields(message)}
    form: dict[str, Any] = {}
    for field in fields:
        item = _declaration(declared, field, type(message))
        value = getattr(message, item.name)
        if field.is_array and value is not None:
            form[field.name] = [to_kafka(field.children, one) if field.children else _plain(one, field.kind) for one in value]
        elif field.children and value is not None:
            form[field.name] = to_kafka(field.children, value)
        else:
            form[field.name] = _plain(value, field.kind)
    return form


def _declaration(declared: Mapping[str, dataclasses.Field[Any]], field: DefinedField, message_type: type) -> dataclasses.Field[Any]:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", field.name).lower()
    # kio's classes have times as timedelta and without the unit in their name, and `id_` for what Python has a function for.
    item = declared.get(snake) or declared.get(snake.removesuffix("_ms")) or declared.get(f"{snake}_")
    assert item is not None, f"{message_type.__name__} has no field for {field.name}"
    return item


def _to_python(value: Any, field: DefinedField, item: dataclasses.Field[Any]) -> Any:
    if value is None:
        return None
    if field.children and not field.is_array:
        return from_kafka(_class_of(item), field.children, value)
    if not field.is_array:
        return _to_one(value, field.kind, item)
    if field.children:
        return tuple(from_kafka(element_type(item), field.children, one) for one in value)
    return tuple(_to_one(one, field.kind, item) for one in value)


def _class_of(item: dataclasses.Field[Any]) -> type:
    """Return the class of a structure, which may be nullable."""
    declared: Any = item.type
    if isinstance(declared, types.UnionType):
        declared = next(part for part in typing.get_args(declared) if part is not types.NoneType)
    return typing.cast(type, declared)


def element_type(item: dataclasses.Field[Any]) -> type:
    """Return the class of the elements of an array, which may be nullable."""
    declared: Any = item.type
    if isinstance(declared, types.UnionType):
        declared = next(part for part in typing.get_args(declared) if part is not types.NoneType)
    return typing.cast(type, typing.get_args(declared)[0])


def _to_one(value: Any, kind: str, item: dataclasses.Field[Any]) -> Any:
    match kind, item.metadata["kafka_type"]:
        case "uuid", _:
            raw = base64.urlsafe_b64decode(value + "==")
            if item.type in (bytes, tuple[bytes, ...]):
                return raw
            return uuid.UUID(bytes=raw) if any(raw) else None  # kio's convention: the zero uuid is None
        case "bytes", _:
            return base64.b64decode(value)
        case "int16", "error_code":
            return ErrorCode(value)
        case ("int32", "timedelta_i32") | ("int64", "timedelta_i64"):
            return timedelta(milliseconds=value)
        case _:
            return value


def _plain(value: Any, kind: str) -> Any:
    match value:
        case ErrorCode():
            return int(value.value)
        case timedelta():
            return value // timedelta(milliseconds=1)
        case uuid.UUID():
            return uuid_text(value.bytes)
        case bytes() if kind == "uuid":
            return uuid_text(value)
        case bytes():
            return base64.b64encode(value).decode()
        case None if kind == "uuid":
            return uuid_text(bytes(16))
        case _:
            return value


def uuid_text(raw: bytes) -> str:
    """Write 16 bytes as Kafka writes a uuid: base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
