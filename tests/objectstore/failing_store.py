"""An object store that fails, stalls, cuts and lies as it is told, over one that does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from enum import Enum
from pathlib import Path

from coordinator.object_store import Deleted, ObjectExists, ObjectStore, StoreDenied, StoredObject, StoreError, StoreUnavailable


class PutFault(Enum):
    NONE = "stored"
    REFUSED = "nothing is stored; no answer"
    DENIED = "nothing is stored; the permission is missing"
    LOST_ANSWER = "stored; no answer"
    LATE = "no answer; stored later"
    REPEATED = "stored; its own repetition is told that the key is taken"
    TORN = "half of it is stored; success"
    WRONG = "other bytes are stored; success"
    TORN_LOST = "half of it is stored; no answer"


class ReadFault(Enum):
    NONE = "read whole"
    REFUSED = "no answer"
    CUT = "the body ends early, without an error"
    BROKEN = "the body ends early, with an error"
    STALLED = "the body stops until the store's deadline"
    WRONG = "other bytes"


class FailingStore:
    """`ObjectStore` with one fault for each put and each read, in turn; without more of them it works."""

    def __init__(self, store: ObjectStore, *, puts: Sequence[PutFault] = (), reads: Sequence[ReadFault] = ()) -> None:
        self._store = store
        self._puts: Iterator[PutFault] = iter(puts)
        self._reads: Iterator[ReadFault] = iter(reads)
        self._late: list[tuple[str, bytes]] = []
        self.modes: list[bool] = []
        """Whether each put was one that only creates."""

    @property
    def location(self) -> str:
        return "failing://store"

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        self.modes.append(create_only)
        content = await asyncio.to_thread(data.read_bytes) if isinstance(data, Path) else bytes(data)
        fault = next(self._puts, PutFault.NONE)
        match fault:
            case PutFault.LATE:
                self._late.append((key, content))
            case PutFault.TORN | PutFault.TORN_LOST:
                await self._store.put(key, content[: len(content) // 2], create_only=create_only)
            case PutFault.WRONG:
                await self._store.put(key, content[:-1] + bytes([content[-1] ^ 1]), create_only=create_only)
            case PutFault.NONE | PutFault.LOST_ANSWER | PutFault.REPEATED:
                await self._store.put(key, content, create_only=create_only)
        match fault:
            case PutFault.DENIED:
                raise StoreDenied(f"{self.location}: put {key}: denied")
            case PutFault.REPEATED:
                raise ObjectExists(f"{self.location}: put {key}: exists already")
            case PutFault.REFUSED | PutFault.LOST_ANSWER | PutFault.LATE | PutFault.TORN_LOST:
                raise StoreUnavailable(f"{self.location}: put {key}: no answer")

    async def land_late_puts(self) -> None:
        """The puts that were under way arrive; each only creates, as it was asked to."""
        for key, content in self._late:
            try:
                await self._store.put(key, content, create_only=True)
            except ObjectExists:
                continue

    async def read(self, key: str) -> AsyncIterator[bytes]:
        fault = next(self._reads, ReadFault.NONE)
        if fault is ReadFault.REFUSED:
            raise StoreUnavailable(f"{self.location}: get {key}: no answer")
        data = await self._store.get(key)
        match fault:
            case ReadFault.WRONG:
                yield bytes([data[0] ^ 1]) + data[1:]
            case ReadFault.CUT | ReadFault.BROKEN | ReadFault.STALLED:
                yield data[: len(data) // 2]
                if fault is ReadFault.STALLED:
                    await asyncio.sleep(0)
                if fault is not ReadFault.CUT:
                    raise StoreUnavailable(f"{self.location}: get {key}: the body ended early")
            case _:
                for first in range(0, len(data), 1000):
                    yield data[first : first + 1000]

    async def get(self, key: str) -> bytes:
        return await self._store.get(key)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        return await self._store.get_ranges(key, ranges)

    async def get_up_to(self, key: str, start: int, size_bytes: int) -> bytes:
        return await self._store.get_up_to(key, start, size_bytes)

    async def head(self, key: str) -> StoredObject | None:
        return await self._store.head(key)

    async def delete_many(self, keys: Sequence[str]) -> Deleted:
        return await self._store.delete_many(keys)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        async for chunk in self._store.list(prefix, after):
            yield chunk

    async def ping(self) -> None:
        await self._store.ping()


class UnlistableStore(FailingStore):
    """It deletes the first of the keys and lists one chunk; then it fails."""

    async def delete_many(self, keys: Sequence[str]) -> Deleted:
        deleted = await super().delete_many(keys[:1])
        return Deleted(confirmed=deleted.confirmed, error=StoreError(f"{self.location}: delete: no answer"))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        async for chunk in super().list(prefix, after):
            yield chunk
            break
        raise StoreUnavailable(f"{self.location}: list {prefix}: no answer")
