"""The report on a restore: what the service knows and what the store has, merged by key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.restore.report import MISSING, PARTLY_KNOWN, UNKNOWN, FoundObject, OutOfOrder, compare
from coordinator.core.file_state import FileState

T = TypeVar("T")


@dataclass(frozen=True)
class Known:
    object_key: str
    coordinator_id: int = 0
    live_batches: int = 1
    owner_ids: Sequence[int] = (0,)
    state: int = FileState.LIVE


def remembered(key: str, coordinator_id: int, state: FileState) -> Known:
    return Known(key, coordinator_id, live_batches=0, owner_ids=(), state=state)


BOTH = (0, 1)


async def stream(items: Sequence[T]) -> AsyncIterator[T]:
    for one in items:
        yield one


def report(files: Sequence[Known], keys: Sequence[str], later: Sequence[str] = ()) -> list[tuple[str, str, tuple[int, ...]]]:
    """What is told; objects in `later` are not listed, but there. Those that begin with x are of no interest."""

    async def is_lost(key: str) -> bool:
        return key not in later

    async def collect() -> list[tuple[str, str, tuple[int, ...]]]:
        objects = stream([FoundObject(key, 1, 1) for key in keys])
        rows = compare(stream(files), objects, is_wanted=lambda one: not one.key.startswith("x"), is_lost=is_lost)
        return [(row.finding, row.object_key, row.coordinators) async for row in rows]

    return asyncio.run(collect())


CASES: dict[str, tuple[Sequence[Known], Sequence[str], Sequence[str], list[tuple[str, str, tuple[int, ...]]]]] = {
    "nothing": ([], [], [], []),
    "all is well": ([Known("a"), Known("b")], ["a", "b"], [], []),
    "never committed": ([Known("b")], ["a", "b", "c"], [], [(UNKNOWN, "a", ()), (UNKNOWN, "c", ())]),
    "no file of ours": ([Known("b")], ["b", "x1"], [], []),
    "its object is gone": ([Known("a"), Known("b")], ["b"], [], [(MISSING, "a", (0,))]),
    "all objects are gone": ([Known("a"), Known("b")], [], [], [(MISSING, "a", (0,)), (MISSING, "b", (0,))]),
    "gone, and nothing of it lives": ([Known("a", live_batches=0)], [], [], []),
    "committed while it was listed": ([Known("a")], [], ["a"], []),
    "known to one of two owners": ([Known("a", 1, owner_ids=(0, 1))], ["a"], [], [(PARTLY_KNOWN, "a", (0,))]),
    "known to both": ([Known("a", 0, owner_ids=(0, 1)), Known("a", 1, owner_ids=(0, 1))], ["a"], [], []),
    "partly known and gone": ([Known("a", 1, owner_ids=(1, 2))], [], [], [(MISSING, "a", (1,)), (PARTLY_KNOWN, "a", (2,))]),
    "handed over": ([remembered("a", 0, FileState.HANDED_OVER), Known("a", 1, owner_ids=BOTH)], ["a"], [], []),
    "fenced at one": ([remembered("a", 0, FileState.FENCED), Known("a", 1, owner_ids=BOTH)], ["a"], [], []),
    "removed": ([remembered("a", 0, FileState.HANDED_OVER), remembered("a", 1, FileState.REMOVED), Known("b")], ["b"], [], []),
    "removed after it was listed": ([remembered("a", 0, FileState.REMOVED)], ["a", "b"], [], [(UNKNOWN, "b", ())]),
    "fenced, and never stored": ([remembered("a", 0, FileState.FENCED)], [], [], []),
    "handed over to one that has lost it": ([remembered("a", 0, FileState.HANDED_OVER)], ["a"], [], [(UNKNOWN, "a", ())]),
    "fenced, and stored before the command began": ([remembered("a", 0, FileState.FENCED)], ["a"], [], [(UNKNOWN, "a", ())]),
    "fenced, and no file of ours": ([remembered("x", 0, FileState.FENCED)], ["x"], [], []),
}


@pytest.mark.parametrize(("files", "keys", "later", "told"), CASES.values(), ids=CASES)
def test_report(files: Sequence[Known], keys: Sequence[str], later: Sequence[str], told: list[tuple[str, str, tuple[int, ...]]]) -> None:
    assert report(files, keys, later) == told


@pytest.mark.parametrize(("files", "keys"), [([], ["b", "a"]), ([Known("b"), Known("a")], [])])
def test_streams_that_are_in_no_order_are_refused(files: Sequence[Known], keys: Sequence[str]) -> None:
    with pytest.raises(OutOfOrder):
        report(files, keys, ["a", "b"])


@given(st.sets(st.text(max_size=3)), st.sets(st.text(max_size=3)))
def test_what_is_told_is_the_difference_of_the_sets(known: set[str], stored: set[str]) -> None:
    told = report([Known(key) for key in sorted(known)], sorted(stored))
    assert {key for what, key, _ in told if what == MISSING} == known - stored
    assert {key for what, key, _ in told if what == UNKNOWN} == {key for key in stored - known if not key.startswith("x")}
    assert [key for _, key, _ in told] == sorted(key for _, key, _ in told)
