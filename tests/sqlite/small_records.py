"""Records and replicas for tests that need to know every number."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.core.tables.stored_rows import ColdStore, RunRow
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.model import PartitionCreated, RecordsDeleted
from tests.sqlite.replicas import Replica, Store

TOPIC, OTHER_TOPIC = b"T" * 16, b"U" * 16


def created(topic: bytes, partitions: int) -> PartitionCreated:
    return PartitionCreated(topic_id=topic, name="t", first_partition=0, num_partitions=partitions, order_offset=1)


def started(open_store: Callable[[], Store], partitions: int = 1) -> Replica:
    """A replica with one topic; entry 0 is used up."""
    replica = Replica(open_store)
    replica.apply([created(TOPIC, partitions)], 0)
    return replica


def file(key: str, batches: dict[int, int], *, topic: bytes = TOPIC, base: int = 0, time_ms: int = 1000) -> FileCommitted:
    """Batches of one record each per partition, from offset `base`."""
    total = sum(batches.values())
    places = [(partition, at) for partition, count in batches.items() for at in range(count)]
    return FileCommitted(
        object_key=key,
        object_format=1,
        file_size=total * 10,
        uploader_broker_id=1,
        owner_ids=[0, 2],
        created_ms=time_ms - 1,
        append_time_ms=time_ms,
        content_hash=b"c" * 16,
        batches=[
            CommittedBatch(topic, partition, 0, base + at, 1, 10 * number, 10, time_ms) for number, (partition, at) in enumerate(places)
        ],
    )


def deleted(partition: int, before: int) -> RecordsDeleted:
    return RecordsDeleted(topic_id=TOPIC, partition=partition, new_log_start_offset=before)


def live(replica: Replica, key: str) -> int:
    row = replica.state.find_file(key)
    assert row is not None
    return row.live_batches


def covered(reader: ColdStore, offset: int, partition_row: int = 0) -> tuple[int, int] | None:
    run = reader.run_covering(partition_row, offset)
    return None if run is None else (run.base, run.last)


def base_of(run: RunRow | None) -> int | None:
    return None if run is None else run.base
