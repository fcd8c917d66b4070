"""In which state a file is for one of its owners: a table of what the owner knows, and the time."""

from __future__ import annotations

import pytest

from coordinator.core.file_state import FileState
from coordinator.core.reads.file_life import STATES_OF_TOMBSTONES, TIME_MS_MAX, FileLife, FileTimes, life_of
from coordinator.core.tables.stored_rows import FileRow, Tombstone

TIMES = FileTimes(commit_max_age_ms=900, delete_grace_ms=60, fence_retention_ms=2_000)
# The owners of this key are responsible in this order.
FILE = FileRow(
    file_id=1,
    object_key="wal/8",
    content_hash=b"c",
    object_format=1,
    file_size=100,
    uploader_broker_id=7,
    owner_ids="1,2,3",
    created_ms=1_000,
    append_time_ms=1_100,
    batch_count=3,
    live_batches=0,
    record=b"",
    emptied_ms=5_000,
)


def empty(**fields: object) -> FileRow:
    return FILE._replace(**fields)  # type: ignore[arg-type]


CASES: dict[str, tuple[FileRow, int, int, tuple[FileState, int, tuple[int, ...]]]] = {
    "live, however old": (empty(live_batches=1, emptied_ms=-1), 1, 10**12, (FileState.LIVE, -1, ())),
    "in its grace": (FILE, 1, 5_060, (FileState.EMPTY, 5_060, ())),
    "past its grace": (FILE, 1, 5_061, (FileState.DELETABLE, 5_060, ())),
    "in its grace, with owners before": (FILE, 3, 5_060, (FileState.EMPTY, 5_060, (1, 2))),
    "past its grace, with an owner before": (FILE, 2, 5_061, (FileState.WAITING, 5_060, (1,))),
    "past its grace, but young": (empty(created_ms=4_900, append_time_ms=4_950), 1, 5_800, (FileState.EMPTY, 5_800, ())),
    "past its age too": (empty(created_ms=4_900, append_time_ms=4_950), 1, 5_801, (FileState.DELETABLE, 5_800, ())),
    "its age counts from its commit where no creation is known": (
        empty(created_ms=-1, append_time_ms=4_950),
        1,
        5_850,
        (FileState.EMPTY, 5_850, ()),
    ),
    "it lost its last batch a moment ago": (empty(emptied_ms=-1), 2, 10**12, (FileState.EMPTY, -1, (1,))),
    "created at the end of time, it waits as if it were created when it was committed": (
        empty(created_ms=TIME_MS_MAX, append_time_ms=4_950),
        1,
        5_850,
        (FileState.EMPTY, 5_850, ()),
    ),
    "and no longer": (empty(created_ms=TIME_MS_MAX, append_time_ms=4_950), 1, 5_851, (FileState.DELETABLE, 5_850, ())),
    "one owner": (empty(owner_ids="2"), 2, 9_999, (FileState.DELETABLE, 5_060, ())),
    "no owner of it": (FILE, 4, 9_999, (FileState.WAITING, 5_060, (1, 2, 3))),
}


@pytest.mark.parametrize(("file", "coordinator_id", "now_ms", "told"), CASES.values(), ids=CASES)
def test_files(file: FileRow, coordinator_id: int, now_ms: int, told: tuple[FileState, int, tuple[int, ...]]) -> None:
    life = life_of(file, coordinator_id, TIMES, now_ms)
    assert (life.state, life.until_ms, life.owners_before) == told
    assert life.since_ms == (file.append_time_ms if file.live_batches else file.emptied_ms)


@pytest.mark.parametrize(("reason", "state"), STATES_OF_TOMBSTONES.items())
@pytest.mark.parametrize(("created_ms", "until_ms"), [(1_000, 3_000), (-1, -1), (TIME_MS_MAX, TIME_MS_MAX)])
def test_tombstones(reason: str, state: FileState, created_ms: int, until_ms: int) -> None:
    stone = Tombstone("wal/1", reason, 4_000, created_ms)
    for now_ms in (0, 10**12):
        assert life_of(stone, 1, TIMES, now_ms) == FileLife(state=state, since_ms=4_000, until_ms=until_ms)


def test_only_states_without_a_file_are_those_of_tombstones() -> None:
    assert sorted(STATES_OF_TOMBSTONES.values()) == [one for one in FileState if one >= FileState.FENCED]
