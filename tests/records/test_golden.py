"""The bytes in the log never change: every record type and the key against committed hex."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from records.codec import decode_entry, decode_key, encode_entry, encode_key
from records.history import levels
from tests.records.examples import EXAMPLES, KEY, examples_of

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
GOLDEN_OF_LEVEL: dict[int, dict[str, str]] = {level: GOLDEN[f"level {level}"] for level in levels()}


def test_every_record_type_has_golden_bytes() -> None:
    assert set(GOLDEN) == {"EntryKey"} | {f"level {level}" for level in levels()}
    for level, golden in GOLDEN_OF_LEVEL.items():
        assert set(golden) == {type(record).__name__ for record in examples_of(level)} | {"all records"}
    assert len(EXAMPLES) == 34


@pytest.mark.parametrize(("name", "level"), [(type(record).__name__, level) for level in levels() for record in examples_of(level)])
def test_record_has_its_golden_bytes(name: str, level: int) -> None:
    golden = bytes.fromhex(GOLDEN_OF_LEVEL[level][name])
    (record,) = (record for record in examples_of(level) if type(record).__name__ == name)
    assert encode_entry([record], level) == golden
    assert decode_entry(golden) == [record]


@pytest.mark.parametrize("level", levels())
def test_entry_of_all_records_has_its_golden_bytes(level: int) -> None:
    golden = bytes.fromhex(GOLDEN_OF_LEVEL[level]["all records"])
    assert encode_entry(examples_of(level), level) == golden
    assert decode_entry(golden) == examples_of(level)


def test_key_has_its_golden_bytes() -> None:
    golden = bytes.fromhex(GOLDEN["EntryKey"])
    assert encode_key(KEY) == golden
    assert decode_key(golden) == KEY
    assert GOLDEN["EntryKey"] == "00000007" + "fedcba9876543211" + "000000000000002a"
