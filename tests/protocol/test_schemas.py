"""The JSON definitions and the dataclasses say the same."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

import pytest
from kio.static.constants import EntityType

from coordinator.operations.table import APIS
from coordinator.protocol import messages
from tests.protocol.forms import SCHEMAS, TOP, schema, snake, structures


def _described(message_type: type) -> list[tuple]:
    rows = []
    for item in dataclasses.fields(message_type):
        declared, nullable = item.type, False
        if isinstance(declared, types.UnionType):
            declared, nullable = typing.get_args(declared)[0], True
        array = typing.get_origin(declared) is tuple
        inner = typing.get_args(declared)[0] if array else declared
        is_structure = dataclasses.is_dataclass(inner)
        kind = f"Diskless{inner.__name__}" if is_structure else item.metadata["kafka_type"]
        expected = {"string": str, "bool": bool, "uuid": bytes, "bytes": bytes}.get(kind, int)
        assert is_structure or inner is expected, f"{message_type.__name__}.{item.name}"
        default = ... if item.default is dataclasses.MISSING else item.default
        children = _described(inner) if is_structure else []
        rows.append((item.name, ("[]" if array else "") + kind, nullable, item.metadata.get("tag"), default, children))
    return rows


def _defined(fields: list[dict]) -> list[tuple]:
    rows = []
    for field in fields:
        default = {"null": None, "false": False, "true": True}.get(field["default"], field["default"]) if "default" in field else ...
        if default not in (None, ...):
            default = int(default)
        if field["name"] == "ThrottleTimeMs":
            default = 0  # Kafka's default for a field without one; ours is explicit, because we never throttle
        if default is ... and "tag" in field and field["type"].startswith("[]"):
            default = ()  # Kafka's default for an array
        children = _defined(field.get("fields", []))
        assert field["versions"] == "0+"
        assert field.get("nullableVersions", "0+") == "0+"
        assert field.get("taggedVersions", "0+") == "0+"
        rows.append((snake(field["name"]), field["type"], "nullableVersions" in field, field.get("tag"), default, children))
    return rows


@pytest.mark.parametrize("name", TOP)
def test_dataclass_and_json_agree(name: str) -> None:
    definition, message_type = schema(name), getattr(messages, name)
    assert _described(message_type) == _defined(definition["fields"])
    assert definition["name"] == f"Diskless{name}"
    assert (definition["validVersions"], definition["flexibleVersions"]) == ("0", "0+")
    assert message_type.__type__ is EntityType[definition["type"]]
    part: Any
    for part in structures(message_type):
        assert part.__api_key__ == definition["apiKey"]
        assert (part.__version__, part.__flexible__) == (0, True)
        assert not hasattr(part.__new__(part), "__dict__"), f"{part.__name__} has no slots"


def test_every_json_has_a_class_and_every_class_a_json() -> None:
    assert sorted(path.stem for path in SCHEMAS.iterdir()) == sorted(f"Diskless{name}" for name in TOP)


@pytest.mark.parametrize("name", [name for name in TOP if name.endswith("Request")])
def test_every_message_is_in_the_table_under_its_number(name: str) -> None:
    key = schema(name)["apiKey"]
    for number in (key, key + 10_000) if key <= 100 else (key,):
        version = APIS[number].versions[0]
        assert version.request_type is getattr(messages, name)
        assert version.response_type is getattr(messages, name.removesuffix("Request") + "Response")
