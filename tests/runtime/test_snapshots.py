"""Snapshots of a node over Kafka and an object store in memory: taken, pruned behind, refused by name, and loaded."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from coordinator.app.readiness import readiness
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.pauses import Pauses, doubled
from coordinator.runtime.snapshots.rules import SnapshotRules
from records.snapshot import SnapshotHead, SnapshotReader, write_snapshot
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObject, FakeObjects, SnapshotFault
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.patient_loop import loop_ms
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

ON_DEMAND = SnapshotRules(interval_ms=0)


def objects_of() -> FakeObjects:
    return FakeObjects(now_ms=loop_ms)


async def taken(started: Running, *keys: str) -> None:
    """Commit files and take a snapshot behind each, of the only coordinator."""
    for key in keys:
        answer = await started.ask(0, commit(key, [batch(0, 3)], owner_ids=[0]))
        assert result_of(answer).errors == [0]
        outcome = await started.node.workers.snapshots.take(0, TIMEOUT_MS)
        assert outcome.error is ErrorCode.NONE, outcome.message


async def two_snapshots(kafka: FakeKafka, objects: FakeObjects) -> None:
    """A node that took two snapshots, pruned to the older one, committed once more, and is gone with its disk."""
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.leads()
        await started.ask(0, place())
        await taken(started, "a", "b")
        await started.until(lambda: kafka.logs[0].start_offset > 0, "the log to be pruned")
        assert result_of(await started.ask(0, commit("c", [batch(0, 2)], owner_ids=[0]))).base_offsets == [6]
    assert len(objects.by_key) == 2


def newest(objects: FakeObjects) -> str:
    return max(objects.by_key)


Spoil = Callable[[FakeObjects, bytes], bytes | None]


def rewritten(data: bytes, change: Callable[[SnapshotHead], SnapshotHead]) -> bytes:
    """The same snapshot with another head."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "old").write_bytes(data)
        with SnapshotReader(folder / "old") as reader:
            return write_snapshot(folder, change(reader.head), reader.rows(), log_timestamp_ms=1, rest=lambda: None).path.read_bytes()


SPOILED: dict[str, tuple[Spoil, str]] = {
    "empty": (lambda _, data: b"", "snapshot refused"),
    "cut off": (lambda _, data: data[: len(data) // 2], "snapshot refused"),
    "without its footer": (lambda _, data: data[:-80], "snapshot refused"),
    "one bit flipped": (lambda _, data: data[:200] + bytes([data[200] ^ 4]) + data[201:], "snapshot refused"),
    "something behind it": (lambda _, data: data + b"more", "snapshot refused"),
    "of another cluster": (lambda _, data: rewritten(data, lambda head: head._replace(cluster_id="another")), "another"),
    "of another topic": (lambda _, data: rewritten(data, lambda head: head._replace(topic_id=b"u" * 16)), "snapshot refused"),
    "of another partition": (lambda _, data: rewritten(data, lambda head: head._replace(metadata_partition=7)), "snapshot refused"),
    "of newer tables": (lambda _, data: rewritten(data, lambda head: head._replace(table_version=99)), "99"),
    "with another digest": (lambda _, data: rewritten(data, lambda head: head._replace(digest=bytes(16))), "snapshot refused"),
    "of another log": (lambda _, data: rewritten(data, lambda head: head._replace(last_entry_hash=b"h" * 16)), "not of this log"),
    "the older one": (lambda objects, _: objects.by_key[min(objects.by_key)].data, "snapshot refused"),
    "gone": (lambda *_: None, ""),
}


@pytest.mark.parametrize("name", SPOILED)
async def test_a_bad_snapshot_is_refused_by_name_and_the_older_one_is_used(name: str, caplog: pytest.LogCaptureFixture) -> None:
    kafka, objects = in_memory(partitions=1), objects_of()
    await two_snapshots(kafka, objects)
    spoil, told = SPOILED[name]
    key = newest(objects)
    spoiled = spoil(objects, objects.by_key[key].data)
    if spoiled is None:
        del objects.by_key[key]
    else:
        objects.by_key[key] = FakeObject(spoiled, 0)
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.leads()
        assert await started.high_watermark(0) == 8
        # What was committed before the snapshot, between the two, and behind both.
        for repeated, base in (("a", 0), ("b", 3)):
            answer = result_of(await started.ask(0, commit(repeated, [batch(0, 3)], owner_ids=[0])))
            assert (answer.errors, answer.base_offsets) == ([0], [base])
    assert told in caplog.text
    assert not told or Path(key).name[:20] in caplog.text


async def test_a_node_waits_for_the_store_when_the_log_is_not_enough() -> None:
    kafka, objects = in_memory(partitions=1), objects_of()
    await two_snapshots(kafka, objects)
    objects.fault_of = lambda _call, _key: SnapshotFault.REFUSED
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.until(lambda: kafka.logs[0].start_offset > 0, "the log's start")
        assert not started.node.is_prepared.is_set()
        objects.fault_of = lambda _call, _key: SnapshotFault.NONE
        await started.leads()
        assert await started.high_watermark(0) == 8
    assert started.fatal == []


async def test_no_snapshot_and_no_beginning_of_the_log_is_said() -> None:
    kafka, objects = in_memory(partitions=1), objects_of()
    await two_snapshots(kafka, objects)
    objects.by_key.clear()
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.until(lambda: started.node.replicas.follows(0) and started.node.replicas[0].unloadable is not None, "a refusal")
        reason = started.node.replicas[0].unloadable
        assert reason is not None
        assert "after the applied offset -1" in reason
        assert "there is none" in reason
        assert "Bring a snapshot back to the object store" in reason


async def test_a_replica_without_a_good_snapshot_looks_for_one_again_and_says_which_it_was_made_from(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka, objects = in_memory(partitions=1), objects_of()
    await two_snapshots(kafka, objects)
    good = dict(objects.by_key)
    objects.by_key.update({key: FakeObject(stored.data[:-80], 0) for key, stored in good.items()})
    caplog.set_level(logging.INFO)
    pauses = Pauses(revive_s=(0.02, 0.1))
    durable = FakeDurableSnapshots(objects)
    async with running(kafka, MemoryStateStores(), durable=durable, snapshots=ON_DEMAND, pauses=pauses) as started:
        await started.until(lambda: 0 in started.node.keeper.failures and started.node.keeper.failures[0].count >= 3, "two further looks")
        await started.until(lambda: bool(readiness(started.node)[1]["failed"]), "the failure to be told")
        failed, withheld = readiness(started.node)[1]["failed"], started.node.withheld_reason
        assert isinstance(failed, dict)
        assert "This node looks again by itself" in failed[0]
        assert withheld == failed[0]
        assert "made from a snapshot" not in caplog.text
        objects.by_key.update(good)
        await started.leads()
        await started.until(lambda: readiness(started.node)[0], "/ready")
        assert await started.high_watermark(0) == 8
        [made] = [one.getMessage() for one in caplog.records if "made from a snapshot" in one.getMessage()]
        key = newest(objects)
        assert f"partition=0 snapshot={Path(key).name[:31]}.checkpoint from={key} " in made
    assert started.fatal == []


def test_waits_double_up_to_the_longest_however_many_attempts_fail() -> None:
    assert [doubled(2.0, failures, 300.0) for failures in (0, 1, 7, 8, 5_000)] == [2.0, 4.0, 256.0, 300.0, 300.0]


@pytest.mark.parametrize("fault", [SnapshotFault.REFUSED, SnapshotFault.UNKNOWN, SnapshotFault.LATE, SnapshotFault.WRONG_BYTES])
async def test_a_failed_upload_commits_nothing_and_is_told(fault: SnapshotFault) -> None:
    kafka, objects = in_memory(partitions=1), objects_of()
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.leads()
        await started.ask(0, place())
        objects.fault_of = lambda call, _key: fault if call == "upload" else SnapshotFault.NONE
        outcome = await started.node.workers.snapshots.take(0, TIMEOUT_MS)
        assert outcome.error is not ErrorCode.NONE
        assert "upload: fake://snapshots" in (outcome.message or "")
        described = started.node.workers.snapshots.describe(0)
        assert described is not None
        assert (described.known, described.step) == ((), None)
        assert described.last_error.startswith("upload: ")
        objects.fault_of = lambda _call, _key: SnapshotFault.NONE
        await taken(started, "a")
        described = started.node.workers.snapshots.describe(0)
        assert described is not None
        assert [one.snapshot.end_offset > 0 for one in described.known] == [True]
        assert described.last_error == ""


async def test_without_a_store_nothing_is_taken_and_the_reason_is_said() -> None:
    rules = SnapshotRules(off_because="snapshots.enable is false; set it true")
    async with running(in_memory(partitions=1), MemoryStateStores(), snapshots=rules) as started:
        await started.leads()
        outcome = await started.node.workers.snapshots.take(0, TIMEOUT_MS)
        assert outcome.error is ErrorCode.INVALID_REQUEST
        assert outcome.message == "no snapshot can be taken: snapshots.enable is false; set it true"
        described = started.node.workers.snapshots.describe(0)
        assert described is not None
        assert described.prune_reason == rules.off_because


async def test_nothing_is_pruned_behind_a_snapshot_that_the_store_lost_and_others_take_its_place() -> None:
    kafka, objects = in_memory(partitions=1), objects_of()
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND) as started:
        await started.leads()
        await started.ask(0, place())
        await taken(started, "a")
        [lost] = objects.by_key
        del objects.by_key[lost]
        await taken(started, "b")
        snapshots = started.node.workers.snapshots
        await started.until(lambda: snapshots.failures[0, "prune"] == 1, "the loss to be found")
        assert kafka.logs[0].start_offset == 0
        found = snapshots.describe(0)
        assert found is not None
        assert lost in found.last_error
        await started.until(lambda: kafka.logs[0].start_offset > 0, "the log to be pruned behind others")
        assert len(objects.by_key) >= 2


async def test_a_replica_that_was_rebuilt_counts_its_log_anew() -> None:
    kafka, objects = in_memory(partitions=1), objects_of()
    rules = SnapshotRules(bytes_between=20_000, interval_ms=0)
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=rules) as started:
        await started.leads()
        await started.ask(0, place())

        number = itertools.count()
        while not objects.by_key:
            await started.ask(0, commit(f"a{next(number)}", [batch(0, 3)], owner_ids=[0]))
        former = started.node.replicas[0]
        former.invalidate("a test says so")
        await started.until(lambda: started.node.replicas[0] is not former and len(started.node.replicas.led()) == 1, "the rebuilt replica")
        described = started.node.workers.snapshots.describe(0)
        assert described is not None
        assert described.log_bytes == started.node.replicas[0].log_bytes > 0
