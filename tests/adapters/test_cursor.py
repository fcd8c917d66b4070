"""The place of a reader in a partition: which entry it reads next, and what it knows to stand where no entry is."""

from __future__ import annotations

import pytest

from coordinator.adapters.kafka.reading.cursor import Cursor
from coordinator.core.log_entry import entry_hash
from coordinator.runtime.ports import LogEntry


def control(offset: int) -> LogEntry:
    return LogEntry(offset, 1_000, None, None)


def test_an_assignment_begins_one_entry_before_the_wanted_one() -> None:
    cursor = Cursor(0, 1, 7, None)
    cursor.repeat()
    assert (cursor.next_offset, cursor.wanted, cursor.is_repeating) == (6, 7, True)
    cursor.repeat()
    assert (cursor.next_offset, cursor.wanted, cursor.is_repeating) == (6, 7, True)


@pytest.mark.parametrize("floor", [7, 8])
def test_there_is_nothing_before_the_start_of_the_log(floor: int) -> None:
    cursor = Cursor(0, 1, 7, None)
    cursor.floor = floor
    cursor.repeat()
    assert (cursor.next_offset, cursor.wanted, cursor.is_repeating) == (7, 7, False)


def test_control_records_are_taken_once_and_only_all_of_them() -> None:
    cursor = Cursor(0, 1, 7, None)
    assert cursor.take_controls(7) == []
    assert cursor.take_controls(8) is None
    cursor.found_controls([control(7), control(8), control(10)])
    assert cursor.take_controls(10) is None
    assert cursor.take_controls(9) == [control(7), control(8)]
    assert cursor.take_controls(8) is None
    cursor.next_offset = 10
    assert cursor.take_controls(11) == [control(10)]


def test_the_reading_goes_on_where_control_records_were_found() -> None:
    cursor = Cursor(0, 1, 7, entry_hash(b"", b""))
    cursor.repeat()
    cursor.is_asking = True
    cursor.found_controls([control(6)])
    assert not cursor.is_asking
    cursor.repeat()
    assert (cursor.next_offset, cursor.is_repeating) == (6, True)
    assert cursor.is_the_last(control(6))
    assert not cursor.is_the_last(control(5))


def test_what_stood_there_before_is_not_believed_after_a_repetition() -> None:
    """A log that was cut has other entries where control records were found."""
    cursor = Cursor(0, 1, 7, None)
    cursor.found_controls([control(7)])
    cursor.repeat()
    cursor.repeat()
    assert cursor.next_offset == 6
    assert cursor.take_controls(7) is None
    cursor.next_offset = 7
    assert cursor.take_controls(8) is None
