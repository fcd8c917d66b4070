"""Bringing the object of a snapshot into the data directory, where it is proven, and adopted or removed."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import NamedTuple

from coordinator.config.disk import FULL, remedy
from coordinator.core.state.damage import DirectoryFailed, DiskFull
from coordinator.runtime.ports import DurableSnapshots, LocalSnapshots
from coordinator.runtime.threads import in_thread
from records.snapshot import BadSnapshot, SnapshotFile, SnapshotId


class Due(NamedTuple):
    """Size and hash of an object, as an entry of the log has them."""

    size_bytes: int
    sha256: bytes


async def download(
    location: str,
    snapshot_id: SnapshotId,
    size_bytes: int,
    due: Due | None = None,
    *,
    durable: DurableSnapshots,
    local: LocalSnapshots,
    executor: Executor,
) -> SnapshotFile:
    """Write an object, which has so many bytes as far as is known, into the unfinished file of a snapshot.

    Raises `BadSnapshot` when it is not what is due, `SnapshotStoreFailed`, and `DirectoryFailed` when the file cannot be written.
    """
    part = await in_thread(executor, lambda: local.part(snapshot_id))
    try:
        file = await durable.download(location, part)
    except OSError as error:
        message = f"the snapshot {part} cannot be written ({error}): {remedy(error)}"
        if error.errno not in FULL:
            raise DirectoryFailed(message) from error
        full = DiskFull(message)
        full.wanted_bytes = size_bytes
        raise full from error
    if due is not None and due != (file.size_bytes, file.sha256):
        raise BadSnapshot(
            f"{location}: the object has {file.size_bytes} bytes and SHA-256 {file.sha256.hex()}, the log says {due.size_bytes} and"
            f" {due.sha256.hex()}"
        )
    return file
