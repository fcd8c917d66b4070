"""Data directories over stores of any kind, for tests and the simulator: they fail when told to, and hold what they held."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

from coordinator.adapters.snapshots.folder import SnapshotFolder
from coordinator.core.state.damage import DirectoryFailed, StateCorrupt
from coordinator.core.yielding import Rest, no_rest
from coordinator.runtime.directories.port import DirectoryUse
from coordinator.runtime.ports import StateStores
from records.snapshot import SnapshotHead, TableRows

TOTAL_BYTES, FREE_BYTES = 1 << 40, 1 << 39


@runtime_checkable
class MovableStores(StateStores, Protocol):
    """Stores that can be found, copied and removed; those of a directory that is the only one need not be."""

    def partitions(self) -> frozenset[int]: ...

    def remove(self, partition: int) -> None: ...

    def build_copy(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None: ...

    def adopt_copy(self, partition: int) -> None: ...

    def remove_copy(self, partition: int) -> None: ...


class FakeDirectory:
    """Implements the port `StateDirectory`; snapshots are files in a folder.

    `failure` is why nothing in it can be used, None while all can. What asks the stores of the directory must ask it as well.
    """

    def __init__(self, stores: StateStores, folder: Path, directory_id: bytes = bytes(15) + b"\xff") -> None:
        self.failure: str | None = None
        self.directory_id = directory_id
        self.path = str(folder)
        self.stores = stores
        self._folder = folder
        self._snapshots: dict[int, SnapshotFolder] = {}

    def snapshots(self, partition: int) -> SnapshotFolder:
        """The snapshots of a metadata partition."""
        if partition not in self._snapshots:
            self._snapshots[partition] = SnapshotFolder(self._folder / f"partition-{partition}")
        return self._snapshots[partition]

    def partitions(self) -> frozenset[int]:
        """The partitions that have a store, where the stores tell."""
        self.check()
        return self.stores.partitions() if isinstance(self.stores, MovableStores) else frozenset()

    def applied_offset(self, partition: int, cluster_id: str, topic_id: bytes) -> int:
        """How far the store of a log goes, or -1."""
        self.check()
        try:
            stored = self.stores.open(partition, cluster_id, topic_id).load()
        except StateCorrupt:
            return -1
        return -1 if stored is None else stored.header.applied_offset

    def remove(self, partition: int) -> None:
        """Forget a store."""
        self.check()
        if isinstance(self.stores, MovableStores):
            self.stores.remove(partition)

    def build_copy(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        """Make a store beside the one of its partition."""
        self.check()
        if isinstance(self.stores, MovableStores):
            self.stores.build_copy(head, rows, rest)

    def adopt_copy(self, partition: int) -> None:
        """Put it in the place of that one."""
        self.check()
        if isinstance(self.stores, MovableStores):
            self.stores.adopt_copy(partition)

    def remove_copy(self, partition: int) -> None:
        """Forget it."""
        self.check()
        if isinstance(self.stores, MovableStores):
            self.stores.remove_copy(partition)

    async def probe(self, wanted_bytes: int = 0) -> DirectoryUse:
        """Raises `DirectoryFailed` when told to."""
        self.check()
        return DirectoryUse(TOTAL_BYTES, FREE_BYTES, {})

    def check(self) -> None:
        """Raise `DirectoryFailed` when told to."""
        if self.failure is not None:
            raise DirectoryFailed(f"{self.path} cannot be used ({self.failure}): mend it")
