"""State stores of which one can be told to refuse writing."""

from __future__ import annotations

from coordinator.core.state.packing import Flush
from coordinator.core.state.replica_state import Stored
from coordinator.core.tables.stored_rows import ColdStore
from coordinator.core.yielding import Rest, no_rest
from coordinator.runtime.ports import StateStore, StateStores


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

    def reader(self) -> ColdStore:
        return self._store.reader()

    def close(self, *, clean: bool) -> None:
        self._store.close(clean=clean)
