"""The plan of a restore: which snapshots the partitions of a new metadata topic begin with.

Every snapshot is proven, as a replica loads it, before it counts. Snapshots of several partitions are of several moments, so the ids that
the restored service gives begin after all that any of them knows.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cli.outcome import Exit, Failed
from coordinator.adapters.objectstore.snapshots import ObjectStoreSnapshots
from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.state.damage import StateFailed
from coordinator.core.state.replica_state import Stored
from coordinator.kafka.coordinators import COORDINATORS_MAX
from coordinator.kafka.names import topic_id_text
from coordinator.object_store import ObjectStore, StoreError
from coordinator.runtime.ports import SnapshotStoreFailed, StoredSnapshot
from coordinator.runtime.snapshots.keys import parse_snapshot_key
from records.model import Restored
from records.snapshot import BadSnapshot, SnapshotFile, SnapshotReader, check_identity

EPOCHS_SKIPPED = 1000
"""The old log may have had claims after the snapshot: the new epochs are above theirs."""
IDS_SKIPPED = 1 << 24
"""The old log may have had entries after the snapshot: the new ids of files, and orders of the directory, are above theirs."""
LOST_ID_BASE = 1 << 33
"""The base of ids of a partition of which nothing is known; batch ids have room for 2^34 entries."""
LOST_EPOCH_FLOOR = 1 << 20
NAMED_MAX = 20
"""A message names at most so many partitions, snapshots or topics of one kind: it is one line for people."""
_TOO_MANY = f"a service has at most {COORDINATORS_MAX} coordinators, and no restore is planned for more"
NO_DIGEST = bytes(16)
NO_SHA256 = bytes(32)


class OldLog(NamedTuple):
    """A metadata topic of which the store has snapshots: by partition, the newest first."""

    cluster_id: str
    topic_id: bytes
    snapshots: Mapping[int, Sequence[StoredSnapshot]]

    def __str__(self) -> str:
        return f"cluster {self.cluster_id} with topic id {topic_id_text(self.topic_id)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A proven snapshot: what its partition begins with, and what it says of all."""

    snapshot: StoredSnapshot
    sha256: bytes
    epoch: int
    digest: bytes
    id_base: int
    """The id base that was in force in it."""
    orders_end: int
    """The offset after the newest order of the directory that the snapshot knows."""
    coordinators: int
    """How many coordinators its directory places topics on."""


@dataclass(slots=True, kw_only=True)
class RestorePlan:
    """The entries of all partitions; `warnings` name what is lost."""

    entries: list[Restored]
    modified_ms: dict[int, int] = field(default_factory=dict)
    """When the snapshots were stored."""
    warnings: list[str] = field(default_factory=list)


async def find_logs(store: ObjectStore, prefix: str) -> list[OldLog]:
    """The metadata topics of which the store has snapshots. Raises `Failed` when the store does not answer."""
    found: dict[tuple[str, bytes], dict[int, list[StoredSnapshot]]] = {}
    try:
        async for chunk in store.list(f"{prefix}/" if prefix else ""):
            for stored in chunk:
                key = parse_snapshot_key(stored.key)
                if key is not None and key.prefix == prefix:
                    of_log = found.setdefault((key.cluster_id, key.topic_id), {})
                    one = StoredSnapshot(stored.key, key.end_offset, key.epoch, stored.size_bytes, stored.modified_ms)
                    of_log.setdefault(key.partition, []).append(one)
    except StoreError as error:
        raise Failed(f"the snapshots cannot be listed: {error}; check the object store and retry", Exit.UNAVAILABLE) from error
    return [
        OldLog(*name, {partition: sorted(some, key=_age, reverse=True) for partition, some in sorted(partitions.items())})
        for name, partitions in sorted(found.items())
    ]


def _some(texts: Sequence[str], separator: str) -> str:
    """The first of the texts, and how many there are besides."""
    left = len(texts) - NAMED_MAX
    return separator.join(texts[:NAMED_MAX]) + (f" and {left} more" if left > 0 else "")


def _age(one: StoredSnapshot) -> tuple[int, int, int, str]:
    return one.end_offset, one.epoch, one.modified_ms, one.location


def pick_log(logs: Sequence[OldLog], cluster_id: str | None, topic_id: bytes | None, where: str) -> OldLog:
    """The one log that is meant. Raises `Failed`."""
    meant = [one for one in logs if cluster_id in (None, one.cluster_id) and topic_id in (None, one.topic_id)]
    if len(meant) == 1:
        return meant[0]
    if not meant:
        there = _some([str(one) for one in logs], "; ") or "none at all"
        raise Failed(f"{where} has no snapshots of this metadata topic; there are: {there}", Exit.NOT_FOUND)
    raise Failed(f"{where} has snapshots of {len(meant)} metadata topics, name one: {_some([str(one) for one in meant], '; ')}", Exit.USAGE)


class Prover:
    """Fetches and proves snapshots of an old log, in a temporary folder."""

    def __init__(self, store: ObjectStore, prefix: str, log: OldLog) -> None:
        self._durable = ObjectStoreSnapshots(store, prefix=prefix)
        self._log = log

    async def prove(self, partition: int, snapshot: StoredSnapshot) -> Chosen:
        """Load a snapshot as a replica does. Raises `BadSnapshot`; `Failed` when the store or the folder cannot be used."""
        with TemporaryDirectory(prefix="diskless-restore-") as name:
            folder = Path(name)
            try:
                file = await self._durable.download(snapshot.location, folder / "snapshot")
                return await asyncio.to_thread(self._prove, partition, snapshot, file, folder)
            except SnapshotStoreFailed as error:
                raise Failed(f"{error}; check the object store and retry", Exit.UNAVAILABLE) from error
            except (OSError, StateFailed) as error:
                message = f"{snapshot.location} cannot be proven: {error}; it is loaded in the folder for temporary files (TMPDIR)"
                raise Failed(message) from error

    def _prove(self, partition: int, snapshot: StoredSnapshot, file: SnapshotFile, folder: Path) -> Chosen:
        with SnapshotReader(file.path) as reader:
            head = reader.head
            check_identity(head, self._log.cluster_id, self._log.topic_id, partition)
            if (head.end_offset, head.epoch) != (snapshot.end_offset, snapshot.epoch):
                raise BadSnapshot(f"it holds the snapshot {head.snapshot_id}, its name is of another")
            stored = StateDatabases(folder).build(partition, head, reader.rows())
        content = {"placements": [], "restored": None} if stored.directory is None else json.loads(stored.directory)
        restored = content["restored"]
        return Chosen(
            snapshot=snapshot._replace(size_bytes=file.size_bytes),
            sha256=file.sha256,
            epoch=head.epoch,
            digest=head.digest,
            id_base=0 if restored is None else int(restored["file_id_base"]),
            orders_end=_orders_end(stored),
            coordinators=1 + max((placed["coordinator_id"] for one in content["placements"] for placed in one["ranges"]), default=0),
        )

    async def newest_good(self, partition: int, warnings: list[str]) -> Chosen | None:
        """The newest snapshot that is good; what is wrong with newer ones goes to `warnings`. Raises `Failed`."""
        bad: list[StoredSnapshot] = []
        for snapshot in self._log.snapshots.get(partition, ()):
            try:
                chosen = await self.prove(partition, snapshot)
            except BadSnapshot as error:
                bad.append(snapshot)
                warnings.append(f"partition {partition}: {snapshot.location} is no good snapshot: {error}")
                continue
            if bad and bad[0].end_offset > snapshot.end_offset:
                warnings.append(
                    f"partition {partition}: an older snapshot is used: entries {snapshot.end_offset} to {bad[0].end_offset - 1} of the old"
                    " log are lost besides those that no snapshot has"
                )
            return chosen
        return None


def _orders_end(stored: Stored) -> int:
    return 1 + max((topic.order_offset for topic in stored.topics), default=-1)


async def make_plan(
    prover: Prover, log: OldLog, *, partitions: int | None, accepted: Sequence[int], begun: Mapping[int, Restored]
) -> RestorePlan:
    """Choose a snapshot for every partition. `begun` are the entries that an earlier run wrote; they stay. Raises `Failed`."""
    plan = RestorePlan(entries=[])
    # What was begun has its number of partitions: keys that were added to the store since then change nothing.
    count = begun[DIRECTORY_PARTITION].partition_count if begun else max(_known_partitions(log), partitions or 0)
    if partitions is not None and partitions != count:
        raise Failed(f"--partitions {partitions}: the restore has {count} partitions", Exit.USAGE)
    chosen: dict[int, Chosen] = {}
    at = 0
    while at < count:
        if at in begun:
            entry = begun[at]
            if entry.location:
                chosen[at] = await _prove_begun(prover, entry)
        else:
            found = await prover.newest_good(at, plan.warnings)
            if found is not None:
                chosen[at] = found
        if at == DIRECTORY_PARTITION and at in chosen and partitions is None and not begun:
            # A partition without a snapshot is missed when the directory places topics on it.
            count = max(count, chosen[at].coordinators)
            if count > COORDINATORS_MAX:
                raise Failed(f"{chosen[at].snapshot.location} places topics on {count} coordinators; {_TOO_MANY}")
        at += 1
    _check_complete(log, chosen, begun, count, accepted, plan.warnings)
    restore_id = begun[DIRECTORY_PARTITION].restore_id if begun else uuid.uuid4().bytes
    orders_end = max(one.orders_end for one in chosen.values())
    for partition in range(count):
        entry = begun.get(partition) or _entry(log, partition, chosen.get(partition), restore_id, count)
        if partition == DIRECTORY_PARTITION and partition not in begun:
            entry = replace(entry, file_id_base=max(entry.file_id_base, orders_end))
        plan.entries.append(entry)
        if partition in chosen:
            plan.modified_ms[partition] = chosen[partition].snapshot.modified_ms
    return plan


def _known_partitions(log: OldLog) -> int:
    """How many partitions the log has as far as keys of snapshots tell. Raises `Failed` when one is of a partition that no service has.

    Such an object is not left out: of a service that somehow had the partition it would be the only trace of what is lost.
    """
    last = max([*log.snapshots, DIRECTORY_PARTITION])
    if last >= COORDINATORS_MAX:
        strange = [some[0].location for partition, some in log.snapshots.items() if partition >= COORDINATORS_MAX]
        what = f"partitions up to {last} are named by {_some(strange, ', ')}"
        raise Failed(f"{what}; {_TOO_MANY}: move objects that no node wrote out of the prefix of snapshots and retry")
    return last + 1


async def _prove_begun(prover: Prover, entry: Restored) -> Chosen:
    """Prove the snapshot that the log of a partition begins with already. Raises `Failed`."""
    where = f"partition {entry.metadata_partition} begins with the snapshot {entry.location} already, which"
    remedy = "bring the object back, or delete the topic and begin again"
    epoch = entry.epoch_floor - EPOCHS_SKIPPED
    try:
        found = await prover.prove(
            entry.metadata_partition, StoredSnapshot(entry.location, entry.old_end_offset, epoch, entry.size_bytes, 0)
        )
    except BadSnapshot as bad:
        raise Failed(f"{where} is not good: {bad}; {remedy}") from bad
    if (found.snapshot.size_bytes, found.sha256, found.digest) != (entry.size_bytes, entry.sha256, entry.digest):
        raise Failed(f"{where} is another object now; {remedy}")
    return found


def _check_complete(
    log: OldLog, chosen: Mapping[int, Chosen], begun: Mapping[int, Restored], count: int, accepted: Sequence[int], warnings: list[str]
) -> None:
    """Raise `Failed` for partitions without a good snapshot whose loss was not accepted."""
    if DIRECTORY_PARTITION not in chosen:
        reasons = _some(warnings, "; ") or "there is none"
        raise Failed(f"partition 0 has the directory of all topics, and no good snapshot in {log}: {reasons}", Exit.NOT_FOUND)
    missing = [one for one in range(count) if one not in chosen and one not in accepted and one not in begun]
    if missing:
        names = _some([str(one) for one in missing], ", ")
        options = _some([f"--accept-loss {one}" for one in missing], " ")
        reasons = _some(warnings, "; ") or "there is none in the store"
        raise Failed(f"partitions {names} have no good snapshot in {log} ({reasons}); to restore without what they knew: {options}")
    for one in sorted(set(accepted)):
        if one >= count:
            raise Failed(f"--accept-loss {one}: the restore has {count} partitions", Exit.USAGE)
        if one in chosen:
            raise Failed(f"--accept-loss {one}: there is a good snapshot of partition {one}; leave the option out", Exit.USAGE)
        warnings.append(f"partition {one}: begins empty, everything that it knew is lost (--accept-loss)")


def _entry(log: OldLog, partition: int, chosen: Chosen | None, restore_id: bytes, count: int) -> Restored:
    entry = Restored(
        restore_id=restore_id,
        old_cluster_id=log.cluster_id,
        old_topic_id=log.topic_id,
        metadata_partition=partition,
        partition_count=count,
        old_end_offset=0,
        epoch_floor=LOST_EPOCH_FLOOR,
        file_id_base=LOST_ID_BASE,
        location="",
        size_bytes=0,
        sha256=NO_SHA256,
        digest=NO_DIGEST,
    )
    if chosen is None:
        return entry
    return replace(
        entry,
        old_end_offset=chosen.snapshot.end_offset,
        epoch_floor=chosen.epoch + EPOCHS_SKIPPED,
        file_id_base=chosen.id_base + chosen.snapshot.end_offset + IDS_SKIPPED,
        location=chosen.snapshot.location,
        size_bytes=chosen.snapshot.size_bytes,
        sha256=chosen.sha256,
        digest=chosen.digest,
    )
