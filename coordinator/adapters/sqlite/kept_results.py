"""Lets go of the kept results of old commits: the column `file.record`, most of a file's row.

Files are numbered in the order of the log, and their append times never go back. So the cleared ones are a prefix, whose
end is found again by halving: nothing about it is stored. A bounded step rides on every flush, larger than what the
flush brings, so that a backlog shrinks.
"""

from __future__ import annotations

import apsw

from coordinator.adapters.sqlite.schema import fetch

FILES_PER_STEP_MIN = 1_000
FILES_PER_FILE_ADDED = 2

LAST_FILE = "SELECT ifnull(max(id), -1) FROM file"
FIRST_FROM = "SELECT id, length(record) FROM file WHERE id >= ? ORDER BY id LIMIT 1"
LAST_EXPIRED = """
    SELECT max(id) FROM (SELECT id, append_time_ms FROM file WHERE id > ?1 ORDER BY id LIMIT ?2) WHERE append_time_ms < ?3
"""
CLEAR = "UPDATE file SET record = x'' WHERE id > ?1 AND id <= ?2"


class KeptResults:
    """Clears inside the writer's transaction; after a rollback it has to `start_over`."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._cleared_to: int | None = None

    def start_over(self) -> None:
        """Forget the end of the cleared prefix."""
        self._cleared_to = None

    def cleared_to(self) -> int:
        """The last file of the cleared prefix, -1 for none."""
        if self._cleared_to is None:
            self._cleared_to = self._find_cleared()
        return self._cleared_to

    def clear(self, before_ms: int, files_added: int) -> None:
        """Clear the next results of files appended before a time."""
        step = max(FILES_PER_STEP_MIN, FILES_PER_FILE_ADDED * files_added)
        last = fetch(self._connection, LAST_EXPIRED, (self.cleared_to(), step, before_ms))[0][0]
        if last is None:
            return
        self._connection.execute(CLEAR, (self.cleared_to(), last))
        self._cleared_to = last

    def _find_cleared(self) -> int:
        low, high = 0, int(fetch(self._connection, LAST_FILE)[0][0]) + 1
        while low < high:
            middle = (low + high) // 2
            (found, kept_bytes) = fetch(self._connection, FIRST_FROM, (middle,))[0]
            if kept_bytes:
                high = middle
            else:
                low = found + 1
        return low - 1
