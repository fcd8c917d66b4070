"""Schema files: agree with the dataclasses and with each other, are documented, and never change."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from typing import Any, cast, get_args

import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form

from codegen.records import module_source
from records import model
from records.avro import RecordType, parse_type
from records.codec import InvalidRecord, UnknownSchema, decode_entry, decode_in, encode_in
from records.history import NEWEST, SINGLE_OBJECT_MARKER, build_schema, levels, read_schema_text, schema_of_level
from records.levels import FILE_OF_LEVEL, LEVEL_LATEST
from records.model import NoOp, Record, TopicDeleting
from records.shapes import MODEL_CLASSES
from tests.records.examples import EXAMPLES, TOPIC_A

Json = dict[str, object]

FINGERPRINTS = {1: 0x5A827D1154F68475, 2: 0xF40D53DE5C284DA1}
"""Of every level ever released. A change of one of these breaks every log that exists."""

SNAPSHOT_FINGERPRINTS = {
    "snapshot-head-v1.avsc": 0xC419DF52027321D3,
    "snapshot-rows-v1.avsc": 0xA5B750A0D6D49B2C,
}
"""Of the records of snapshots, a pair for each format. A change of one of these breaks every snapshot that exists."""


def crc_64_avro(data: bytes) -> int:
    """The fingerprint as the Avro specification defines it, bit by bit."""
    empty = 0xC15D213AA4D7A795
    crc = empty
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (empty if crc & 1 else 0)
    return crc


def load(file_name: str) -> Json:
    return cast(Json, json.loads(read_schema_text(file_name)))


def find_undocumented(schema: object, place: str) -> list[str]:
    if isinstance(schema, list):
        return [found for item in schema for found in find_undocumented(item, place)]
    if not isinstance(schema, dict):
        return []
    here = f"{place}.{schema['name']}" if "name" in schema else place
    missing = [here] if "name" in schema and not schema.get("doc") else []
    return missing + [found for key in ("type", "items", "fields") if key in schema for found in find_undocumented(schema[key], here)]


def test_every_level_keeps_its_fingerprint() -> None:
    assert {level: schema_of_level(level).fingerprint for level in levels()} == FINGERPRINTS


@pytest.mark.parametrize("level", levels())
def test_fingerprint_is_crc_64_avro_of_the_canonical_form(level: int) -> None:
    canonical = to_parsing_canonical_form(load(f"metadata-entry-v{level}.avsc"))
    schema = schema_of_level(level)
    assert schema.fingerprint == crc_64_avro(canonical.encode())
    assert schema.header == SINGLE_OBJECT_MARKER + schema.fingerprint.to_bytes(8, "little")


def test_crc_64_avro_has_the_published_value_of_null() -> None:
    assert crc_64_avro(b'"null"') == 0x63DD24E7CC258F8A
    assert fingerprint('"null"', "CRC-64-AVRO") == (0x63DD24E7CC258F8A).to_bytes(8, "little").hex()


def test_union_lists_the_records_of_the_model_in_its_order() -> None:
    assert list(NEWEST.record_types) == [cls.__name__ for cls in get_args(Record)]
    assert len(NEWEST.record_types) == 34


def test_folder_holds_one_file_per_level_and_those_of_snapshots() -> None:
    files = {file.name for file in resources.files("records").joinpath("schemas").iterdir()}
    assert {f"metadata-entry-v{level}.avsc" for level in levels()} == set(FILE_OF_LEVEL.values())
    assert files == {*FILE_OF_LEVEL.values(), *SNAPSHOT_FINGERPRINTS}


@pytest.mark.parametrize("file_name", [*FILE_OF_LEVEL.values(), *SNAPSHOT_FINGERPRINTS])
def test_everything_is_documented(file_name: str) -> None:
    assert find_undocumented(load(file_name), "") == []


@pytest.mark.parametrize("file_name", SNAPSHOT_FINGERPRINTS)
def test_every_schema_of_snapshots_keeps_its_fingerprint(file_name: str) -> None:
    found = fingerprint(to_parsing_canonical_form(load(file_name)), "CRC-64-AVRO")
    assert int.from_bytes(bytes.fromhex(found), "little") == SNAPSHOT_FINGERPRINTS[file_name]


@pytest.mark.parametrize("name", sorted(set(MODEL_CLASSES) - {"FileCommitted"}))
def test_fields_are_those_of_the_dataclass_in_order(name: str) -> None:
    named: dict[str, object] = {}
    parse_type(load(f"metadata-entry-v{LEVEL_LATEST}.avsc"), named)  # type: ignore[arg-type]
    record_type = named[name]
    assert isinstance(record_type, RecordType)
    assert [field.name for field in record_type.fields] == [field.name for field in dataclasses.fields(getattr(model, name))]


def test_types_outside_the_subset_are_refused() -> None:
    for schema in ({"type": "map", "values": "int"}, "double", 7, ["int"]):
        with pytest.raises(ValueError, match=r"not an Avro schema|do not use|is not a|not a record|Primitive"):
            parse_type(schema, {})


def next_level() -> str:
    """The newest level with one more field in TopicDeleting and one more record type: what the next level may change."""
    entry = load(f"metadata-entry-v{LEVEL_LATEST}.avsc")
    (records,) = cast(list[Json], entry["fields"])
    branches = cast(list[Json], cast(Json, records["type"])["items"])
    (deleting,) = (branch for branch in branches if branch["name"] == "TopicDeleting")
    cast(list[Json], deleting["fields"]).append({"name": "reason", "type": "string", "default": "none", "doc": "Why."})
    part = {"type": "record", "name": "Part", "doc": "A part.", "fields": [{"name": "size", "type": "int", "doc": "Its size."}]}
    parts = {"name": "parts", "type": {"type": "array", "items": part}, "doc": "What it is made of."}
    branches.append({"type": "record", "name": "Novelty", "doc": "Something new.", "fields": [parts]})
    return json.dumps(entry)


def test_a_made_up_record_of_a_made_up_next_level_needs_its_schema_alone() -> None:
    """The exercise of CONTRIBUTING.md: the classes are made from the schema, and the codec takes both."""
    made: dict[str, Any] = {"__name__": model.__name__}
    exec(module_source("metadata-entry-next.avsc", next_level()), made)
    next_schema = build_schema(LEVEL_LATEST + 1, next_level())
    classes = {name: cls for name, cls in made.items() if isinstance(cls, type)}
    novelty = made["Novelty"](parts=[made["Part"](size=3), made["Part"](size=5)])
    deleting = made["TopicDeleting"](topic_id=TOPIC_A, confirmed=True, reason="asked for")
    value = encode_in([novelty, deleting], next_schema)
    assert decode_in(value, next_schema, classes) == [novelty, deleting]
    older = encode_in([TopicDeleting(topic_id=TOPIC_A, confirmed=False)], NEWEST)
    assert decode_in(older, NEWEST, classes) == [made["TopicDeleting"](topic_id=TOPIC_A, confirmed=False)]
    with pytest.raises(InvalidRecord, match=r"TopicDeleting\.reason = 'asked for' cannot be written at this schema level"):
        encode_in([deleting], NEWEST)
    with pytest.raises(InvalidRecord, match=f"schema level {LEVEL_LATEST} has no Novelty"):
        encode_in([novelty], NEWEST)
    with pytest.raises(UnknownSchema):
        decode_entry(value)


def test_record_type_that_a_level_lacks_is_refused() -> None:
    entry = load("metadata-entry-v1.avsc")
    (records,) = cast(list[Json], entry["fields"])
    branches = cast(list[Json], cast(Json, records["type"])["items"])
    name = branches.pop()["name"]
    (newest,) = (record for record in EXAMPLES if type(record).__name__ == name)
    older = build_schema(0, json.dumps(entry))
    with pytest.raises(InvalidRecord, match=f"schema level 0 has no {name}"):
        encode_in([newest], older)
    value = encode_in([NoOp()], older)
    assert decode_in(value, older) == [NoOp()]
