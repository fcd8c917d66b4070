"""The worlds in which the contract of durable snapshots is checked."""

from __future__ import annotations

from pathlib import Path

from coordinator.adapters.objectstore.snapshots import ObjectStoreSnapshots
from coordinator.object_store import ObjectStore
from coordinator.runtime.ports import DurableSnapshots
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObjects


class StoreWorld:
    """Durable snapshots over an object store."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self._store = store
        self.folder = folder

    def snapshots(self, prefix: str = "snapshots") -> DurableSnapshots:
        return ObjectStoreSnapshots(self._store, prefix=prefix)

    async def put(self, key: str, data: bytes) -> None:
        await self._store.put(key, data)

    async def keys(self) -> set[str]:
        return {stored.key async for chunk in self._store.list("") for stored in chunk}


class FakeWorld:
    """The fake's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects = FakeObjects(now_ms=lambda: 1_700_000_000_000)

    def snapshots(self, prefix: str = "snapshots") -> DurableSnapshots:
        return FakeDurableSnapshots(self.objects, prefix)

    async def put(self, key: str, data: bytes) -> None:
        self.objects.put(key, data)

    async def keys(self) -> set[str]:
        return set(self.objects.by_key)
