"""Listing files page by page, where several coordinators know the same file."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordinator.core.commands import FenceFiles, HandOverFiles, RemoveFiles
from coordinator.core.file_state import FileState
from coordinator.core.limits import FILES_PER_REQUEST_MAX, Limits
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import ListFilesRequest, ListFilesResponse
from coordinator.runtime.answers.file_listing import FILE_STATES, TOMBSTONE_STATES, FileListing, FilePage
from coordinator.runtime.answers.maintenance import list_files, page_of
from coordinator.runtime.failures import NotReadable
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, delete_records, place, result_of
from tests.patient_loop import loop_ms
from tests.runtime.nodes import Running, in_memory, running

FILES = {"a": (0,), "b": (0, 1, 2), "c": (1, 2), "d": (2,), "e": (0, 1)}
MAX_AGE_MS = Limits().file_commit_max_age_ms
LATER_MS = MAX_AGE_MS // 2
"""How much later the files are listed than they were committed."""
ALL = [(key, owner) for key, owners in FILES.items() for owner in owners]


async def fill(started: Running) -> None:
    await started.leads()
    for partition in range(3):
        await started.ask(partition, place(count=1))
    for key, owner in ALL:
        answer = await started.ask(owner, commit(key, [batch(0, 1)], owner_ids=list(FILES[key])))
        assert result_of(answer).errors == [0]


def keys_of(page: FilePage) -> list[tuple[str, int]]:
    return [(one.known.object_key, one.coordinator_id) for one in page.files]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 8, 9, 100])
async def test_pages_together_have_every_row_once(limit: int) -> None:
    async with running(in_memory(partitions=3), MemoryStateStores()) as started:
        await fill(started)
        listing = FileListing(started.node, [])
        rows: list[tuple[str, int]] = []
        after, more = "", True
        while more:
            page = listing.after(after, limit, FILE_STATES)
            found = keys_of(page)
            assert len(found) >= min(limit, len(ALL) - len(rows))
            # Without the rows of its last key a page is shorter than the limit.
            assert len([key for key, _ in found if key != found[-1][0]]) < limit
            rows += found
            after, more = page.last_key, page.more
            assert after == found[-1][0]
        assert rows == ALL
        assert listing.after("e", 5, FILE_STATES) == FilePage(files=[], last_key="", more=False)


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
@pytest.mark.parametrize("limit", [1, 3, 4, 100])
async def test_pages_read_in_pieces_together_have_every_row_once(limit: int, piece: int) -> None:
    async with running(in_memory(partitions=3), MemoryStateStores()) as started:
        await fill(started)
        listing, rows = FileListing(started.node, []), []
        after, more = "", True
        while more:
            page = await page_of(listing, after, limit, FILE_STATES, at_once=piece)
            assert len(page.files) >= min(limit, len(ALL) - len(rows))
            rows += keys_of(page)
            after, more = page.last_key, page.more
        assert rows == ALL


async def test_answers_together_have_every_row_once() -> None:
    async with running(in_memory(partitions=3), MemoryStateStores()) as started:
        await fill(started)
        rows: list[tuple[str, int]] = []
        after: str | None = None
        more = True
        while more:
            request = ListFilesRequest(coordinator_ids=(), after_key=after, max_files=3, states=(), object_keys=())
            answer = await list_files(started.node, 0, request)
            assert isinstance(answer, ListFilesResponse)
            rows += [(one.object_key, one.coordinator_id) for one in answer.files]
            after, more = answer.last_key, answer.more
        assert rows == ALL


async def test_the_given_coordinators_are_listed_once_and_led_or_not() -> None:
    async with running(in_memory(partitions=3), MemoryStateStores()) as started:
        await fill(started)
        page = FileListing(started.node, [2, 1, 2]).after("b", 10, FILE_STATES)
        assert keys_of(page) == [("c", 1), ("c", 2), ("d", 2), ("e", 1)]
        assert not page.more
        started.node.replicas[2].set_assigned(False)
        started.node.replicas[2].invalidate("injected")
        assert started.node.replicas.led() == [0, 1]
        assert {one.coordinator_id for one in FileListing(started.node, []).after("", 10, FILE_STATES).files} == {0, 1}
        # One that has failed cannot be believed.
        assert FileListing(started.node, [0, 2, 7]).unreadable() == [2, 7]
        with pytest.raises(NotReadable):
            FileListing(started.node, [2]).after("", 10, FILE_STATES)


async def lose(started: Running, partition: int, offset: int) -> None:
    """Delete the records of a coordinator's only partition before an offset, and count them out of their files."""
    await started.ask(partition, delete_records((0, offset)))
    replica = started.node.replicas[partition]

    def is_told() -> bool:
        rows = [] if replica.view is None else replica.view.files_after("", 100)
        return all(row.live_batches or row.emptied_ms >= 0 for row in rows) and any(not row.live_batches for row in rows)

    await started.until(is_told, "the files without batches to have the time of that")


def later_ms() -> int:
    return loop_ms() + LATER_MS


async def with_every_state(started: Running) -> None:
    """Files in every state, when they are listed later."""
    await started.leads()
    await started.ask(0, place(count=1))
    now_ms = loop_ms()
    old_ms = now_ms - MAX_AGE_MS + LATER_MS // 2
    for key, created_ms, owner_ids in (
        ("handed", old_ms, [0, 1]),
        ("removed", old_ms, [0]),
        ("deletable", old_ms, [0, 1]),
        ("waiting", old_ms, [1, 0]),
        ("empty", now_ms, [0]),
        ("live", now_ms, [0]),
    ):
        answer = await started.ask(0, commit(key, [batch(0, 1)], created_ms=created_ms, owner_ids=owner_ids))
        assert result_of(answer).errors == [0], result_of(answer)
    await lose(started, 0, 5)
    await started.ask(0, RemoveFiles(object_keys=["removed"]))
    await started.ask(0, HandOverFiles(object_keys=["handed"], next_owner_ids=[1]))
    await started.ask(0, FenceFiles(object_keys=["fenced"], created_ms=[now_ms]))


EVERY_STATE = {
    "deletable": FileState.DELETABLE,
    "empty": FileState.EMPTY,
    "fenced": FileState.FENCED,
    "handed": FileState.HANDED_OVER,
    "live": FileState.LIVE,
    "removed": FileState.REMOVED,
    "waiting": FileState.WAITING,
}


async def test_files_are_listed_in_every_state_that_is_asked_for() -> None:
    async with running(in_memory(partitions=2), MemoryStateStores(), wall_clock_ms=later_ms) as started:
        await with_every_state(started)
        listing = FileListing(started.node, [0])
        everything = listing.after("", 100, set(FileState))
        assert {one.known.object_key: one.life.state for one in everything.files} == EVERY_STATE
        assert listing.of_keys([*reversed(EVERY_STATE), "unknown"]).files == everything.files
        for wanted in (FILE_STATES, TOMBSTONE_STATES, *({state} for state in FileState)):
            keys = [key for key, state in EVERY_STATE.items() if state in wanted]
            for limit in (1, 2, 100):
                found, after, more = [], "", True
                while more:
                    page = listing.after(after, limit, wanted)
                    found += [one.known.object_key for one in page.files]
                    after, more = page.last_key, page.more
                assert found == keys


async def test_the_wire_tells_states_with_their_times() -> None:
    async with running(in_memory(partitions=2), MemoryStateStores(), wall_clock_ms=later_ms) as started:
        await with_every_state(started)

        async def listed(*keys: str, states: Sequence[FileState] = ()) -> ListFilesResponse:
            request = ListFilesRequest(coordinator_ids=(0,), states=tuple(map(int, states)), object_keys=keys)
            answer = await list_files(started.node, 0, request)
            assert isinstance(answer, ListFilesResponse)
            return answer

        assert [one.object_key for one in (await listed()).files] == ["deletable", "empty", "live", "waiting"]
        [fenced] = (await listed(states=[FileState.FENCED])).files
        assert (fenced.object_key, fenced.size, fenced.append_time_ms, fenced.owner_ids) == ("fenced", -1, -1, ())
        assert fenced.until_ms == fenced.created_ms + started.node.config.limits.file_fence_retention_ms
        [waiting] = (await listed("waiting")).files
        assert (waiting.state, waiting.owners_before, waiting.owner_ids) == (FileState.WAITING, (1,), (1, 0))
        assert waiting.created_ms + MAX_AGE_MS <= waiting.until_ms < started.node.wall_ms()
        assert waiting.append_time_ms <= waiting.since_ms <= loop_ms()
        [live] = (await listed("live")).files
        assert (live.state, live.since_ms, live.until_ms) == (FileState.LIVE, live.append_time_ms, -1)
        refused = await listed(*map(str, range(FILES_PER_REQUEST_MAX + 1)))
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert "at most 1000 are allowed in a request: split it" in (refused.error_message or "")
