"""Bringing the object of a snapshot into the data directory, where it is proven, and adopted or removed."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

from coordinator.runtime.ports import DurableSnapshots, LocalSnapshots
from coordinator.runtime.threads import in_thread
from records.snapshot import BadSnapshot, SnapshotFile, SnapshotId


class Due(NamedTuple):
    """Size and hash of an object, as an entry of the log has them."""

    size_bytes: int
    sha256: bytes


async def download(
    location: str, snapshot_id: SnapshotId, due: Due | None, *, durable: DurableSnapshots, local: LocalSnapshots, executor: Executor
) -> SnapshotFile:
    """Write an object into the unfinished file of a snapshot.

    Raises `BadSnapshot` when it is not what is due, `SnapshotStoreFailed`, `StateFailed`, OSError.
    """
    part = await in_thread(executor, lambda: local.part(snapshot_id))
    file = await durable.download(location, part)
    if due is not None and due != (file.size_bytes, file.sha256):
        raise BadSnapshot(
            f"{location}: the object has {file.size_bytes} bytes and SHA-256 {file.sha256.hex()}, the log says {due.size_bytes} and"
            f" {due.sha256.hex()}"
        )
    return file
