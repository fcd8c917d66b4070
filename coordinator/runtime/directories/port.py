"""The port of the data directories, and how others see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from coordinator.config.directories import OfflineDirectory
from coordinator.core.yielding import Rest, no_rest
from coordinator.runtime.ports import LocalSnapshots, StateStores
from records.snapshot import SnapshotHead, TableRows


class DirectoryUse(NamedTuple):
    """The size of a directory's file system, what of it is free, and what each metadata partition takes."""

    total_bytes: int
    free_bytes: int
    size_bytes: Mapping[int, int]


class StateDirectory(Protocol):
    """One data directory. Every call but `probe` and `snapshots` blocks and raises `StateFailed`."""

    @property
    def directory_id(self) -> bytes:
        """The id in its meta.properties."""

    @property
    def path(self) -> str:
        """The path of the directory as `data.dirs` names it."""

    @property
    def stores(self) -> StateStores:
        """The state databases in it."""

    def snapshots(self, partition: int) -> LocalSnapshots:
        """The snapshots of a metadata partition in it; the same object every time."""

    def partitions(self) -> frozenset[int]:
        """The metadata partitions that have a state database in it. Unfinished copies are removed."""

    def applied_offset(self, partition: int, cluster_id: str, topic_id: bytes) -> int:
        """How far a closed state database of a log goes; -1 for one that is of no use: empty, damaged, of another log."""

    def remove(self, partition: int) -> None:
        """Remove the closed state database of a partition and its snapshots, if they are there."""

    def build_copy(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Make a state database under a name of its own, which is never opened. Raises `BadSnapshot`, and what `rows` raises."""

    def adopt_copy(self, partition: int) -> None:
        """Give the copy the name of the state database; there must be none of that name that is open."""

    def remove_copy(self, partition: int) -> None:
        """Remove a copy that was not adopted, if there is one."""

    async def probe(self, wanted_bytes: int = 0) -> DirectoryUse:
        """Write, sync, read and remove a small file. Raises `DirectoryFailed` when the directory is lost, read-only or full.

        Full means that less than `wanted_bytes` are free, or less than a database needs. Errors that say nothing of the directory, such
        as too many open files, are none of it. On a device that hangs the answer takes as long as the device.
        """


class OpenDirectories(NamedTuple):
    """The data directories as they were found at the start, in the order of `data.dirs`; at least one is online."""

    online: Sequence[StateDirectory]
    offline: Sequence[OfflineDirectory] = ()


class DirectoryStatus(NamedTuple):
    """A data directory. `directory_id` is LOST for one that could not be read at the start; sizes are -1 as long as they are unknown."""

    directory_id: bytes
    path: str
    offline_reason: str | None
    total_bytes: int
    free_bytes: int


class ReplicaPlace(NamedTuple):
    """Where a replica is. `moving_applied_offset` is -1 until the copy is written, and from then on its assignment can be recorded.

    `size_bytes` and `applied_offset` are -1 as long as they are unknown; `moving_to` is None when the replica does not move.
    """

    partition: int
    directory_id: bytes
    size_bytes: int
    applied_offset: int
    moving_to: bytes | None
    moving_applied_offset: int


class MoveRefused(Exception):
    """A replica cannot be moved; the text says what, why and the remedy."""
