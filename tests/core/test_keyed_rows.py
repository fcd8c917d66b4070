"""Rows found by keys do what a dict with numbered entries does, compiled and not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.tables import keyed_loops
from coordinator.core.tables.cells import CHANGED, VALUES
from coordinator.core.tables.keyed_loops import KeyedRows
from tests.compiled import plain

PLAIN = plain(keyed_loops)
KINDS: list[type[KeyedRows]] = [KeyedRows, PLAIN.KeyedRows]
WIDTH = VALUES + 2

Key: TypeAlias = tuple[int, int, int]


def _colliding() -> list[Key]:
    """Keys whose search begins at one of three neighbouring places of a new table: the last two and the first."""
    rows = PLAIN.KeyedRows(WIDTH)
    places = (126, 127, 0)
    return [key for number in range(3000) if rows.home(*(key := (number, -number, number % 5))) in places][:12]


COLLIDING = _colliding()
EXTREMES = [(first, second, third) for first in (0, 2**63 - 1) for second in (0, -(2**63)) for third in (0, -1)]
KEYS: list[Key] = COLLIDING + EXTREMES
MANY = [(7, 7, number) for number in range(90)]
"""More than a new table has room for."""


class Model:
    """What a table must say: rows by key, their values, and which numbers are taken."""

    def __init__(self, kind: type[KeyedRows]) -> None:
        self.kind = kind
        self.rows = kind(WIDTH)
        self.row_of: dict[Key, int] = {}
        self.values: dict[int, int] = {}
        self.unlinked: list[int] = []
        self.changed: set[int] = set()
        self.free: set[int] = set()
        self.added = 0

    def add(self, key: Key) -> None:
        if key in self.row_of:
            return
        self.rows.reserve(1)
        row = self.rows.take_row()
        assert row in self.free if self.free else row == len(self.row_of) + len(self.unlinked)
        self.rows.set_key(row, *key)
        assert self.rows.array[row].tolist()[VALUES:] == [0, 0]
        self.free.discard(row)
        self.added += 1
        self.row_of[key] = row
        self.values[row] = self.rows.array[row, WIDTH - 1] = self.added

    def unlink(self, key: Key) -> None:
        if key in self.row_of:
            row = self.row_of.pop(key)
            self.rows.unlink(row)
            self.rows.untouch(row)
            self.changed.discard(row)
            self.unlinked.append(row)

    def release(self, number: int) -> None:
        if self.unlinked:
            row = self.unlinked.pop(number % len(self.unlinked))
            self.rows.release(row)
            self.free.add(row)

    def drop(self, first: int) -> None:
        """Let every third row go, in one call."""
        keys = sorted(self.row_of, key=self.row_of.__getitem__)[first % 3 :: 3]
        rows = [self.row_of.pop(key) for key in keys]
        self.rows.drop(np.array(rows, np.int64).data)
        self.changed.difference_update(rows)
        self.free.update(rows)

    def forget(self, key: Key) -> None:
        """Unlink all rows whose keys differ from this one in their third part alone; keys that are not there are named too."""
        alike = [other for other in self.row_of if other[:2] == key[:2]]
        thirds = sorted({other[2] for other in alike} | {key[2], 12_345})
        rows = np.full(len(thirds), -7, np.int64)
        count = self.rows.forget(key[0], key[1], np.array(thirds, np.int64).data, rows.data)
        gone = [self.row_of.pop(other) for other in sorted(alike)]
        assert rows.tolist() == gone + [-7] * (len(thirds) - count)
        self.changed.difference_update(gone)
        self.unlinked += gone

    def touch(self, key: Key) -> None:
        if key in self.row_of:
            self.rows.touch(self.row_of[key])
            self.changed.add(self.row_of[key])

    def untouch(self, key: Key) -> None:
        if key in self.row_of:
            self.rows.untouch(self.row_of[key])
            self.changed.discard(self.row_of[key])

    def take_changed(self) -> None:
        assert self.rows.take_changed().tolist() == sorted(self.changed)
        self.changed = set()

    def copy(self) -> None:
        """Go on with a copy; what becomes of the original shows nowhere."""
        old, self.rows = self.rows, self.kind(WIDTH)
        self.rows.copy_from(old)
        self.changed = set()
        for _ in self.free:
            old.take_row()
        for key, row in self.row_of.items():
            old.array[row, VALUES:] = -5
            old.touch(row)
            if key in COLLIDING:
                old.unlink(row)
                old.release(row)

    def restore(self) -> None:
        """Come back from rows that were stored with their numbers."""
        self.rows = self.kind(WIDTH)
        for key, row in sorted(self.row_of.items(), reverse=len(self.row_of) % 2 == 0):
            self.rows.restore(row, *key)
            self.rows.array[row, WIDTH - 1] = self.values[row]
        # Numbers behind the last row that is known are free without being listed.
        self.unlinked = [row for row in self.unlinked if row < self.rows.top]
        self.rows.collect_free(np.array(self.unlinked, np.int64))
        self.free = set(range(self.rows.top)) - set(self.unlinked) - set(self.row_of.values())
        self.changed = set()

    def check(self) -> None:
        for key in [*KEYS, *MANY[::9]]:
            assert self.rows.find(*key) == self.row_of.get(key, -1)
        assert sorted(self.rows.rows().tolist()) == sorted(self.row_of.values())
        assert self.rows.count == len(self.row_of)
        assert self.rows.has_changed() == bool(self.changed)
        for key, row in self.row_of.items():
            cells = self.rows.array[row].tolist()
            assert (tuple(cells[:3]), cells[WIDTH - 1]) == (key, self.values[row])


def _do(model: Model, what: str, key: Key, number: int) -> None:
    of_key: dict[str, Callable[[Key], None]] = {
        "add": model.add,
        "unlink": model.unlink,
        "forget": model.forget,
        "touch": model.touch,
        "untouch": model.untouch,
    }
    of_all: dict[str, Callable[[], None]] = {"take": model.take_changed, "copy": model.copy, "restore": model.restore}
    if what in of_key:
        of_key[what](key if what != "forget" or number % 10 else MANY[0])
    elif what in of_all:
        of_all[what]()
    elif what == "drop":
        model.drop(number)
    else:
        model.release(number)


WHAT = ["add"] * 8 + ["unlink"] * 5 + ["forget"] * 2 + ["release"] * 4 + ["touch"] * 4 + ["untouch"] * 3
WHAT += ["take", "copy", "restore", "drop"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_of_a_dict(kind: type[KeyedRows], seed: int) -> None:
    rng = random.Random(seed)
    # Few keys, so that the same rows are taken, marked and given back again and again.
    keys = rng.sample(COLLIDING, 5) + rng.sample(EXTREMES, 3)
    model = Model(kind)
    for step in range(400):
        if step in (150, 300):
            for key in MANY:
                model.add(key)
        _do(model, rng.choice(WHAT), rng.choice(keys), rng.randrange(100))
        model.check()
    model.take_changed()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100)
@given(order=st.permutations(range(len(COLLIDING))), gone=st.sets(st.integers(0, len(COLLIDING) - 1)))
def test_keys_that_collide_are_found_whichever_of_them_are_gone(kind: type[KeyedRows], order: list[int], gone: set[int]) -> None:
    model = Model(kind)
    for number in order:
        model.add(COLLIDING[number])
    for number in order:
        if number in gone:
            model.unlink(COLLIDING[number])
            model.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_room_is_refused(kind: type[KeyedRows]) -> None:
    rows = kind(WIDTH)
    room = len(rows.array)
    for number in range(room):
        rows.set_key(rows.take_row(), 1, 1, number)
    row = rows.take_row()
    with pytest.raises(IndexError):
        rows.set_key(row, 1, 1, room)
    for broken in (rows.touch, rows.untouch, rows.unlink):
        with pytest.raises(IndexError):
            broken(room)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_not_found_cannot_be_unlinked(kind: type[KeyedRows]) -> None:
    model = Model(kind)
    for key in COLLIDING[:5]:
        model.add(key)
    row = model.row_of[COLLIDING[2]]
    model.unlink(COLLIDING[2])
    with pytest.raises(KeyError, match=f"row {row} is not in the index"):
        model.rows.unlink(row)
    model.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_marks_nothing_as_changed(kind: type[KeyedRows]) -> None:
    model = Model(kind)
    model.add(KEYS[0])
    model.touch(KEYS[0])
    twin = kind(WIDTH)
    twin.copy_from(model.rows)
    assert not twin.has_changed()
    assert not twin.array[:, CHANGED].any()
    assert model.rows.has_changed()
