"""Lists the files that this node's replicas know, which may lag their leaders, with the states of their lives.

A page is cut between keys: a file of several owners has a row for each coordinator, and all rows of a key come together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from coordinator.core.file_state import FileState
from coordinator.core.reads.file_life import STATES_OF_TOMBSTONES, FileLife, FileTimes, life_of
from coordinator.core.tables.stored_rows import FileRow, Tombstone
from coordinator.core.view import ShardView
from coordinator.runtime.node.node import Node

TOMBSTONE_STATES = frozenset(STATES_OF_TOMBSTONES.values())
FILE_STATES = frozenset(FileState) - TOMBSTONE_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file as one coordinator has it, or what is left of it, a tombstone."""

    coordinator_id: int
    known: FileRow | Tombstone
    life: FileLife


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePage:
    """Files in the order of their keys. `last_key` is the last one that was looked at, '' for none; `more` tells of keys after it."""

    files: Sequence[LocalFile]
    last_key: str
    more: bool


class FileListing:
    """Reads a node's replicas of some coordinators, else of those that it leads; changes nothing."""

    def __init__(self, node: Node, coordinator_ids: Iterable[int]) -> None:
        self._node = node
        self._ids = list(dict.fromkeys(coordinator_ids)) or node.replicas.led()
        self._times = FileTimes(
            commit_max_age_ms=node.config.files.commit_max_age_ms,
            delete_grace_ms=node.config.files.delete_grace_ms,
            fence_retention_ms=node.config.limits.file_fence_retention_ms,
        )

    def unreadable(self) -> list[int]:
        """Coordinators of which this node has no replica that can be read."""
        replicas = self._node.replicas
        return [one for one in self._ids if (replica := replicas.get(one)) is None or not replica.is_readable]

    def after(self, after_key: str, limit: int, states: Collection[int]) -> FilePage:
        """Look at up to `limit` files after a key, and return those in these states. Raises `NotReadable`.

        It may be more by the rows of the last key.
        """
        found = [self._row(one, known) for one in self._ids for known in self._known(one, after_key, limit + 1, states)]
        found.sort(key=lambda row: (row.known.object_key, row.coordinator_id))
        end = min(limit, len(found))
        while 0 < end < len(found) and found[end].known.object_key == found[end - 1].known.object_key:
            end += 1
        files = [row for row in found[:end] if row.life.state in states]
        return FilePage(files=files, last_key=found[end - 1].known.object_key if end else "", more=end < len(found))

    def of_keys(self, object_keys: Iterable[str]) -> FilePage:
        """Return the rows of some keys, in any state. Raises `NotReadable`."""
        keys = sorted(set(object_keys))
        found = [
            self._row(one, known)
            for key in keys
            for one in self._ids
            if (known := self._node.replicas[one].look(ShardView.file, key)) is not None
        ]
        return FilePage(files=found, last_key=keys[-1] if keys else "", more=False)

    def _known(self, coordinator_id: int, after_key: str, limit: int, states: Collection[int]) -> list[FileRow | Tombstone]:
        replica = self._node.replicas[coordinator_id]
        found: list[FileRow | Tombstone] = []
        if not FILE_STATES.isdisjoint(states):
            found += replica.look(ShardView.files_after, after_key, limit)
        if not TOMBSTONE_STATES.isdisjoint(states):
            found += replica.look(ShardView.tombstones_after, after_key, limit)
        return found

    def _row(self, coordinator_id: int, known: FileRow | Tombstone) -> LocalFile:
        view = self._node.replicas[coordinator_id].view
        now_ms = self._node.wall_ms() - (0 if view is None else view.log_ahead_ms)
        return LocalFile(coordinator_id=coordinator_id, known=known, life=life_of(known, coordinator_id, self._times, now_ms))
