"""Short ways to write commands, and comparable views of a replica's state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from coordinator.core.commands import (
    CommitFile,
    CommitResult,
    DeletePoint,
    DeleteRecords,
    FetchPoint,
    FoundBatches,
    ListOffsets,
    OffsetQuery,
    PlacePartitions,
    TopicShare,
)
from coordinator.core.files.answers import FileAnswer
from coordinator.core.reads.queries import FetchBudget, find_batches
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.batches import BATCH, BatchArray, partition_key
from simulation.fakes.shard_harness import HarnessReplica, World

TOPIC = bytes([7] * 16)
OTHER_TOPIC = bytes([8] * 16)
UNKNOWN_TOPIC = bytes([9] * 16)
MASK = 0x7FFFFFFF

# Fields of a batch by name, with what they are when a test does not care.
_DEFAULTS: dict[str, object] = {
    "magic": 2,
    "request_id": 0,
    "base_offset": 0,
    "size": 10,
    "max_timestamp": 1000,
    "timestamp_type": 0,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "last_sequence": -1,
    "tags": 0,
}


def batch(partition: int = 0, count: int = 1, *, topic_id: bytes = TOPIC, sequence: int | None = None, **fields: int) -> dict[str, object]:
    """A batch; with `sequence` it is idempotent (producer 5, epoch 0 unless said otherwise)."""
    row = dict(_DEFAULTS)
    row["topic_partition"] = partition_key(topic_id, partition)
    if sequence is not None:
        row |= {"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence, "last_sequence": (sequence + count - 1) & MASK}
    row |= fields
    row.setdefault("last_offset", int(str(row["base_offset"])) + count - 1)
    return row


def batch_array(rows: Sequence[dict[str, object]]) -> BatchArray:
    """The batches as the wire has them; bytes follow each other unless a row says otherwise."""
    array = np.zeros(len(rows), BATCH)
    end = 0
    for at, row in enumerate(rows):
        row = {"byte_offset": end, **row}
        for name, value in row.items():
            array[name][at] = np.void(value) if isinstance(value, bytes) else value
        end = int(array["byte_offset"][at]) + int(array["size"][at])
    return array


def commit(key: str, rows: Sequence[dict[str, object]], **fields: object) -> CommitFile:
    """A commit that is in order but for what the test says."""
    command: dict[str, object] = {
        "object_key": key,
        "object_format": 1,
        "file_size": 1 << 20,
        "owner_ids": [0],
        "batches": batch_array(rows),
        "uploader_broker_id": 3,
        "created_ms": -1,
    }
    return CommitFile(**{**command, **fields})  # type: ignore[arg-type]


def place(topic_id: bytes = TOPIC, count: int = 2, *, name: str = "orders", first: int = 0, order: int = 1) -> PlacePartitions:
    share = TopicShare(topic_id=topic_id, name=name, first_partition=first, num_partitions=count, order_offset=order)
    return PlacePartitions(shares=[share])


def delete_records(*points: tuple[int, int], topic_id: bytes = TOPIC) -> DeleteRecords:
    """(partition, offset) pairs."""
    return DeleteRecords(points=[DeletePoint(topic_id=topic_id, partition=p, offset=o) for p, o in points])


def list_offsets(*queries: tuple[int, int], topic_id: bytes = TOPIC) -> ListOffsets:
    """(partition, timestamp) pairs."""
    return ListOffsets(queries=[OffsetQuery(topic_id=topic_id, partition=p, timestamp=t) for p, t in queries])


def leading(count: int = 2) -> tuple[World, HarnessReplica]:
    """A world with one replica that leads and has a topic with `count` partitions."""
    world = World()
    replica = world.add_replica()
    replica.lead()
    replica.ask(place(count=count))
    return world, replica


def result_of(answer: object) -> CommitResult:
    assert isinstance(answer, CommitResult | FileAnswer), answer
    return answer.result()


def found(
    state: ShardState, points: Iterable[tuple[int, int, int]], *, max_bytes: int = 1 << 30, max_batches: int = 0, topic_id: bytes = TOPIC
) -> list[FoundBatches | None]:
    """FindBatches over (partition, offset, partition max bytes)."""
    budget = FetchBudget(max_bytes, max_batches)
    return [find_batches(state, FetchPoint(topic_id=topic_id, partition=p, offset=o, max_bytes=limit), budget, 0) for p, o, limit in points]


def view_of(hot: HotState) -> dict[str, object]:
    """What a hot state says, without row numbers and caches."""
    partitions = hot.partitions
    producers = hot.producers
    return {
        "partitions": {
            partitions.keys[row]: (partitions.high_watermark.cells[row], partitions.log_start.cells[row])
            for row in partitions.rows.rows().tolist()
        },
        "producers": {
            (partitions.keys[producers.owner.cells[at]], producers.producer.cells[at]): (
                producers.epoch.cells[at],
                producers.last_append.cells[at],
                [tuple(known) for known in producers.remembered(at)],
            )
            for at in producers.rows.rows().tolist()
        },
        "topics": {topic_id: (topic.name, topic.order_offset, set(topic.partitions)) for topic_id, topic in hot.topics.items()},
        "deleted": {topic_id: (gone.order_offset, gone.time_ms) for topic_id, gone in hot.deleted_topics.items()},
        "placements": {i: (p.name, p.ranges, p.confirmed) for i, p in hot.directory.placements.items()},
        "deletions": {i: (d.ranges, d.confirmed) for i, d in hot.directory.deletions.items()},
        "names": dict(hot.directory.names),
        "nodes": dict(hot.directory.nodes),
        "log time": hot.log_time_ms,
    }


def state_of(state: ShardState) -> dict[str, object]:
    """What a whole state says: the hot part, every live batch, and the known files."""
    view = view_of(state.hot)
    view["batches"] = {
        state.hot.partitions.keys[number]: [tuple(row) for run in state.runs_from(number, 0) for row in run.rows().tolist()]
        for number in state.hot.partitions.rows.rows().tolist()
    }
    view["files"] = {file.object_key: file for file in state.active.files()}
    view["tombstones"] = dict(state.active.tombstones)
    return view
