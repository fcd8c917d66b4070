"""The bytes in the log never change: every record type and the key against committed hex."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from records.codec import decode_entry, decode_key, encode_entry, encode_key
from records.model import Record
from tests.records.examples import EXAMPLES, KEY

GOLDEN: dict[str, str] = json.loads(Path(__file__).with_name("golden.json").read_text())


def test_every_record_type_has_golden_bytes() -> None:
    assert set(GOLDEN) == {type(record).__name__ for record in EXAMPLES} | {"EntryKey", "all records"}
    assert len(EXAMPLES) == 25


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_record_has_its_golden_bytes(record: Record) -> None:
    golden = bytes.fromhex(GOLDEN[type(record).__name__])
    assert encode_entry([record], level=1) == golden
    assert decode_entry(golden) == [record]


def test_entry_of_all_records_has_its_golden_bytes() -> None:
    golden = bytes.fromhex(GOLDEN["all records"])
    assert encode_entry(EXAMPLES, level=1) == golden
    assert decode_entry(golden) == EXAMPLES


def test_key_has_its_golden_bytes() -> None:
    golden = bytes.fromhex(GOLDEN["EntryKey"])
    assert encode_key(KEY) == golden
    assert decode_key(golden) == KEY
    assert GOLDEN["EntryKey"] == "00000007" + "fedcba9876543211" + "000000000000002a"
