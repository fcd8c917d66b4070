"""State stores of which one can be told to refuse writing."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.state.damage import DirectoryFailed
from coordinator.core.state.packing import Flush
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import ColdStore
from coordinator.core.yielding import Rest, no_rest
from coordinator.runtime.ports import PinnedState, StateStore, StateStores
from records.snapshot import SnapshotHead, TableRows


class DiskFull(Exception):
    """What a write fails with."""


class FailingStores:
    """The stores of somebody else, and which of them fail."""

    def __init__(self, stores: StateStores) -> None:
        self.stores = stores
        self.failing: set[int] = set()
        self.opened: list[int] = []
        self.kept: list[str | None] = []

    def open(self, partition: int, cluster_id: str, topic_id: bytes) -> FailingStore:
        """Open; a store that is opened anew works."""
        self.failing.discard(partition)
        self.opened.append(partition)
        return FailingStore(self, partition, self.stores.open(partition, cluster_id, topic_id))

    def build(self, partition: int, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> Stored:
        return self.stores.build(partition, head, rows, rest)

    def prove(self, head: SnapshotHead, rows: Iterable[TableRows], rest: Rest = no_rest) -> None:
        self.stores.prove(head, rows, rest)

    def set_aside(self, partition: int) -> str | None:
        """Keep as evidence, and remember under which name."""
        self.kept.append(self.stores.set_aside(partition))
        return self.kept[-1]


class FailingStore:
    """One store; writing fails while it is told to."""

    def __init__(self, stores: FailingStores, partition: int, store: StateStore) -> None:
        self._stores = stores
        self._partition = partition
        self._store = store

    def load(self) -> Stored | None:
        return self._store.load()

    def write(self, flush: Flush, rest: Rest = no_rest) -> None:
        """Raises `DiskFull` when told to."""
        if self._partition in self._stores.failing:
            raise DiskFull("no space left on device")
        self._store.write(flush, rest)

    def pin(self) -> PinnedState:
        return self._store.pin()

    def reader(self) -> ColdStore:
        return self._store.reader()

    def close(self, *, clean: bool) -> None:
        self._store.close(clean=clean)


class TroubledStores(FailingStores):
    """Stores of which so many writes fail as those of a directory do that is lost."""

    troubles = 0

    def open(self, partition: int, cluster_id: str, topic_id: bytes) -> TroubledStore:
        """Open."""
        return TroubledStore(self, partition, self.stores.open(partition, cluster_id, topic_id))


class TroubledStore(FailingStore):
    """One store of these."""

    def __init__(self, stores: TroubledStores, partition: int, store: StateStore) -> None:
        super().__init__(stores, partition, store)
        self._troubled = stores

    def write(self, flush: Flush, rest: Rest = no_rest) -> None:
        """Raises `DirectoryFailed` while troubles are left."""
        if self._troubled.troubles:
            self._troubled.troubles -= 1
            raise DirectoryFailed("the state database cannot be used (disk I/O error): check the disk")
        super().write(flush, rest)
