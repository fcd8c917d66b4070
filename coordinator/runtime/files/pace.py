"""How fast the files of all coordinators of a node end: at full speed while nobody commits, in small pieces while somebody does.

Reading rows, asking about them and having their ends logged takes the event loop some microseconds for each file, and a commit that arrives
meanwhile waits for the piece that is under way. So pieces are small while commits come, and there is a rest behind each. It is longer where
the event loop comes back to it late, for then it has more to do than this. It does not depend on how long the log takes to acknowledge, and
it has an end, so that files end however much is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple


class Piece(NamedTuple):
    """How much is done at once: rows that are read, and keys of an entry."""

    rows: int
    keys: int


BESIDE = Piece(rows=32, keys=32)
"""While commits come: each takes the event loop a quarter of a millisecond, of which a read takes most for the first row."""
ALONE = Piece(rows=200, keys=200)
"""While none comes: the first that does waits for a millisecond or two."""
COMMITS_COME_S = 0.1
"""How long after a commit others are expected."""
ENTRIES_UNDER_WAY_MAX = 3
"""So many leave room for commits: a term has four groups under way at most."""
REST_S = 0.001
"""Behind each piece beside commits."""
LATE_REST_MAX_S = 0.01
"""Where the event loop comes back late to a rest, it rests for as long once more, at most for so long."""


@dataclass(slots=True)
class _Seen:
    commits: int
    at_s: float


class Pace:
    """See the module's text; one per node. `commits` counts those that its coordinators have acknowledged."""

    def __init__(self, commits: Callable[[], int]) -> None:
        self._commits = commits
        self._seen = _Seen(0, float("-inf"))
        self._under_way = asyncio.Semaphore(ENTRIES_UNDER_WAY_MAX)
        self._turn = asyncio.Lock()

    @property
    def piece(self) -> Piece:
        """How much to do at once now."""
        return BESIDE if self._do_commits_come() else ALONE

    def _do_commits_come(self) -> bool:
        commits, now_s = self._commits(), asyncio.get_running_loop().time()
        if commits != self._seen.commits:
            self._seen = _Seen(commits, now_s)
        return now_s - self._seen.at_s < COMMITS_COME_S

    async def rest(self) -> None:
        """Leave the event loop to others behind a piece; while no commits come, only to those that wait already."""
        if not self._do_commits_come():
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        await asyncio.sleep(REST_S)
        late_s = loop.time() - begun_s - REST_S
        if late_s > REST_S:
            await asyncio.sleep(min(late_s, LATE_REST_MAX_S))

    @asynccontextmanager
    async def entry(self) -> AsyncIterator[None]:
        """Held while an entry is on its way: few are at a time, and there is a rest between two of them."""
        async with self._under_way:
            async with self._turn:
                await self.rest()
            yield
