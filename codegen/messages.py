"""`coordinator/protocol/messages.py` from Kafka's JSON definitions of our requests and responses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from codegen.source import class_source, docstring

TARGET = Path("coordinator/protocol/messages.py")

_HEAD = '''"""The requests and responses of KIP-1164 and this service's extensions.

Made by `python -m codegen` from `coordinator/protocol/schemas/*.json`; do not edit.
"""

from dataclasses import field
from typing import ClassVar

from kio.static.constants import EntityType
from kio.static.primitive import i16

from coordinator.protocol.entity import BOOL, BYTES, INT8, INT16, INT32, INT64, STRING, UUID, RequestPart, ResponsePart, message'''

_PYTHON_OF = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "int",
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
}
_DEFAULTS = {"ThrottleTimeMs": "0"}
"""Kafka's default for a number without one is 0; here it is explicit, for the one field that is never set: nothing is throttled."""

_PYTHON_VALUES = {"null": "None", "true": "True", "false": "False"}
"""Defaults that JSON and Kafka's generator write otherwise."""

Json = dict[str, Any]


def read_definition(path: Path) -> Json:
    """Return a definition; its lines of comments are left out."""
    lines = path.read_text(encoding="utf-8").splitlines()
    definition: Json = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))
    return definition


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _field(field: Json) -> list[str]:
    kind = field["type"].removeprefix("[]")
    metadata = "" if "fields" in field else kind.upper()
    annotation = kind.removeprefix("Diskless") if "fields" in field else _PYTHON_OF[kind]
    if field["type"].startswith("[]"):
        annotation = f"tuple[{annotation}, ...]"
    if "nullableVersions" in field:
        annotation += " | None"
    default = field.get("default", _DEFAULTS.get(field["name"]))
    if "tag" in field:
        metadata = f'{{{f"**{metadata}, " if metadata else ""}"tag": {field["tag"]}}}'
        # In Kafka an array that is not sent is empty.
        default = "()" if annotation.endswith("...]") and default is None else default
    default = _PYTHON_VALUES.get(str(default), default)
    arguments = [f"metadata={metadata}"] if metadata else []
    arguments += [f"default={default}"] if default is not None else []
    value = f" = field({', '.join(arguments)})" if arguments else ""
    return [f"    {_snake(field['name'])}: {annotation}{value}", *docstring(re.sub(" +", " ", field["about"]), "    ")]


def _structures(name: str, fields: list[Json]) -> Iterator[tuple[str, list[Json]]]:
    """Yield a structure after those that it holds."""
    for field in fields:
        if "fields" in field:
            yield from _structures(field["type"].removeprefix("[]"), field["fields"])
    yield name, fields


def _message_source(definition: Json) -> list[str]:
    """Return the lines of the classes of one definition. Raises KeyError for a type that our messages do not use."""
    kind = definition["type"]
    operation = definition["name"].removeprefix("Diskless").removesuffix(kind.capitalize())
    lines: list[str] = []
    for name, fields in _structures(definition["name"], definition["fields"]):
        is_top = name == definition["name"]
        body = [f"    __type__: ClassVar[EntityType] = EntityType.{kind}"] if is_top else []
        body.append(f"    __api_key__: ClassVar[i16] = i16({definition['apiKey']})")
        for field in fields:
            body += _field(field)
        doc = f"{operation}: the {kind}." if is_top else f"{operation}: a part of the {kind}."
        lines += class_source("@message", name.removeprefix("Diskless"), f"({kind.capitalize()}Part)", doc, body)
    return lines


def module_source(definitions: Iterable[Json]) -> str:
    """Return the source of a module with the classes of definitions."""
    return "\n".join([_HEAD, *(line for definition in definitions for line in _message_source(definition))])


def generate(root: Path) -> str:
    """Return the source of `coordinator/protocol/messages.py`."""
    return module_source(map(read_definition, sorted((root / "coordinator/protocol/schemas").glob("*.json"))))
