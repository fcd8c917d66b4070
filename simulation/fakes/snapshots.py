"""Durable snapshots in memory, for tests and the simulator; they fail and lie on demand.

All nodes of a world share one `FakeObjects`; each has a `FakeDurableSnapshots` of its own. Time and chance come from the outside only,
so a run under a virtual-time loop repeats exactly.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from coordinator.runtime.ports import SnapshotStoreFailed, StoredSnapshot
from coordinator.runtime.snapshots.keys import SnapshotKey, parse_snapshot_key, snapshot_folder
from records.snapshot import SnapshotFile


class SnapshotFault(Enum):
    """The fault of one call. With each of them an upload that returns has left the right object."""

    NONE = "nothing"
    REFUSED = "nothing is done; it raises"
    UNKNOWN = "it is done; it raises all the same"
    LATE = "it raises; an upload's object appears later"
    WRONG_BYTES = "an upload leaves other bytes and raises; a download returns a file with other bytes"


class FakeObject(NamedTuple):
    """One object."""

    data: bytes
    modified_ms: int


@dataclass(slots=True, kw_only=True)
class FakeObjects:
    """The objects and the faults of the store. Tests change the faults while running."""

    now_ms: Callable[[], int]
    by_key: dict[str, FakeObject] = field(default_factory=dict)
    fault_of: Callable[[str, str], SnapshotFault] = field(default=lambda _call, _key: SnapshotFault.NONE)
    """(name of the call, key or folder) -> fault; asked once for each call, and by `remove` for each key."""
    delay_s: Callable[[], float] = lambda: 0.0
    late_s: float = 1.0
    on_removed: Callable[[str], None] = lambda _key: None
    """Told the key of each object just before it goes."""
    on_put: Callable[[str], None] = lambda _key: None
    """Told the key of each object that an `ObjectStore` has taken."""

    def put(self, key: str, data: bytes) -> None:
        """Create only: an object that is there stays."""
        self.by_key.setdefault(key, FakeObject(data, self.now_ms()))

    def remove(self, key: str) -> None:
        """Remove an object, if there is one."""
        if key in self.by_key:
            self.on_removed(key)
            del self.by_key[key]


class FakeDurableSnapshots:
    """`DurableSnapshots` over objects in memory."""

    def __init__(self, objects: FakeObjects, prefix: str = "snapshots") -> None:
        self._objects = objects
        self._prefix = prefix

    async def upload(
        self, file: SnapshotFile, *, cluster_id: str, topic_id: bytes, partition: int, end_offset: int, epoch: int, suffix: str
    ) -> str:
        key = SnapshotKey(self._prefix, cluster_id, topic_id, partition, end_offset, epoch, suffix).text()
        fault = await self._begin("upload", key)
        try:
            data = _read(file.path)
        except OSError as error:
            raise _failed(key, str(error)) from error
        if fault is SnapshotFault.LATE:
            asyncio.get_running_loop().call_later(self._objects.late_s, self._objects.put, key, data)
        elif fault is not SnapshotFault.REFUSED:
            self._objects.put(key, _wrong(data) if fault is SnapshotFault.WRONG_BYTES else data)
        if fault is not SnapshotFault.NONE:
            raise _failed(key, fault.value)
        kept = self._objects.by_key[key].data
        if len(kept) != file.size_bytes or hashlib.sha256(kept).digest() != file.sha256:
            raise _failed(key, "the object is not what was to be stored")
        return key

    async def download(self, location: str, target: Path) -> SnapshotFile:
        fault = await self._begin("download", location)
        found = self._objects.by_key.get(location)
        if found is None:
            raise _failed(location, "not found")
        if fault not in (SnapshotFault.NONE, SnapshotFault.WRONG_BYTES):
            raise _failed(location, fault.value)
        data = _wrong(found.data) if fault is SnapshotFault.WRONG_BYTES else found.data
        _write(target, data)
        return SnapshotFile(target, len(data), hashlib.sha256(data).digest())

    async def list(self, cluster_id: str, topic_id: bytes, partition: int) -> list[StoredSnapshot]:
        folder = snapshot_folder(self._prefix, cluster_id, topic_id, partition)
        if (fault := await self._begin("list", folder)) is not SnapshotFault.NONE:
            raise _failed(folder, fault.value)
        found = [
            StoredSnapshot(key, parsed.end_offset, parsed.epoch, len(stored.data), stored.modified_ms)
            for key, stored in self._objects.by_key.items()
            if key.startswith(folder) and (parsed := parse_snapshot_key(key)) is not None
        ]
        return sorted(found, key=lambda one: (one.end_offset, one.epoch, one.modified_ms, one.location), reverse=True)

    async def remove(self, locations: Sequence[str]) -> None:
        for location in locations:
            if parse_snapshot_key(location) is None:
                raise _failed(location, "this key names no snapshot, and is not removed")
        for location in locations:
            fault = await self._begin("remove", location)
            if fault is not SnapshotFault.REFUSED:
                self._objects.remove(location)
            if fault is not SnapshotFault.NONE:
                raise _failed(location, fault.value)

    async def _begin(self, call: str, key: str) -> SnapshotFault:
        await asyncio.sleep(self._objects.delay_s())
        return self._objects.fault_of(call, key)


def _failed(key: str, reason: str) -> SnapshotStoreFailed:
    return SnapshotStoreFailed(f"fake://snapshots: {key}: {reason}")


def _wrong(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:] if data else b"?"


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError:
        path.unlink(missing_ok=True)
        raise
