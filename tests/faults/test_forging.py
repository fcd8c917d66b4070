"""Every lie contradicts the log it was made for, by its last entry alone; and nothing of it takes effect."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from integration_tests.faults.forging import LIES, NothingToContradict
from integration_tests.history import LogMessage
from integration_tests.log_fold import LogFold
from integration_tests.metadata_log import LogReader
from records.codec import encode_entry, encode_key
from records.entry_key import EntryKey
from tests.faults.test_log_fold import CLAIMED, CREATED, TERM, file


def append(reader: LogReader, values: Sequence[bytes]) -> None:
    for value in values:
        due = reader.next_key or EntryKey(1, TERM, 0)
        reader.take(LogMessage(len(reader.read.voids) + due.seq, encode_key(due), value))


def beginning() -> LogReader:
    reader = LogReader()
    records = [CLAIMED, CREATED, file("a", 0, producer=(5, 0, 0)), file("b", 0, partition=1)]
    append(reader, [encode_entry([record]) for record in records])
    assert reader.read.voids == []
    return reader


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("seed", range(8))
def test_a_lie_contradicts_and_has_no_effect(name: str, seed: int) -> None:
    reader = beginning()
    before = [commit.object_key for commit in reader.read.commits]
    fold = (dict(reader.fold.high_watermarks), dict(reader.fold.producers), dict(reader.fold.files))
    values = LIES[name](reader.fold, Random(seed))
    append(reader, values[:-1])
    assert reader.read.voids == []
    append(reader, values[-1:])
    assert len(reader.read.contradictions) == len(reader.read.voids) == 1
    assert [commit.object_key for commit in reader.read.commits] == before
    assert reader.read.log_starts == {}
    assert (reader.fold.high_watermarks, reader.fold.producers, reader.fold.files) == fold
    assert reader.read.unreadable is None


def test_a_log_without_records_gives_nothing_to_lie_about() -> None:
    with pytest.raises(NothingToContradict):
        LIES["offset 0 once more"](LogFold(), Random(1))
