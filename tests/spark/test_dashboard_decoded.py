"""Entries field by field: every byte of an entry belongs to one field, and the values are those of the decoder."""

from __future__ import annotations

import re

import pytest

from records.codec import encode_entry, encode_key
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey
from records.levels import LEVEL_LATEST
from records.model import Record, TopicConfigured
from spark_jobs.dashboard.entries import LogEntries
from spark_jobs.dashboard.panels.decoded import BYTES_SHOWN, FIELDS_MAX, DecodedField, decoded_fields
from tests.records.examples import EXAMPLES

KEY = encode_key(EntryKey(3, 7_000_000_000_000, 42))


def fields_of(key: bytes | None, value: bytes | None) -> list[DecodedField]:
    """All fields with all their bytes."""
    return decoded_fields(key, value, bytes_shown=1 << 20, fields_max=1 << 20)


def bytes_of(fields: list[DecodedField]) -> bytes:
    """The bytes that fields of the value have together."""
    return b"".join(bytes.fromhex(one.hex) for one in fields if not one.path.startswith(("key", "file.")))


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_every_byte_of_an_entry_belongs_to_one_field(record: Record) -> None:
    value = encode_entry([record], LEVEL_LATEST)
    found = fields_of(KEY, value)
    assert [(one.path, one.value) for one in found[:3]] == [("key.epoch", "3"), ("key.term", "7000000000000"), ("key.seq", "42")]
    assert bytes.fromhex("".join(one.hex for one in found[:3])) == KEY
    # A block of none, one byte, ends each array that has items.
    arrays = sum(1 for one in found if one.value.endswith(" in all") and one.value != "0 in all")
    assert len(bytes_of(found)) + arrays == len(value)
    assert found[5].path == "records"
    assert found[6].value == type(record).__name__
    if isinstance(record, FileCommitted):
        assert ("file.object_key", record.object_key) in [(one.path, one.value) for one in found]
        assert sum(one.path.startswith("file.batches[") for one in found) == len(record.batches)


def test_values_are_those_of_the_record() -> None:
    record = TopicConfigured(topic_id=bytes(range(16)), names=["retention.ms", "x"], values=["7", "<b>"])
    found = {one.path: one.value for one in fields_of(None, encode_entry([record, record], LEVEL_LATEST))}
    assert found["key"] == "none"
    assert found["records"] == "2 in all"
    assert found["records[1].topic_id"] == bytes(range(16)).hex()
    assert (found["records[1].names[0]"], found["records[1].values[1]"]) == ("retention.ms", "<b>")


@pytest.mark.parametrize("value", [b"", b"junk", b"\xc3\x01" + bytes(8), encode_entry([EXAMPLES[0]], LEVEL_LATEST) + b"\0"])
def test_what_cannot_be_read_is_shown_as_bytes_with_the_reason(value: bytes) -> None:
    *_, last = fields_of(b"stray", value)
    assert last.path == "not readable"
    assert bytes.fromhex(last.hex) == value


def test_a_tombstone_ends_early_and_long_entries_are_cut() -> None:
    assert decoded_fields(KEY, None)[-1].value == "none: a tombstone"
    entry = encode_entry([TopicConfigured(topic_id=bytes(16), names=["a" * 90] * 999, values=["b"] * 999)], LEVEL_LATEST)
    found = decoded_fields(KEY, entry)
    assert len(found) == FIELDS_MAX + 1
    assert re.fullmatch(r"\d+ bytes are not shown", found[-1].value)
    name = next(one for one in found if one.path == "records[0].names[0]")
    assert name.hex == f"b4 01 {'61 ' * (BYTES_SHOWN - 2)}.. 92 bytes"


async def test_a_kafka_that_is_not_there_is_told() -> None:
    raw = await LogEntries(bootstrap_servers="127.0.0.1:1").read("topic", 0, 5)
    assert "did not answer within 4 s" in raw.why
    refused = await LogEntries(bootstrap_servers="127.0.0.1:1", properties={"security.protocol": "nonsense"}).read("topic", 0, 5)
    assert refused.why.startswith("Kafka cannot be asked")
