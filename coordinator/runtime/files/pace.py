"""How fast the files of all coordinators of a node end: at full speed while nobody commits, in small pieces while somebody does.

Reading rows and having the ends of files logged takes the event loop some microseconds for each file, and a commit that arrives meanwhile
waits for the piece that is under way. So pieces are small while commits come, and there is a rest behind each. Where the event loop comes
back late to a rest, because it has much to do or waits for a core, the next piece is larger: files then end as fast, for the same share of
the loop's time. How long the log takes to acknowledge changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

FEW_FILES = 32
"""A piece beside commits: it takes the event loop a quarter of a millisecond."""
MANY_FILES = 200
"""A piece while no commit comes, or when the event loop came back very late: the first commit waits for a millisecond or two."""
FILES_PER_S = 20_000
"""How large the pieces behind longer rests are."""
REST_S = 0.001
"""Behind each piece beside commits."""
COMMITS_COME_S = 0.1
"""How long after a commit others are expected."""
ENTRIES_UNDER_WAY_MAX = 3
"""So many leave room for commits: a term has four groups under way at most."""


class Pace:
    """See the module's text; one per node. `commits` counts those that its coordinators have acknowledged."""

    def __init__(self, commits: Callable[[], int]) -> None:
        self._commits = commits
        self._seen = 0
        self._seen_s = float("-inf")
        self._rested_s = 0.0
        self._under_way = asyncio.Semaphore(ENTRIES_UNDER_WAY_MAX)
        self._turn = asyncio.Lock()

    @property
    def files(self) -> int:
        """How many files are read, or ended by an entry, at once now."""
        if not self._do_commits_come():
            return MANY_FILES
        return max(FEW_FILES, min(int(self._rested_s * FILES_PER_S), MANY_FILES))

    def _do_commits_come(self) -> bool:
        commits, now_s = self._commits(), asyncio.get_running_loop().time()
        if commits != self._seen:
            self._seen, self._seen_s = commits, now_s
        return now_s - self._seen_s < COMMITS_COME_S

    async def rest(self) -> None:
        """Leave the event loop to others behind a piece; while no commits come, only to those that wait already."""
        if not self._do_commits_come():
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        await asyncio.sleep(REST_S)
        self._rested_s = loop.time() - begun_s

    @asynccontextmanager
    async def entry(self) -> AsyncIterator[None]:
        """Held while an entry is on its way: few are at a time, and there is a rest between two of them."""
        async with self._under_way:
            async with self._turn:
                await self.rest()
            yield
