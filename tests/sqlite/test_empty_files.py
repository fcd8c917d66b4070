"""Files without live batches: found by how long they are empty, never dated before the entry that emptied them, and counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.core.contradiction import check_records
from coordinator.core.tables.in_memory import Contradiction
from coordinator.core.tables.stored_rows import ColdStore, FileRow
from records.model import FilesRemoved, Record
from simulation.fakes.state_store import MemoryStateStores
from tests.sqlite.random_log import LogModel
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID, Replica, Store
from tests.sqlite.small_records import deleted, file, started

OpenStore = Callable[[], Store]
FIRST = (-1, -1)
ALWAYS = (1 << 63) - 1


@pytest.fixture(params=["sqlite", "memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    stores = StateDatabases(tmp_path, boot_id="boot") if request.param == "sqlite" else MemoryStateStores()
    return lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)


def empty(replica: Replica, before_ms: int = ALWAYS, after: tuple[int, int] = FIRST, limit: int = 100) -> list[FileRow]:
    found: list[FileRow] = []
    behind: tuple[int, int] | None = after
    while behind is not None and len(found) < limit:
        rows, behind = replica.state.empty_files(before_ms, behind, limit - len(found))
        found += rows
    return found


class CountedReads:
    """A cold store that notes the keys that files are read by."""

    def __init__(self, store: ColdStore) -> None:
        self._store = store
        self.keys: list[str] = []

    def files_by_key(self, object_keys: Sequence[str]) -> list[FileRow]:
        self.keys += object_keys
        return self._store.files_by_key(object_keys)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def keys(rows: list[FileRow]) -> list[str]:
    return [row.object_key for row in rows]


def test_a_file_is_found_once_its_end_is_written_and_not_before_the_entry_that_emptied_it(open_store: OpenStore) -> None:
    replica = started(open_store)
    replica.apply([file("a", {0: 4})], 1)
    replica.apply([file("b", {0: 2}, base=4)], 2)
    replica.flush()
    assert empty(replica) == []
    replica.state.hot.log_time_ms += 50_000
    emptied_ms = replica.state.hot.log_time_ms
    replica.apply([deleted(0, 4)], 3)
    replica.trim()
    assert empty(replica) == []
    replica.freeze_and_write()
    replica.state.written()
    [row] = empty(replica)
    assert (row.object_key, row.live_batches, row.emptied_ms) == ("a", 0, emptied_ms)
    assert keys(empty(replica, before_ms=emptied_ms)) == []
    assert keys(empty(replica, before_ms=emptied_ms + 1)) == ["a"]
    replica.restart()
    assert empty(replica) == [row]


def test_a_file_that_is_trimmed_in_pieces_is_empty_with_the_last_one(open_store: OpenStore) -> None:
    replica = started(open_store)
    replica.apply([file("a", {0: 4})], 1)
    replica.flush()
    for to in (1, 3, 4):
        assert empty(replica) == []
        replica.state.hot.log_time_ms += 1_000
        replica.apply([deleted(0, to)], 10 + to)
        replica.trim()
        replica.flush()
    assert [row.emptied_ms for row in empty(replica)] == [replica.state.hot.log_time_ms]


def test_a_file_of_which_no_batch_was_accepted_is_empty_from_its_commit_on(open_store: OpenStore) -> None:
    replica = started(open_store)
    replica.apply([file("a", {})], 1)
    replica.flush()
    assert keys(empty(replica)) == ["a"]
    assert empty(replica)[0].emptied_ms == replica.state.hot.log_time_ms


def test_a_file_whose_end_is_not_written_yet_is_left_out_and_pages_go_on_behind_it(open_store: OpenStore) -> None:
    replica = started(open_store)
    names = [f"k{number}" for number in range(7)]
    for number, name in enumerate(names):
        replica.apply([file(name, {0: 1}, base=number)], number + 1)
    replica.apply([deleted(0, 7)], 8)
    replica.trim()
    replica.flush()
    assert keys(empty(replica)) == names
    replica.apply([FilesRemoved(object_keys=["k0", "k2", "k3"])], 9)
    assert keys(empty(replica)) == ["k1", "k4", "k5", "k6"]
    replica.freeze_and_write()
    assert keys(empty(replica)) == ["k1", "k4", "k5", "k6"], "the loop does not know of the write yet"
    replica.state.written()
    found: list[str] = []
    after = FIRST
    while page := empty(replica, after=after, limit=3):
        found += keys(page)
        after = (page[-1].emptied_ms, page[-1].file_id)
    assert found == ["k1", "k4", "k5", "k6"]


def test_what_a_follower_judges_and_then_removes_is_read_once(open_store: OpenStore) -> None:
    """And a count that is not written yet is not kept: it has no time at which the file became empty."""
    replica = started(open_store)
    for number, name in enumerate("abc"):
        replica.apply([file(name, {0: 1}, base=number)], number + 1)
    replica.flush()
    replica.apply([deleted(0, 2)], 4)
    replica.trim()
    assert [row.emptied_ms for row in replica.state.find_files("a").values()] == [-1]
    replica.flush()
    replica.state.cold = reading = CountedReads(replica.state.cold)
    removed: list[Record] = [FilesRemoved(object_keys=["a", "b"])]
    check_records(replica.state, removed)
    replica.apply(removed, 5)
    assert reading.keys == ["a", "b"]
    assert replica.state.find_files("ab") == {}
    with pytest.raises(Contradiction, match="of its batches are live"):
        check_records(replica.state, [FilesRemoved(object_keys=["c"])])


@pytest.mark.parametrize("seed", range(6))
def test_what_is_found_and_counted_is_what_a_look_at_all_files_finds(open_store: OpenStore, seed: int) -> None:
    rng = random.Random(seed)
    model = LogModel(random.Random(seed + 4300), files_per_record=0.6)
    replica = Replica(open_store)
    for offset in range(150):
        replica.apply([model.next_record()], offset)
        if rng.random() < 0.3:
            replica.state.trim_step(rows_max=rng.choice([1, 1000]))
        if rng.random() < 0.2:
            replica.flush()
        if rng.random() < 0.05:
            replica.flush()
            replica.restart()
    replica.trim()
    replica.flush()
    files = replica.state.files_after("", 1000)
    without = sorted((row for row in files if not row.live_batches), key=lambda row: (row.emptied_ms, row.file_id))
    assert without
    assert empty(replica, limit=1000) == without
    assert all(0 <= row.emptied_ms <= replica.state.hot.log_time_ms for row in without)
    sizes = {is_live: [row.file_size for row in files if bool(row.live_batches) is is_live] for is_live in (True, False)}
    expected = (len(sizes[True]), len(sizes[False]), sum(sizes[True]), sum(sizes[False]))
    assert replica.state.file_totals() == expected
    assert len(replica.state.tombstone_ages) == sum(replica.state.find_tombstone(key) is not None for key in model.all_keys)


def test_files_that_became_empty_at_the_same_time_are_found_page_by_page(open_store: OpenStore) -> None:
    replica = started(open_store)
    for number in range(5):
        replica.apply([file(f"k{number}", {0: 1}, base=number)], number + 1)
    first_ms = replica.state.hot.log_time_ms
    replica.apply([deleted(0, 3)], 6)
    replica.trim()
    replica.flush()
    replica.state.hot.log_time_ms += 1_000
    replica.apply([deleted(0, 5)], 7)
    replica.trim()
    replica.flush()
    ids = {row.object_key: row.file_id for row in empty(replica)}
    assert keys(empty(replica, after=(first_ms, ids["k0"]), limit=1)) == ["k1"]
    assert keys(empty(replica, after=(first_ms, ids["k0"]), limit=3)) == ["k1", "k2", "k3"]
    assert keys(empty(replica, after=(first_ms, ids["k2"]))) == ["k3", "k4"]
    assert keys(empty(replica, after=(first_ms, ids["k0"]), before_ms=first_ms + 1)) == ["k1", "k2"]
    assert keys(empty(replica, after=(first_ms + 1_000, ids["k4"]))) == []
    assert keys(empty(replica, after=(first_ms, ids["k0"]), before_ms=first_ms)) == []


def test_a_file_that_was_read_as_empty_is_ended_and_stays_so(open_store: OpenStore) -> None:
    replica = started(open_store)
    replica.apply([file("a", {})], 1)
    replica.apply([file("b", {})], 2)
    replica.flush()
    assert keys(empty(replica)) == ["a", "b"]
    found = replica.state.find_files(["a", "b"])
    assert {key: row.live_batches for key, row in found.items()} == {"a": 0, "b": 0}
    replica.apply([FilesRemoved(object_keys=["a"])], 3)
    assert list(replica.state.find_files(["a", "b"])) == ["b"]
    replica.flush()
    assert keys(empty(replica)) == ["b"]
    assert list(replica.state.find_files(["a", "b"])) == ["b"]
