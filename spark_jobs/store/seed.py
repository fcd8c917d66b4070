"""Begins a partition of the metadata topic in the store with a snapshot: the state that earlier entries left, without their counts.

Chains, producers, files with their live batches, topics, placements and tombstones are those of the snapshot, so that what comes next
is judged by them. Totals and activity say what was read, the numbers of a user partition begin with its live batches. What a snapshot
does not say is left out: when partitions were created and last written to, what was committed of batches that are deleted, and to whom
a file was handed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from records.model import FeatureLevelSet, TopicConfigured, TopicDeleting, TopicPlaced
from records.state_digest import PRODUCER_RING
from spark_jobs.contradiction import SEQUENCE_MASK
from spark_jobs.moves import NO_MOVE
from spark_jobs.scan.blocks import INDEX_BITS, Batches, Int64s, file_numbers, pack_batches, retention_times
from spark_jobs.scan.levels import DIRECTORY
from spark_jobs.scan.summary import EventRow, NoteRow
from spark_jobs.snapshots.content import SnapshotContent
from spark_jobs.store.engine import StoreConnection
from spark_jobs.store.findings import Findings, write_notes
from spark_jobs.store.merge_facts import CLAIM, MORE_PARTITIONS, merge_fact
from spark_jobs.store.merge_files import FENCED, FILE_COLUMNS, INSERT_TOMBSTONE, LIVE, REMOVED, FileMerge
from spark_jobs.store.merge_moves import seed_moves
from spark_jobs.store.merge_orders import note_placement
from spark_jobs.store.statements import insert
from spark_jobs.verify.directory import directory_from

_OF_STATE = (
    "partition",
    "producer",
    "deleted_topic",
    "file",
    "run_block",
    "held_entry",
    "open_transaction",
    "created_range",
    "level_use",
    "move_step",
)
"""The tables with what a snapshot of a partition of the metadata topic says anew."""

BATCHES_A_BLOCK = 256
"""Batches of a block: it has about the size then at which no batch is added to a block any more."""

_HEAD = """insert into head (kpart, next_offset, epoch, term, seq, from_offset, from_ms, log_end, append_ms, merged_ms, state,
    snapshot_offset)
    values (?,?,?,?,?,?,?,?,?,?,?,?) on conflict (kpart) do update set next_offset = excluded.next_offset, epoch = excluded.epoch,
    term = excluded.term, seq = excluded.seq, append_ms = excluded.append_ms, merged_ms = excluded.merged_ms, state = excluded.state,
    log_end = case when head.log_end > excluded.log_end then head.log_end else excluded.log_end end,
    restarted_at = null, snapshot_offset = excluded.snapshot_offset"""
_PARTITION = """insert into partition (kpart, topic_id, partition, start_offset, next_offset, since_offset, batches, records, bytes,
    last_append_ms, diskless_base, prefix_start, leader_epoch, stretch_base, newest_move, released_to, moved_ms)
    values (?,?,?,?,?,?,0,0,0,0,?,?,?,?,?,?,?)"""
_LIVE = """update partition set batches = batches + ?, records = records + ?, bytes = bytes + ?
    where kpart = ? and topic_id = ? and partition = ?"""
_PRODUCER = insert("producer", "kpart", "topic_id", "partition", "producer_id", "epoch", "next_sequence", "last_append_ms")
_TOPIC = f"""insert into topic (topic_id, name, partitions, deleted_ms) values (?,?,?,null)
    on conflict (topic_id) do update set partitions = {MORE_PARTITIONS}"""
_DELETED_TOPIC = insert("deleted_topic", "kpart", "topic_id", "entry_offset", "append_ms")
_FILE = insert("file", *FILE_COLUMNS)
_TOMBSTONE = f"""{INSERT_TOMBSTONE}
    on conflict (kpart, object_key) do update set state = excluded.state, created_ms = excluded.created_ms"""
_BLOCK = insert("run_block", "kpart", "topic_id", "partition", "first_offset", "end_offset", "runs")


def seed(db: StoreConnection, content: SnapshotContent, now_ms: int) -> None:
    """Write what a snapshot says in the place of what was known, in the transaction that is open. Raises `BadSnapshot`, OSError."""
    head = content.head
    kpart, end, time_ms = head.metadata_partition, head.end_offset, head.log_time_ms
    for table in _OF_STATE:
        db.execute(f"delete from {table} where kpart = ?", (kpart,))
    level = content.directory["schema_level"] if content.directory is not None and kpart == DIRECTORY else 1
    state = json.dumps({"level": level, "log_time_ms": time_ms})
    db.execute(_HEAD, (kpart, end, head.epoch, head.term, head.seq, end, time_ms, end, time_ms, now_ms, state, end))
    node_id = head.header.get("leader_node_id", -1)
    if isinstance(node_id, int) and node_id >= 0:
        db.execute(CLAIM, (kpart, head.epoch, head.term, node_id, end, time_ms))
    what = f"entries before offset {end} are deleted" if end else "the log goes on from a snapshot of another one"
    text = f"{what}: a snapshot says what was left before it, those that were not read are in no total"
    write_notes(db, [NoteRow(kpart, end, text)], now_ms)
    _seed_chains(db, kpart, content)
    _seed_directory(db, kpart, content)
    _seed_files(db, kpart, content)


def _seed_chains(db: StoreConnection, kpart: int, content: SnapshotContent) -> None:
    end = content.head.end_offset
    live = {one.row: one for one in content.partitions if not one.is_dead}
    stretches = {} if content.directory is None else directory_from(content.directory).stretches
    rows = [
        (
            *(kpart, one.topic_id, one.partition, one.log_start, one.high_watermark, end),
            *(one.first_offset if one.is_migrated else None, one.prefix_start, one.leader_epoch),
            *_moves_of(stretches.get(one.key.hex())),
        )
        for one in live.values()
    ]
    db.executemany(_PARTITION, rows)
    counts: dict[bytes, int] = {}
    for one in live.values():
        counts[one.topic_id] = max(counts.get(one.topic_id, 0), one.partition + 1)
    standing = [one for one in content.topics if one.deleted_ms < 0]
    gone = [one for one in content.topics if one.deleted_ms >= 0]
    db.executemany(_TOPIC, [(one.topic_id, one.name, counts.get(one.topic_id, 0)) for one in standing])
    db.executemany(_DELETED_TOPIC, [(kpart, one.topic_id, one.order_offset, one.deleted_ms) for one in gone])
    producers = []
    for producer in content.producers:
        owner = live[producer.partition_row]
        last = int(np.frombuffer(producer.ring, PRODUCER_RING)["last"][-1])
        following = (last + 1) & SEQUENCE_MASK
        name = (owner.topic_id, owner.partition, producer.producer_id)
        producers.append((kpart, *name, producer.epoch, following, producer.last_append_ms))
    db.executemany(_PRODUCER, producers)


def _moves_of(stretch: Mapping[str, Any] | None) -> tuple[int, int, int | None, int]:
    """Where a stretch begins, the newest move of it, where the partition goes on, and when it left its coordinator in that move."""
    if stretch is None:
        return 0, NO_MOVE, None, 0
    released, moved_ms = stretch["released"], max((one["time_ms"] for one in stretch["earlier"]), default=0)
    if released is None:
        return stretch["base_offset"], stretch["move_id"], None, moved_ms
    return stretch["base_offset"], released["move_id"], released["to_coordinator"], released["time_ms"]


def _seed_directory(db: StoreConnection, kpart: int, content: SnapshotContent) -> None:
    """Take over the directory as if its newest records were at the end of the snapshot."""
    if content.directory is None:
        return
    directory = directory_from(content.directory)
    row = EventRow(kpart, 0, content.head.end_offset, content.head.log_time_ms, b"")
    if kpart == DIRECTORY:
        db.execute("delete from placed_range")
        merge_fact(db, row, FeatureLevelSet(level=directory.schema_level))
        for topic_id, placed in directory.placed.items():
            record = TopicPlaced(topic_id=topic_id, name=placed.name, ranges=list(placed.ranges), confirmed=placed.confirmed)
            merge_fact(db, row, record)
            note_placement(db, row, record, Findings(()))
        seed_moves(db, row, content.directory)
        for topic_id, settings in directory.settings.items():
            merge_fact(db, row, TopicConfigured(topic_id=topic_id, names=list(settings), values=list(settings.values())))
        for topic_id, gone in directory.deleted.items():
            merge_fact(
                db, row._replace(append_ms=gone.time_ms or row.append_ms), TopicDeleting(topic_id=topic_id, confirmed=gone.confirmed)
            )
        for node in directory.nodes.values():
            merge_fact(db, row, node)
    for one in directory.snapshots:
        merge_fact(db, row._replace(offset=one.end_offset), one)


def _seed_files(db: StoreConnection, kpart: int, content: SnapshotContent) -> None:
    """Write files, and which of them hold the live batches of each partition."""
    offsets = np.array([one.file_id for one in content.files], np.int64) - content.file_id_base
    append_times = np.array([one.append_time_ms for one in content.files], np.int64)
    live, live_bytes = np.zeros(len(offsets), np.int64), np.zeros(len(offsets), np.int64)
    for chunk in content.batches():
        at = chunk.live.nonzero()[0]
        sizes, places = chunk.columns["size"][at], chunk.file[at]
        np.add.at(live, places, 1)
        np.add.at(live_bytes, places, sizes)
        times_ms = retention_times(chunk.columns["timestamp"][at], chunk.columns["type"][at], append_times, places)
        batches = Batches(chunk.columns["base"][at], chunk.columns["count"][at], sizes, offsets[places] << INDEX_BITS, times_ms)
        present, owner = np.unique(chunk.partition[at], return_inverse=True)
        names = [(content.partitions[place].topic_id, content.partitions[place].partition) for place in present.tolist()]
        sums = [np.bincount(owner, of, len(names)).astype(np.int64).tolist() for of in (None, batches.records, sizes)]
        db.executemany(_LIVE, [(*counts, kpart, *name) for *counts, name in zip(*sums, names, strict=True)])
        db.executemany(_BLOCK, _blocks(kpart, names, owner, batches))
    numbers = file_numbers(kpart, offsets << INDEX_BITS).tolist()
    rows = []
    for number, offset, file, batches_left, bytes_left in zip(
        numbers, offsets.tolist(), content.files, live.tolist(), live_bytes.tolist(), strict=True
    ):
        owners = [int(one) for one in file.owner_ids.split(",") if one]
        counts = (file.file_size, file.batch_count, batches_left, bytes_left)
        times = (file.append_time_ms, file.created_ms)
        whose = (kpart, file.object_key, offset, file.append_time_ms, file.uploader_broker_id)
        rows.append((number, *whose, *counts, json.dumps(owners), LIVE, *times))
    db.executemany(_FILE, rows)
    merge = FileMerge(db, kpart, (), Findings(()))
    for place in (live == 0).nonzero()[0].tolist():
        merge.settle(content.files[place].object_key, content.files[place].append_time_ms)
    for stone in content.tombstones:
        state = FENCED if stone.reason == "fenced" else REMOVED
        end = content.head.end_offset
        db.execute(_TOMBSTONE, (kpart, stone.object_key, end, stone.time_ms, state, stone.time_ms, stone.created_ms))


def _blocks(kpart: int, names: list[tuple[bytes, int]], places: Int64s, batches: Batches) -> Iterator[tuple[object, ...]]:
    """Blocks of batches, those of a partition in offset order; `places` says of each batch whose it is."""
    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(len(names) + 1)).tolist()
    for place, name in enumerate(names):
        for start in range(bounds[place], bounds[place + 1], BATCHES_A_BLOCK):
            at = order[start : min(start + BATCHES_A_BLOCK, bounds[place + 1])]
            part = batches.keep(at)
            last = int(part.base_offset[-1] + part.records[-1])
            yield (kpart, *name, int(part.base_offset[0]), last, pack_batches(part))
