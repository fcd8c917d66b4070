"""The beginning of a restored log: the state before its first entry is that of a snapshot of another log.

The entry at offset 0 (`Restored`) names the object in the store, with its size, its SHA-256 and the digest of the state. A state database
is made from it, before offset 0 of this log, and is marked with the hash of that entry; then the log is followed as any other.
Partition 0 is written first: a partition whose log does not begin with the same restore is not loaded, because it would be served as
an empty one.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import NamedTuple

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.endpoints import format_endpoints
from coordinator.core.log_entry import entry_hash
from coordinator.core.state.replica_state import Stored
from coordinator.runtime.loading.downloading import Due, download
from coordinator.runtime.ports import SnapshotStoreFailed
from coordinator.runtime.replica_config import ReplicaIdentity, ReplicaPorts
from coordinator.runtime.telemetry import SnapshotPurpose
from coordinator.runtime.threads import in_thread
from records.codec import decode_entry, decode_key
from records.errors import UnreadableEntry
from records.log import Fence, restored_in
from records.model import Restored
from records.snapshot import BadSnapshot, SnapshotHead, SnapshotId, SnapshotReader, check_identity
from records.state_digest import Digest, hash_position

LOG = logging.getLogger("coordinator.snapshots")


class RestoreUnfinished(Exception):
    """Partition 0 was restored and this partition was not yet. Loading is tried again."""


class Beginning(NamedTuple):
    """The restore that a log begins with, and the hash of its entry."""

    restored: Restored
    prepared_for: bytes


class RestoredStates:
    """Makes the state before the first entry of one restored metadata partition."""

    def __init__(self, identity: ReplicaIdentity, ports: ReplicaPorts) -> None:
        self._identity = identity
        self._ports = ports
        self._local = ports.local_snapshots
        self._durable = ports.snapshots
        self._executor = ports.writer

    async def beginning(self, log_end: int) -> Beginning | None:
        """Read the restore that a log from 0 to `log_end` begins with; None for one that begins with nothing.

        Raises `RestoreUnfinished` when partition 0 begins with a restore that this partition is of and lacks; `KafkaUnavailable`.
        """
        partition = self._identity.partition
        own = await self._first_entry(partition) if log_end > 0 else None
        if own is not None and own.restored.metadata_partition != partition:
            raise RestoreUnfinished(
                f"metadata partition {partition} begins with the restore of partition {own.restored.metadata_partition}:"
                " another program wrote to the topic; stop the nodes, delete it, and run `diskless restore start` again"
            )
        if partition == DIRECTORY_PARTITION:
            return own
        directory_start, directory_end = await self._ports.cluster.log_range(DIRECTORY_PARTITION)
        if directory_start > 0:
            # Partition 0 is pruned only after a finished restore, and a restore is finished only when every partition was loaded.
            return own
        first = await self._first_entry(DIRECTORY_PARTITION) if directory_end > 0 else None
        due = None if first is None or partition >= first.restored.partition_count else first.restored.restore_id
        if due != (None if own is None else own.restored.restore_id):
            raise RestoreUnfinished(
                f"metadata partition {partition} does not begin with the restore that partition 0 begins with: run"
                " `diskless restore start` again, with the same options; it completes the topic or says what is in the way"
            )
        return own

    async def prepare(self, beginning: Beginning) -> Stored | None:
        """Make the state database, which is not open, from the snapshot that the restore names; None when it names none.

        Raises `SnapshotStoreFailed` when the snapshot cannot be had or is not the one, `StateFailed`.
        """
        restored = beginning.restored
        if not restored.location:
            return None
        if self._durable is None:
            raise SnapshotStoreFailed(
                f"metadata partition {restored.metadata_partition} begins with the snapshot {restored.location} of another log, and"
                " this node has no object store that keeps snapshots: set object.store.url and snapshots.enable"
            )
        snapshot_id = SnapshotId(restored.old_end_offset, restored.epoch_floor)
        due = Due(restored.size_bytes, restored.sha256)
        started = asyncio.get_running_loop().time()
        part = await in_thread(self._executor, lambda: self._local.part(snapshot_id))
        try:
            file = await download(
                restored.location, snapshot_id, due.size_bytes, due, durable=self._durable, local=self._local, executor=self._executor
            )
            stored = await in_thread(self._executor, lambda: self._build(beginning, file.path))
        except BadSnapshot as bad:
            raise SnapshotStoreFailed(f"{restored.location}, with which the restored log begins, is not what the log names: {bad}") from bad
        finally:
            await in_thread(self._executor, lambda: part.unlink(missing_ok=True))
        seconds = asyncio.get_running_loop().time() - started
        self._ports.telemetry.snapshot_loaded(SnapshotPurpose.REPLICA, seconds)
        LOG.info(
            "state prepared from the snapshot of another log partition=%d location=%s seconds=%.3f",
            self._identity.partition,
            restored.location,
            seconds,
        )
        return stored

    def _build(self, beginning: Beginning, path: Path) -> Stored:
        restored, identity = beginning.restored, self._identity
        with SnapshotReader(path) as reader:
            head = reader.head
            check_identity(head, restored.old_cluster_id, restored.old_topic_id, restored.metadata_partition)
            if (head.end_offset, head.digest) != (restored.old_end_offset, restored.digest):
                raise BadSnapshot(f"it is of offset {head.end_offset} and digest {head.digest.hex()}")
            moved = moved_head(head, identity.cluster_id, identity.topic_id, beginning.prepared_for)
            return self._ports.stores.build(identity.partition, moved, reader.rows(), self._ports.rest)

    async def _first_entry(self, partition: int) -> Beginning | None:
        entry = await self._ports.cluster.read_entry(partition, 0)
        return None if entry is None else beginning_in(entry.key, entry.value)


def beginning_in(key: bytes | None, value: bytes | None) -> Beginning | None:
    """The restore in the first entry of a log, None when it is none."""
    try:
        restored = restored_in(0, decode_key(key), decode_entry(value or b""))
    except UnreadableEntry:
        return None  # the replica that reads it says why
    return None if restored is None else Beginning(restored, entry_hash(key or b"", value or b""))


def moved_head(head: SnapshotHead, cluster_id: str, topic_id: bytes, prepared_for: bytes) -> SnapshotHead:
    """The head of a snapshot's rows as the state before the first entry of another log.

    The position of the state is a summand of its digest; the other rows are unchanged, so all of them stay proven.
    """
    nowhere = Fence()
    digest = Digest.from_bytes(head.digest).minus(hash_position(head.epoch, head.term, head.seq, head.log_time_ms))
    digest = digest.plus(hash_position(nowhere.epoch, nowhere.term, nowhere.seq, head.log_time_ms))
    return head._replace(
        cluster_id=cluster_id,
        topic_id=topic_id,
        end_offset=0,
        epoch=nowhere.epoch,
        term=nowhere.term,
        seq=nowhere.seq,
        last_entry_hash=prepared_for,
        digest=digest.to_bytes(),
        header=head.header | {"leader_node_id": -1, "leader_endpoints": format_endpoints([])},
    )
