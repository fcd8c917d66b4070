"""The durable copies of snapshots: objects of a store, written once, read back before they count, read in chunks.

Every call of the store is bounded in time by the store itself: a put as a whole, a read for each chunk. Nothing is retried here; the
caller tries again later under another key. What the store says about a put is not believed: whether an upload succeeded is decided by
the bytes that a read returns.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from coordinator.object_store import ObjectStore, StoreDenied, StoreError
from coordinator.runtime.ports import SnapshotStoreFailed, StoredSnapshot
from coordinator.runtime.snapshots.keys import SnapshotKey, parse_snapshot_key, snapshot_folder
from records.snapshot import SnapshotFile


class ObjectStoreSnapshots:
    """`DurableSnapshots` over an object store."""

    def __init__(self, store: ObjectStore, *, prefix: str) -> None:
        """`prefix` is put before every key that is made here; it is empty or has no slash at its ends."""
        self._store = store
        self._prefix = prefix

    async def upload(
        self, file: SnapshotFile, *, cluster_id: str, topic_id: bytes, partition: int, end_offset: int, epoch: int, suffix: str
    ) -> str:
        """Store a snapshot under a key of its own, read it back whole, and return the key. Raises `SnapshotStoreFailed`."""
        key = SnapshotKey(self._prefix, cluster_id, topic_id, partition, end_offset, epoch, suffix).text()
        await self._check_local(file, key)
        put_error: StoreError | None = None
        try:
            await self._store.put(key, file.path, create_only=True)
        except StoreDenied as error:
            raise SnapshotStoreFailed(f"the snapshot was not stored: {error}") from error
        except StoreError as error:
            # No answer, or one to a repetition that met the first try: the object may be there. The suffix is this upload's alone.
            put_error = error
        try:
            await self._compare(key, file)
        except SnapshotStoreFailed as error:
            if put_error is None:
                raise
            raise SnapshotStoreFailed(f"the snapshot was not stored: {put_error}; reading it back: {error}") from put_error
        return key

    async def download(self, location: str, target: Path) -> SnapshotFile:
        """Write an object into the file `target`. Raises `SnapshotStoreFailed`, OSError for the file; then there is no file."""
        try:
            with await asyncio.to_thread(target.open, "wb") as out:
                size_bytes, sha256 = await self._read(location, out)
                await asyncio.to_thread(_sync, out)
        except BaseException:
            _remove(target)
            raise
        return SnapshotFile(target, size_bytes, sha256)

    async def list(self, cluster_id: str, topic_id: bytes, partition: int) -> list[StoredSnapshot]:
        """List a partition's snapshots, the newest first; objects with other names are left out. Raises `SnapshotStoreFailed`."""
        folder = snapshot_folder(self._prefix, cluster_id, topic_id, partition)
        try:
            objects = [stored async for chunk in self._store.list(folder) for stored in chunk]
        except StoreError as error:
            raise SnapshotStoreFailed(f"snapshots could not be listed: {error}") from error
        found = [
            StoredSnapshot(stored.key, key.end_offset, key.epoch, stored.size_bytes, stored.modified_ms)
            for stored in objects
            if (key := parse_snapshot_key(stored.key)) is not None
        ]
        return sorted(found, key=lambda one: (one.end_offset, one.epoch, one.modified_ms, one.location), reverse=True)

    async def remove(self, locations: Sequence[str]) -> None:
        """Remove objects; missing ones count as removed. Raises `SnapshotStoreFailed`, also for a key that names no snapshot."""
        for location in locations:
            if parse_snapshot_key(location) is None:
                raise SnapshotStoreFailed(f"{self._store.location}: {location}: this key names no snapshot, and is not removed")
        deleted = await self._store.delete_many(locations)
        if deleted.error is not None:
            rest = [location for location in locations if location not in deleted.confirmed]
            raise SnapshotStoreFailed(
                f"{len(rest)} of {len(locations)} snapshots, from {rest[0]}, were not removed: {deleted.error}"
            ) from deleted.error

    async def _check_local(self, file: SnapshotFile, key: str) -> None:
        """See that the file is there and has its size; the store would tell of a missing one as of a missing bucket."""
        try:
            size_bytes = (await asyncio.to_thread(file.path.stat)).st_size
        except OSError as error:
            raise SnapshotStoreFailed(f"{self._store.location}: put {key}: the snapshot {file.path} cannot be read: {error}") from error
        if size_bytes != file.size_bytes:
            raise SnapshotStoreFailed(
                f"{self._store.location}: put {key}: the snapshot {file.path} has {size_bytes} bytes, not {file.size_bytes} as written"
            )

    async def _compare(self, key: str, file: SnapshotFile) -> None:
        size_bytes, sha256 = await self._read(key, None)
        if (size_bytes, sha256) != (file.size_bytes, file.sha256):
            raise SnapshotStoreFailed(
                f"{self._store.location}: {key} holds {size_bytes} bytes with sha256 {sha256.hex()}; "
                f"stored were {file.size_bytes} bytes with {file.sha256.hex()}"
            )

    async def _read(self, key: str, out: BinaryIO | None) -> tuple[int, bytes]:
        """Read an object whole, into a file if one is given; returns size and sha256."""
        size_bytes, digest = 0, hashlib.sha256()

        def take(chunk: bytes) -> None:
            digest.update(chunk)
            if out is not None:
                out.write(chunk)

        try:
            async for chunk in self._store.read(key):
                size_bytes += len(chunk)
                await asyncio.to_thread(take, chunk)
        except StoreError as error:
            raise SnapshotStoreFailed(f"the snapshot could not be read: {error}") from error
        return size_bytes, digest.digest()


def _remove(file: Path) -> None:
    with suppress(OSError):  # the error that ended the download is raised; a leftover is overwritten by the next one
        file.unlink(missing_ok=True)


def _sync(out: BinaryIO) -> None:
    out.flush()
    os.fsync(out.fileno())
