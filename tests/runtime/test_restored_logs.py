"""A log that goes on from a snapshot of another one: loaded, followed, led, and refused while it is there in part only."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

import pytest

from coordinator.adapters.snapshots.folder import SnapshotFolder
from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.core.commands import FetchPoint
from coordinator.core.reads.queries import FetchBudget
from coordinator.core.view import ShardView
from coordinator.core.yielding import no_rest
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.loading.restored import RestoredStates, moved_head
from coordinator.runtime.ports import StateStores
from coordinator.runtime.replica_config import ReplicaIdentity, ReplicaPorts
from coordinator.runtime.snapshots.keys import parse_snapshot_key
from coordinator.runtime.telemetry import NoTelemetry
from records.codec import encode_entry, encode_key
from records.log import RESTORED_KEY
from records.model import Restored
from records.snapshot import SnapshotHead, SnapshotReader
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObject, FakeObjects
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, batch, commit, place, result_of
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running
from tests.runtime.test_snapshots import ON_DEMAND, objects_of, taken

GAP = 1 << 24
RESTORE_ID = uuid.UUID(int=7).bytes

StoresOf = Callable[[Path], StateStores]
STORES: dict[str, StoresOf] = {"memory": lambda _: MemoryStateStores(), "sqlite": StateDatabases}


def producing(sequence: int) -> list[dict[str, object]]:
    """A batch of an idempotent producer."""
    return [batch(0, 3, sequence=sequence)]


async def old_service(objects: FakeObjects) -> FakeKafka:
    """A service that has taken a snapshot, committed more, and is lost with its Kafka."""
    kafka = in_memory(partitions=1)
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.leads()
        await started.ask(0, place())
        assert result_of(await started.ask(0, commit("a", producing(0), owner_ids=[0]))).base_offsets == [0]
        await taken(started, "b")
        assert result_of(await started.ask(0, commit("lost", [batch(0, 9)], owner_ids=[0]))).base_offsets == [6]
    return kafka


def head_of(data: bytes) -> SnapshotHead:
    with TemporaryDirectory() as name:
        (Path(name) / "one").write_bytes(data)
        with SnapshotReader(Path(name) / "one") as reader:
            return reader.head


def restored_from(objects: FakeObjects, location: str, *, partition_count: int = 1, partition: int = 0) -> Restored:
    data = objects.by_key[location].data
    head, key = head_of(data), parse_snapshot_key(location)
    assert key is not None
    return Restored(
        restore_id=RESTORE_ID,
        old_cluster_id=key.cluster_id,
        old_topic_id=key.topic_id,
        metadata_partition=partition,
        partition_count=partition_count,
        old_end_offset=head.end_offset,
        epoch_floor=head.epoch + 1000,
        file_id_base=head.end_offset + GAP,
        location=location,
        size_bytes=len(data),
        sha256=hashlib.sha256(data).digest(),
        digest=head.digest,
    )


def write(kafka: FakeKafka, partition: int, restored: Restored) -> None:
    kafka.append(partition, encode_key(RESTORED_KEY), encode_entry([restored], 1))


async def file_ids(started: Running) -> list[int]:
    view = view_of(started)
    await started.until(lambda: view.is_settled, "the answered files")
    return sorted(row.file_id for row in view.files_after("", 100))


def view_of(started: Running, partition: int = 0) -> ShardView:
    view = started.node.replicas[partition].view
    assert view is not None
    return view


async def check_goes_on(started: Running, repeated: str = "c") -> None:
    """What the snapshot knew is known, what came later is gone, and everything goes on."""
    await started.leads()
    assert view_of(started).fence.epoch > 1001
    for key, base, batches in (("a", 0, producing(0)), ("b", 3, [batch(0, 3)])):
        answer = result_of(await started.ask(0, commit(key, batches, owner_ids=[0])))
        assert (answer.errors, answer.base_offsets, answer.duplicates) == ([0], [base], [False])
    duplicate = result_of(await started.ask(0, commit(f"{repeated}-dup", producing(0), owner_ids=[0])))
    assert (duplicate.base_offsets, duplicate.duplicates) == ([0], [True])
    gap = result_of(await started.ask(0, commit(f"{repeated}-gap", producing(9), owner_ids=[0])))
    assert gap.errors == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]


@pytest.mark.parametrize("stores_of", STORES.values(), ids=STORES)
async def test_a_restored_log_goes_on_from_the_snapshot(stores_of: StoresOf, tmp_path: Path) -> None:
    objects = objects_of()
    await old_service(objects)
    [location] = objects.by_key
    kafka = in_memory(partitions=1)
    kafka.topic_id = uuid.UUID(int=99).bytes
    restored = restored_from(objects, location)
    write(kafka, 0, restored)
    stores = stores_of(tmp_path)
    async with running(kafka, stores, durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await check_goes_on(started)
        answer = result_of(await started.ask(0, commit("next", producing(3), owner_ids=[0])))
        assert (answer.errors, answer.base_offsets) == ([0], [6])
        ids = await file_ids(started)
        old, new = ids[:2], ids[2:]
        assert max(old) < restored.old_end_offset
        assert min(new) > restored.file_id_base
        view = view_of(started)
        found = view.find_batches(FetchPoint(TOPIC, 0, 0, 1 << 20), FetchBudget(1 << 20, 100))
        assert found is not None
        assert [one.base_offset for one in found.batches] == [0, 3, 6]
        assert view.restoration is not None
        assert view.restoration.begun == restored
        outcome = await started.node.workers.snapshots.take(0, TIMEOUT_MS)
        assert outcome.error is ErrorCode.NONE, outcome.message
    # With what it has written, with nothing but the log, and with nothing but a snapshot of the new log.
    async with running(kafka, stores, durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await check_goes_on(started, "d")
    del objects.by_key[location]
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await check_goes_on(started, "e")
        assert (await file_ids(started))[:3] == [*old, new[0]]


async def test_a_state_that_was_prepared_is_not_prepared_again(tmp_path: Path) -> None:
    objects = objects_of()
    await old_service(objects)
    [location] = objects.by_key
    kafka = in_memory(partitions=1)
    write(kafka, 0, restored_from(objects, location))
    stores = StateDatabases(tmp_path)
    with ThreadPoolExecutor() as executor:
        states = RestoredStates(
            ReplicaIdentity(
                cluster_id=kafka.cluster_id,
                topic_id=kafka.topic_id or b"",
                partition=0,
                partition_count=1,
                node_id=1,
                rack="",
                endpoints=[],
            ),
            cast(
                ReplicaPorts,
                SimpleNamespace(
                    cluster=kafka.node("0").cluster,
                    stores=stores,
                    local_snapshots=SnapshotFolder(tmp_path / "snapshots"),
                    snapshots=FakeDurableSnapshots(objects),
                    writer=executor,
                    rest=no_rest,
                    telemetry=NoTelemetry(),
                ),
            ),
        )
        _, log_end = await kafka.node("0").cluster.log_range(0)
        beginning = await states.beginning(log_end)
        assert beginning is not None
        stored = await states.prepare(beginning)
    assert stored is not None
    assert (stored.header.applied_offset, stored.header.last_entry_hash) == (-1, beginning.prepared_for)
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == []
    objects.by_key.clear()
    async with running(kafka, stores, durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await check_goes_on(started)
        assert started.node.replicas[0].failures.count == 0


async def test_a_state_that_was_prepared_for_another_beginning_is_set_aside(tmp_path: Path) -> None:
    objects = objects_of()
    await old_service(objects)
    [location] = objects.by_key
    restored = restored_from(objects, location)
    kafka = in_memory(partitions=1)
    head = head_of(objects.by_key[location].data)
    (tmp_path / "one").write_bytes(objects.by_key[location].data)
    stores = StateDatabases(tmp_path / "data")
    (tmp_path / "data").mkdir()
    with SnapshotReader(tmp_path / "one") as reader:
        stores.build(0, moved_head(head, kafka.cluster_id, kafka.topic_id or b"", b"h" * 16), reader.rows())
    write(kafka, 0, restored)
    async with running(kafka, stores, durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await check_goes_on(started)
        assert "another beginning of the log" in started.node.replicas[0].failures.last_reason


Spoil = Callable[[Restored, FakeObjects], Restored]


def cut_short(restored: Restored, objects: FakeObjects) -> Restored:
    objects.by_key[restored.location] = FakeObject(objects.by_key[restored.location].data[:-9], 0)
    return restored


def gone(restored: Restored, objects: FakeObjects) -> Restored:
    objects.by_key.clear()
    return restored


WRONG: dict[str, tuple[Spoil, str]] = {
    "cut short": (cut_short, "the log says"),
    "gone": (gone, ""),
    "another sha256": (lambda restored, _: replace(restored, sha256=bytes(32)), "the log says"),
    "another digest": (lambda restored, _: replace(restored, digest=bytes(16)), "is not what the log names"),
    "another cluster": (lambda restored, _: replace(restored, old_cluster_id="other"), "is not what the log names"),
    "another topic": (lambda restored, _: replace(restored, old_topic_id=bytes(16)), "is not what the log names"),
    "another end": (lambda restored, _: replace(restored, old_end_offset=1), "is not what the log names"),
    "another partition": (lambda restored, _: replace(restored, metadata_partition=1), "begins with the restore of partition 1"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_nothing_is_served_from_a_snapshot_that_is_not_the_one(name: str, caplog: pytest.LogCaptureFixture) -> None:
    objects = objects_of()
    await old_service(objects)
    [location] = objects.by_key
    kafka = in_memory(partitions=1)
    spoil, told = WRONG[name]
    write(kafka, 0, spoil(restored_from(objects, location), objects))
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.until(lambda: "replica cannot be loaded yet" in caplog.text, "a refusal")
        assert started.node.replicas[0].view is None
    assert told in caplog.text
    assert kafka.logs[0].end_offset == 1


async def test_a_partition_that_is_not_restored_yet_is_not_served_as_an_empty_one(caplog: pytest.LogCaptureFixture) -> None:
    objects = objects_of()
    await old_service(objects)
    [location] = objects.by_key
    kafka = in_memory(partitions=3)
    whole = restored_from(objects, location, partition_count=2)
    write(kafka, 0, whole)
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.until(lambda: started.node.replicas.led() == [0, 2], "leadership of partition 0 and of one beyond the restore")
        await started.until(lambda: "`diskless restore start` again" in caplog.text, "the reason")
        assert "partition=1" in caplog.text
        assert started.node.replicas[1].view is None
        assert kafka.logs[1].end_offset == 0
        write(kafka, 1, replace(whole, metadata_partition=1, location="", size_bytes=0, file_id_base=1 << 33))
        await started.leads()
        assert view_of(started, 1).fence.epoch == whole.epoch_floor + 1
        assert view_of(started, 1).state.hot.file_id_base == 1 << 33


async def test_a_partition_of_another_restore_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    objects = objects_of()
    await old_service(objects)
    [location] = objects.by_key
    kafka = in_memory(partitions=2)
    whole = restored_from(objects, location, partition_count=2)
    write(kafka, 0, whole)
    write(kafka, 1, replace(whole, metadata_partition=1, location="", restore_id=bytes(16)))
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.until(lambda: started.node.replicas.led() == [0], "leadership of what is there")
        refusal = "does not begin with the restore that partition 0 begins with"
        await started.until(lambda: refusal in caplog.text, "the refusal")
        assert started.node.replicas[1].view is None


async def test_a_node_that_found_the_topic_empty_loads_the_restore_when_it_is_written() -> None:
    objects = objects_of()
    await old_service(objects)
    [location] = objects.by_key
    kafka = in_memory(partitions=1)
    kafka.group.is_automatic = False
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.until(lambda: started.node.is_prepared.is_set(), "an empty replica")
        write(kafka, 0, restored_from(objects, location))
        await started.until(lambda: started.node.replicas[0].failures.count > 0, "the replica to see that it is the wrong state")
        await started.until(lambda: bool(kafka.group.members()), "the node to join the group")
        kafka.group.assign({0: kafka.group.members()[0]})
        await check_goes_on(started)
