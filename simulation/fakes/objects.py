"""An object store in memory, for tests and the simulator; it refuses, lies and dawdles on demand.

All nodes of a world share one `FakeObjects`, which may hold snapshots as well. Time and chance come from the outside only, so a run under
a virtual-time loop repeats exactly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from enum import Enum
from pathlib import Path

from coordinator.object_store import (
    Deleted,
    ObjectExists,
    ObjectMissing,
    StoredObject,
    StoreError,
    StoreUnavailable,
    check_key,
    check_prefix,
)
from simulation.fakes.snapshots import FakeObject, FakeObjects

LISTED_AT_ONCE = 10


class StoreFault(Enum):
    """The fault of one call."""

    NONE = "nothing"
    REFUSED = "nothing is done; it raises"
    UNKNOWN = "it is done; it raises all the same"
    LATE = "it raises; it is done later"
    PARTIAL = "a deletion of several objects does the first half and raises; other calls raise"
    STALLED = "it is done, after a long time"


def no_fault(_call: str) -> StoreFault:
    """A store that works."""
    return StoreFault.NONE


class FakeObjectStore:
    """`ObjectStore` over objects in memory."""

    def __init__(
        self,
        objects: FakeObjects,
        *,
        fault_of: Callable[[str], StoreFault] = no_fault,
        later: Callable[[Callable[[], None]], object] = lambda work: work(),
        stalled_s: float = 3.0,
    ) -> None:
        """`fault_of` is asked once for each call, by its name; `later` does late work, whatever becomes of the caller."""
        self._objects = objects
        self._fault_of = fault_of
        self._later = later
        self._stalled_s = stalled_s

    @property
    def location(self) -> str:
        return "fake://"

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        check_key(key)
        whole = _read(data) if isinstance(data, Path) else bytes(data)

        is_taken = False

        def store() -> None:
            nonlocal is_taken
            is_taken = create_only and key in self._objects.by_key
            if not is_taken:
                self._objects.by_key[key] = FakeObject(whole, self._objects.now_ms())
                self._objects.on_put(key)

        await self._do("put", key, store)
        if is_taken:
            raise ObjectExists(f"{self.location}{key}: exists already")

    async def get(self, key: str) -> bytes:
        check_key(key)
        await self._do("get", key, lambda: None)
        found = self._objects.by_key.get(key)
        if found is None:
            raise ObjectMissing(f"{self.location}{key}: not found")
        return found.data

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        found = []
        for start, size_bytes in ranges:
            if start < 0 or size_bytes < 1:
                raise ValueError(f"range [{start}, {start + size_bytes}): start must not be negative and size positive")
            data = await self.get(key)
            if start + size_bytes > len(data):
                raise StoreError(f"{self.location}{key}: bytes [{start}, {start + size_bytes}) are asked for, there are {len(data)}")
            found.append(data[start : start + size_bytes])
        return found

    async def get_up_to(self, key: str, start: int, size_bytes: int) -> bytes:
        if start < 0 or size_bytes < 1:
            raise ValueError(f"range [{start}, {start + size_bytes}): start must not be negative and size positive")
        data = await self.get(key)
        if start >= len(data):
            raise StoreError(f"{self.location}{key}: bytes from {start} on are asked for, there are {len(data)}")
        return data[start : start + size_bytes]

    async def read(self, key: str) -> AsyncIterator[bytes]:
        yield await self.get(key)

    async def head(self, key: str) -> StoredObject | None:
        check_key(key)
        await self._do("head", key, lambda: None)
        return self._stored(key) if key in self._objects.by_key else None

    async def delete_many(self, keys: Sequence[str]) -> Deleted:
        for key in keys:
            check_key(key)
        fault = await self._begin("delete")
        count = {StoreFault.REFUSED: 0, StoreFault.LATE: 0, StoreFault.PARTIAL: len(keys) // 2}.get(fault, len(keys))
        self._delete(keys[:count])
        if fault is StoreFault.LATE:
            self._later(lambda: self._delete(keys))
        if fault in (StoreFault.NONE, StoreFault.STALLED):
            return Deleted(confirmed=frozenset(keys), error=None)
        confirmed = keys[:count] if fault is StoreFault.PARTIAL else ()
        return Deleted(confirmed=frozenset(confirmed), error=StoreUnavailable(f"{self.location}: {fault.value}"))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        check_prefix(prefix)
        while True:
            await self._do("list", prefix, lambda: None)
            keys = sorted(key for key in self._objects.by_key if key.startswith(prefix) and key > after)[:LISTED_AT_ONCE]
            if not keys:
                return
            yield [self._stored(key) for key in keys]
            after = keys[-1]

    async def ping(self) -> None:
        await self._do("ping", "", lambda: None)

    def _stored(self, key: str) -> StoredObject:
        found = self._objects.by_key[key]
        return StoredObject(key=key, size_bytes=len(found.data), modified_ms=found.modified_ms)

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._objects.remove(key)

    async def _do(self, call: str, key: str, work: Callable[[], None]) -> None:
        """Do the work of a call, or what the fault makes of it. Raises `StoreUnavailable`."""
        fault = await self._begin(call)
        if fault is StoreFault.LATE:
            self._later(work)
        elif fault not in (StoreFault.REFUSED, StoreFault.PARTIAL):
            work()
        if fault not in (StoreFault.NONE, StoreFault.STALLED):
            raise StoreUnavailable(f"{self.location}{key}: {fault.value}")

    async def _begin(self, call: str) -> StoreFault:
        fault = self._fault_of(call)
        await asyncio.sleep(self._stalled_s if fault is StoreFault.STALLED else self._objects.delay_s())
        return fault


def _read(path: Path) -> bytes:
    return path.read_bytes()
