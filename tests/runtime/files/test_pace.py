"""Files end at full speed while nobody commits, and in small pieces while somebody does."""

from __future__ import annotations

import asyncio
import time

from coordinator.runtime.files.pace import ENTRIES_UNDER_WAY_MAX, FEW_FILES, MANY_FILES, Pace

DEADLINE_S = 60.0


class Commits:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        return self.count


async def test_pieces_are_small_from_a_commit_on_until_none_comes_any_more() -> None:
    commits = Commits()
    pace = Pace(commits)
    assert pace.files == MANY_FILES
    commits.count += 1
    assert pace.files == FEW_FILES
    async with asyncio.timeout(DEADLINE_S):
        while pace.files != MANY_FILES:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    # A replica that is built anew counts from 0: somebody may have committed.
    commits.count = 0
    assert pace.files == FEW_FILES


async def test_few_entries_are_under_way_at_a_time_and_all_get_their_turn() -> None:
    for committed in (0, 1):
        commits = Commits()
        pace = Pace(commits)
        under_way = most = written = 0
        go_on = asyncio.Event()

        async def entry(pace: Pace = pace, commits: Commits = commits, go_on: asyncio.Event = go_on, committed: int = committed) -> None:
            nonlocal under_way, most, written
            async with pace.entry():
                under_way += 1
                most = max(most, under_way)
                commits.count += committed
                if under_way == ENTRIES_UNDER_WAY_MAX:
                    go_on.set()
                await go_on.wait()
                under_way -= 1
                written += 1

        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*(entry() for _ in range(20)))
        assert (most, written) == (ENTRIES_UNDER_WAY_MAX, 20)


async def test_an_entry_that_fails_makes_room() -> None:
    pace = Pace(Commits())
    for _ in range(2 * ENTRIES_UNDER_WAY_MAX):
        try:
            async with pace.entry():
                raise TimeoutError
        except TimeoutError:
            pass
    async with asyncio.timeout(DEADLINE_S), pace.entry():
        pass


async def test_a_piece_behind_a_long_rest_is_larger() -> None:
    commits = Commits()
    pace = Pace(commits)
    sizes = []
    for held_s in (0.0, 0.03):
        commits.count += 1
        asyncio.get_running_loop().call_soon(time.sleep, held_s)
        await pace.rest()
        commits.count += 1
        sizes.append(pace.files)
    assert FEW_FILES <= sizes[0] <= sizes[1] == MANY_FILES
