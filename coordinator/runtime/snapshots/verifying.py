"""Verifying a committed snapshot on a node that did not take it: fetched, compared with the log's record of it, and loaded.

What was verified is remembered for as long as the process lives, and stays in the data directory for the next load.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import Executor

from coordinator.core.yielding import Rest
from coordinator.runtime.loading.downloading import Due, download
from coordinator.runtime.ports import DurableSnapshots, LocalSnapshots, StateStores
from coordinator.runtime.replica_config import ReplicaIdentity
from coordinator.runtime.snapshots.row_count import RowCount
from coordinator.runtime.threads import in_thread
from records.model import SnapshotCommitted
from records.snapshot import BadSnapshot, SnapshotId, SnapshotReader, check_identity

LOG = logging.getLogger("coordinator.snapshots")


class DigestDiffers(BadSnapshot):
    """The leader's state at the mark was another one than this replica's."""


class SnapshotVerifier:
    """Verifies the snapshots of one metadata partition."""

    def __init__(
        self,
        *,
        identity: ReplicaIdentity,
        stores: StateStores,
        local: LocalSnapshots,
        durable: DurableSnapshots,
        background: Executor,
        rest: Rest,
        row_count: RowCount,
    ) -> None:
        self.verified_end = -1
        """The end of the newest snapshot that this process has loaded and found right; -1 for none."""
        self._identity = identity
        self.stores = stores
        self.local = local
        self._durable = durable
        self._background = background
        self._rest = rest
        self._row_count = row_count

    async def verify(self, snapshot: SnapshotCommitted, marks: Iterable[tuple[int, bytes]]) -> None:
        """Load a committed snapshot. `marks` are the digests of this replica at marks, by offset.

        Raises `BadSnapshot` when it is not what the log says, or not what this replica has read, `SnapshotStoreFailed`, `StateFailed`.
        """
        own = dict(marks).get(snapshot.mark_offset)
        if own is not None and own != snapshot.digest:
            message = f"its digest is {snapshot.digest.hex()}, this replica had {own.hex()} at the mark {snapshot.mark_offset}"
            raise DigestDiffers(f"{snapshot.location}: {message}")
        snapshot_id = SnapshotId(snapshot.end_offset, snapshot.epoch)
        if not await self._is_local_good(snapshot, snapshot_id):
            await self._fetch(snapshot, snapshot_id)
            await in_thread(self._background, lambda: self._prove(snapshot, snapshot_id))
        self.verified_end = max(self.verified_end, snapshot.end_offset)

    async def _is_local_good(self, snapshot: SnapshotCommitted, snapshot_id: SnapshotId) -> bool:
        """Whether there is a copy in the data directory that is right; one that is not is removed."""
        if snapshot_id not in await in_thread(self._background, self.local.ids):
            return False
        try:
            await in_thread(self._background, lambda: self._prove(snapshot, snapshot_id))
        except BadSnapshot as bad:
            LOG.error("local snapshot removed location=%s reason=%r", snapshot.location, str(bad))
            await in_thread(self._background, lambda: self.local.remove(snapshot_id))
            return False
        return True

    async def _fetch(self, snapshot: SnapshotCommitted, snapshot_id: SnapshotId) -> None:
        due = Due(snapshot.size_bytes, snapshot.sha256)
        await download(
            snapshot.location, snapshot_id, due.size_bytes, due, durable=self._durable, local=self.local, executor=self._background
        )
        await in_thread(self._background, lambda: self.local.adopt(snapshot_id))

    def _prove(self, snapshot: SnapshotCommitted, snapshot_id: SnapshotId) -> None:
        identity = self._identity
        with SnapshotReader(self.local.path(snapshot_id)) as reader:
            head = reader.head
            check_identity(head, identity.cluster_id, identity.topic_id, identity.partition)
            if (head.end_offset, head.epoch, head.digest) != (snapshot.end_offset, snapshot.epoch, snapshot.digest):
                raise BadSnapshot(
                    f"{snapshot.location}: it is of offset {head.end_offset}, epoch {head.epoch}, digest {head.digest.hex()}; the log says"
                    f" {snapshot.end_offset}, {snapshot.epoch}, {snapshot.digest.hex()}"
                )
            self.stores.prove(head, self._row_count.counted(reader.rows()), self._rest)
