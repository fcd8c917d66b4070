"""Passes of `verify` that begin at a snapshot: the state is that of its rows, and the log goes on where it ends.

What a snapshot says is taken as it is; that its rows are those of the state it names is proven here (`prove`).
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

import numpy as np

from records.snapshot import BadSnapshot
from records.state_digest import EMPTY, PRODUCER_RING, Digest, hash_batches, key_lanes
from spark_jobs.snapshots.content import SnapshotContent, read_content
from spark_jobs.verify.deletions import IN_SNAPSHOT, NEVER, Deletions, DeletionScan, History
from spark_jobs.verify.directory import directory_from
from spark_jobs.verify.effective import EffectiveLog
from spark_jobs.verify.judged import TermJudge
from spark_jobs.verify.rebuild import Gone, Held, Producer, Rebuild, RebuiltTombstone, RebuiltTopic, UserPartition, by_number
from spark_jobs.verify.tally import TalliedFile, Tally


def log_from(content: SnapshotContent, known_void: Set[int] = frozenset()) -> EffectiveLog:
    """The log after a snapshot, with the term that its head names in force."""
    head = content.head
    return EffectiveLog(known_void, TermJudge(head.end_offset, head.epoch, head.term, head.seq))


def deletions_from(content: SnapshotContent, known_void: Set[int]) -> DeletionScan:
    """First pass after a snapshot."""
    scan = DeletionScan(log_from(content, known_void))
    for one in content.partitions:
        if not one.is_dead:
            scan.know(one.topic_id, one.key, IN_SNAPSHOT)
    return scan


def rebuild_from(content: SnapshotContent, deletions: Deletions, tally: Tally) -> Rebuild:
    """Second pass after a snapshot; its batches that the log deletes are left out. Raises `BadSnapshot`, OSError."""
    rebuild = Rebuild(deletions, tally, log_from(content))
    rebuild.log_time_ms, rebuild.file_id_base = content.head.log_time_ms, content.file_id_base
    owners = [
        UserPartition(
            one.key,
            key_lanes(one.key),
            deletions.histories.get((one.key, IN_SNAPSHOT)) or History(),
            one.high_watermark,
            one.log_start,
            one.max_timestamp,
            one.max_timestamp_offset,
            base=one.first_offset,
            prefix=one.prefix_start,
            leader_epoch=one.leader_epoch,
        )
        for one in content.partitions
    ]
    if content.directory is not None:
        try:
            rebuild.directory = directory_from(content.directory)
        except (KeyError, TypeError, ValueError) as error:
            raise BadSnapshot(f"snapshot {content.path}: the directory has other fields: {error!r:.200}") from error
    for owner in owners:
        owner.newest_move = rebuild.directory.newest_move(owner.key)
    standing = {one.row: owner for one, owner in zip(content.partitions, owners, strict=True) if not one.is_dead}
    rebuild.partitions = {owner.key: owner for owner in standing.values()}
    for topic in content.topics:
        if topic.deleted_ms < 0:
            rebuild.topics[topic.topic_id] = RebuiltTopic(topic.name, topic.order_offset)
        else:
            rebuild.gone[topic.topic_id] = Gone(topic.order_offset, topic.deleted_ms)
    for one in content.partitions:
        if not one.is_dead:
            if one.topic_id not in rebuild.topics:
                raise BadSnapshot(f"snapshot {content.path}: partition {one.partition} is of topic {one.topic_id.hex()}, which it lacks")
            rebuild.topics[one.topic_id].partitions.add(one.partition)
    for row in content.producers:
        if row.partition_row not in standing or not row.ring or len(row.ring) % PRODUCER_RING.itemsize:
            raise BadSnapshot(f"snapshot {content.path}: a producer of partition row {row.partition_row} has no place or no batches")
        producer = Producer(row.epoch, row.last_append_ms)
        producer.ring.extend(np.frombuffer(row.ring, PRODUCER_RING).tolist())
        standing[row.partition_row].producers[row.producer_id] = producer
    for stone in content.tombstones:
        rebuild.tombstones[stone.object_key] = RebuiltTombstone(stone.reason, stone.time_ms, stone.created_ms)
    _know_files(rebuild, content, owners)
    return rebuild


def prove(path: Path) -> None:
    """Raise `BadSnapshot` unless a snapshot's rows have the digest of its head; OSError."""
    content = read_content(path)
    digest = rebuild_from(content, Deletions(), Tally()).finish().digest().plus(_trimming_digest(content))
    if digest.to_bytes() != content.head.digest:
        raise BadSnapshot(f"snapshot {path}: its rows have digest {digest.to_bytes().hex()}, its head says {content.head.digest.hex()}")


def _know_files(rebuild: Rebuild, content: SnapshotContent, owners: list[UserPartition]) -> None:
    """Count the batches that stay, and with them the files."""
    live, emptied = np.zeros(len(content.files), np.int64), np.full(len(content.files), -1, np.int64)
    for chunk in content.batches():
        at = chunk.live.nonzero()[0]
        present, number = np.unique(chunk.partition[at], return_inverse=True)
        order, bounds = by_number(number, len(present))
        columns = {name: one[at] for name, one in chunk.columns.items()}
        deaths = rebuild.take_batches([owners[place] for place in present.tolist()], order, bounds, columns)
        np.add.at(live, chunk.file[at], deaths == NEVER)
        np.maximum.at(emptied, chunk.file[at], deaths)
    for file, live_batches, emptied_at in zip(content.files, live.tolist(), emptied.tolist(), strict=True):
        tallied = TalliedFile(
            object_key=file.object_key,
            file_offset=file.file_id,
            content_hash=file.content_hash,
            size_bytes=file.file_size,
            append_time_ms=file.append_time_ms,
            batches=file.batch_count,
            object_format=file.object_format,
            uploader=file.uploader_broker_id,
            owner_ids=file.owner_ids,
            created_ms=file.created_ms,
            record_hash=file.record_hash,
        )
        rebuild.files[file.object_key] = Held(tallied, live_batches, emptied_at)


def _trimming_digest(content: SnapshotContent) -> Digest:
    """The sum of deleted batches that the digest of the head still has."""
    lanes = np.array([key_lanes(one.key) for one in content.partitions], np.int64).reshape(-1, 2)
    total = EMPTY
    for chunk in content.batches():
        at = content.trimming(chunk).nonzero()[0]
        of = lanes[chunk.partition[at]]
        low, high = hash_batches(of[:, 0], of[:, 1], {name: one[at] for name, one in chunk.columns.items()})
        total = total.plus(Digest(int(low.sum()), int(high.sum())))
    return total
