"""The object store in a local folder: the embedded default.

Hides where obstore's LocalStore differs from the others: it lists in no order, refuses to delete a missing key, ends a
bulk delete at the first trouble, and never calls fsync (without which a stored object may vanish with the power).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import obstore
from obstore.store import LocalStore

from coordinator.adapters.objectstore.port import StoredObject, StoreUnavailable, check_prefix
from coordinator.adapters.objectstore.store import LIST_CHUNK, ObstoreStore


class LocalFolderStore(ObstoreStore):
    """An `ObjectStore` (see `port`) in a folder of this machine."""

    def __init__(self, folder: Path, *, request_timeout_ms: int) -> None:
        """Open the folder, creating it when missing."""
        folder.mkdir(parents=True, exist_ok=True)
        _fsync(folder.parent)
        raw = LocalStore(folder)
        super().__init__(raw, raw, location=f"file://{folder}", base="", request_timeout_ms=request_timeout_ms)
        self._folder = folder
        self._synced: set[Path] = set()

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        await super().put(key, data, create_only=create_only)
        with self._errors(f"fsync {key}"):
            await asyncio.to_thread(self._sync, self._folder / key)

    def _sync(self, file: Path) -> None:
        """Make file and directory entries durable. Folders on the way need it once: when they were created."""
        _fsync(file)
        _fsync(file.parent)
        for folder in file.parent.parents:
            if folder in self._synced or not folder.is_relative_to(self._folder):
                break
            _fsync(folder)
        self._synced.update(folder for folder in file.parent.parents if folder.is_relative_to(self._folder))

    async def _delete_chunk(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                await obstore.delete_async(self._raw, key)
            except FileNotFoundError:
                if not await asyncio.to_thread(self._folder.is_dir):
                    raise  # a lost folder says nothing about its objects

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        check_prefix(prefix)
        with self._errors(f"list {prefix or '/'}", needs_object=False):
            metas = await obstore.list(self._raw, prefix or None).collect_async()
        found = sorted((self._stored(meta) for meta in metas), key=lambda stored: stored.key)
        found = [stored for stored in found if stored.key > after]
        for first in range(0, len(found), LIST_CHUNK):
            yield found[first : first + LIST_CHUNK]

    async def ping(self) -> None:
        if not await asyncio.to_thread(os.access, self._folder, os.R_OK | os.W_OK | os.X_OK):
            raise StoreUnavailable(f"{self.location}: the folder is missing, or this process may not read and write it")


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
