"""The plan of a restore: which snapshots are used, what is refused, and from where epochs and ids go on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import root
from cli.outcome import Exit, Failed
from cli.restore.plan import (
    EPOCHS_SKIPPED,
    IDS_SKIPPED,
    LOST_ID_BASE,
    NAMED_MAX,
    Chosen,
    OldLog,
    Prover,
    RestorePlan,
    find_logs,
    make_plan,
    pick_log,
)
from cli.restore.topic import check_begun
from coordinator.adapters.objectstore import open_store
from coordinator.config.values import StoreUrl
from coordinator.kafka.coordinators import COORDINATORS_MAX
from coordinator.object_store import ObjectStore
from coordinator.runtime.snapshots.keys import SnapshotKey
from records.model import Restored
from records.snapshot import write_snapshot
from simulation.fakes.state_store import MemoryStateStore
from tests.core.test_marks import CLUSTER, TOPIC_ID
from tests.core.test_prefix_splits import history

PREFIX = "below/snapshots"
OTHER = b"o" * 16


@pytest.fixture(scope="module")
def stores() -> list[MemoryStateStore]:
    """What a replica had written at some marks, the oldest first."""
    at_marks = next(found for seed in range(25) if len(found := history(seed)[1]) > 1)
    return [at_marks[offset] for offset in sorted(at_marks)]


class Bucket:
    """A folder with snapshots."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store: ObjectStore = open_store(StoreUrl.parse(f"file://{folder}"), {})

    def add(self, state: MemoryStateStore, *, partition: int = 0, topic_id: bytes = TOPIC_ID, suffix: str = "a") -> Path:
        """Store what was written as a snapshot of a partition; returns its file."""
        pinned = state.pin()
        head = pinned.head._replace(metadata_partition=partition, topic_id=topic_id, last_entry_hash=b"h" * 16)
        made = write_snapshot(self.folder, head, pinned.tables(), log_timestamp_ms=1, rest=lambda: None)
        path = self.folder / SnapshotKey(PREFIX, CLUSTER, topic_id, partition, head.end_offset, head.epoch, suffix).text()
        path.parent.mkdir(parents=True, exist_ok=True)
        made.path.rename(path)
        return path

    def log(self) -> OldLog:
        """The only log."""
        [log] = asyncio.run(find_logs(self.store, PREFIX))
        return log

    def plan(self, *, partitions: int | None = None, accepted: Sequence[int] = (), begun: dict[int, Restored] | None = None) -> RestorePlan:
        log = self.log()
        made = make_plan(Prover(self.store, PREFIX, log), log, partitions=partitions, accepted=accepted, begun=begun or {})
        return asyncio.run(made)


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(tmp_path)


def test_the_newest_snapshot_of_every_partition_is_taken(bucket: Bucket, stores: list[MemoryStateStore]) -> None:
    for state in stores:
        bucket.add(state)
        bucket.add(state, partition=1)
    plan = bucket.plan()
    header = stores[-1].header
    assert header is not None
    assert [one.metadata_partition for one in plan.entries] == [0, 1]
    assert {one.restore_id for one in plan.entries} == {plan.entries[0].restore_id}
    for one in plan.entries:
        assert one.partition_count == 2
        assert one.old_end_offset == header.applied_offset + 1
        assert one.epoch_floor == header.epoch + EPOCHS_SKIPPED
        assert one.file_id_base == one.old_end_offset + IDS_SKIPPED
        assert one.digest == header.digest
        assert one.size_bytes == (bucket.folder / one.location).stat().st_size
    assert plan.warnings == []


def test_a_bad_snapshot_is_named_with_what_is_lost_and_the_older_one_is_taken(bucket: Bucket, stores: list[MemoryStateStore]) -> None:
    first, second = stores[0], stores[1]
    bucket.add(first)
    bucket.add(second).write_bytes(b"torn")
    plan = bucket.plan()
    assert first.header is not None
    assert second.header is not None
    assert plan.entries[0].old_end_offset == first.header.applied_offset + 1
    assert "is no good snapshot" in plan.warnings[0]
    assert f"entries {first.header.applied_offset + 1} to {second.header.applied_offset} of the old log are lost" in plan.warnings[1]


@pytest.mark.parametrize("names", ["of another partition", "of another topic"])
def test_a_snapshot_under_a_wrong_name_is_refused(bucket: Bucket, stores: list[MemoryStateStore], names: str) -> None:
    bucket.add(stores[0], suffix="good")
    path = bucket.add(stores[1], suffix="good")
    wrong = bucket.add(stores[1], partition=1) if names == "of another partition" else bucket.add(stores[1], topic_id=OTHER)
    wrong.rename(path)
    if names == "of another topic":
        wrong.parent.rmdir()
        wrong.parent.parent.rmdir()
    else:
        wrong.parent.rmdir()
    plan = bucket.plan()
    assert len(plan.warnings) == 2


@pytest.mark.parametrize(
    ("present", "partitions", "accepted", "reason"),
    [
        ((1,), None, (), "partition 0 has the directory"),
        ((1,), None, (0,), "partition 0 has the directory"),
        ((0, 2), None, (), "--accept-loss 1"),
        ((0,), 3, (1,), "--accept-loss 2"),
        ((0, 2), 2, (), "the restore has 3 partitions"),
        ((0,), None, (0,), "there is a good snapshot of partition 0"),
        ((0,), None, (7,), "the restore has 1 partitions"),
    ],
)
def test_what_is_not_there_is_refused(
    bucket: Bucket, stores: list[MemoryStateStore], present: Sequence[int], partitions: int | None, accepted: Sequence[int], reason: str
) -> None:
    for partition in present:
        bucket.add(stores[0], partition=partition)
    with pytest.raises(Failed, match=reason):
        bucket.plan(partitions=partitions, accepted=accepted)


@pytest.mark.parametrize(("partitions", "more"), [(21, ""), (22, " and 1 more"), (4_096, " and 4075 more")])
def test_no_more_than_some_missing_partitions_are_named(bucket: Bucket, stores: list[MemoryStateStore], partitions: int, more: str) -> None:
    bucket.add(stores[0])
    with pytest.raises(Failed) as failed:
        bucket.plan(partitions=partitions)
    named = range(1, NAMED_MAX + 1)
    assert f"partitions {', '.join(map(str, named))}{more} have no good snapshot" in str(failed.value)
    assert str(failed.value).endswith(f": {' '.join(f'--accept-loss {one}' for one in named)}{more}")


LAST = COORDINATORS_MAX - 1


@pytest.mark.parametrize(
    "strange", [[COORDINATORS_MAX], [2**31 - 1], [2**31], [9_999_999_999], [*range(COORDINATORS_MAX, COORDINATORS_MAX + 300)]]
)
@pytest.mark.parametrize("partitions", [None, 1, COORDINATORS_MAX])
def test_a_key_of_a_partition_that_no_service_has_is_named_before_anything_is_planned(
    bucket: Bucket, stores: list[MemoryStateStore], strange: Sequence[int], partitions: int | None
) -> None:
    good = bucket.add(stores[0])
    for partition in strange:
        path = Path(str(good).replace("/0/", f"/{partition}/"))
        path.parent.mkdir()
        path.write_bytes(good.read_bytes())
    with pytest.raises(Failed, match=f"partitions up to {strange[-1]} are named by .*; a service has at most {COORDINATORS_MAX}") as failed:
        bucket.plan(partitions=partitions, accepted=strange)
    assert f"/{strange[0]}/{good.name}" in str(failed.value)
    assert len(str(failed.value)) < 10_000


def test_what_was_begun_is_completed_beside_a_key_of_a_partition_that_no_service_has(
    bucket: Bucket, stores: list[MemoryStateStore]
) -> None:
    good = bucket.add(stores[0])
    first = bucket.plan()
    strange = Path(str(good).replace("/0/", f"/{2**31 - 1}/"))
    strange.parent.mkdir()
    strange.touch()
    assert bucket.plan(begun={0: first.entries[0]}).entries == first.entries


def test_the_last_partition_that_a_service_can_have_is_missed_as_any_other(bucket: Bucket, stores: list[MemoryStateStore]) -> None:
    bucket.add(stores[0])
    bucket.add(stores[0], partition=LAST)
    with pytest.raises(Failed, match=f"and {COORDINATORS_MAX - 2 - NAMED_MAX} more have no good snapshot"):
        bucket.plan()
    assert len(bucket.plan(accepted=range(1, LAST)).entries) == COORDINATORS_MAX


class ManyCoordinators(Prover):
    """Its snapshots place topics on more coordinators than any service has."""

    async def newest_good(self, partition: int, warnings: list[str]) -> Chosen | None:
        found = await super().newest_good(partition, warnings)
        return found and replace(found, coordinators=2**31)


def test_a_directory_of_more_coordinators_than_a_service_has_is_refused(bucket: Bucket, stores: list[MemoryStateStore]) -> None:
    path = bucket.add(stores[0])
    log = bucket.log()
    made = make_plan(ManyCoordinators(bucket.store, PREFIX, log), log, partitions=None, accepted=(), begun={})
    with pytest.raises(Failed, match=rf"{path.name} places topics on {2**31} coordinators; a service has at most {COORDINATORS_MAX}"):
        asyncio.run(made)


def test_no_more_than_some_bad_snapshots_are_named(bucket: Bucket, stores: list[MemoryStateStore]) -> None:
    for number in range(NAMED_MAX + 5):
        bucket.add(stores[0], suffix=f"s{number}").write_bytes(b"torn")
    with pytest.raises(Failed, match=r"partition 0 has the directory .* and 5 more$"):
        bucket.plan()


@pytest.mark.parametrize("words", [("init", "--bootstrap-server"), ("restore", "start", "--kafka-bootstrap-server")], ids="-".join)
@pytest.mark.parametrize("count", ["0", "4097", "9999999"])
def test_a_topic_has_no_more_partitions_than_a_service_can_have(words: tuple[str, ...], count: str) -> None:
    result = CliRunner().invoke(root, [*words, "127.0.0.1:1", "--partitions", count], prog_name="diskless")
    assert result.exit_code == Exit.USAGE
    assert f"{count} is not in the range 1<=x<=4096" in result.stderr


def test_a_loss_that_is_accepted_begins_empty_above_what_may_have_been(bucket: Bucket, stores: list[MemoryStateStore]) -> None:
    bucket.add(stores[0])
    plan = bucket.plan(partitions=2, accepted=(1,))
    lost = plan.entries[1]
    assert (lost.location, lost.old_end_offset, lost.file_id_base) == ("", 0, LOST_ID_BASE)
    assert "begins empty" in plan.warnings[-1]


def test_what_was_written_stays_as_it_is(bucket: Bucket, stores: list[MemoryStateStore]) -> None:
    bucket.add(stores[0])
    bucket.add(stores[0], partition=1)
    first = bucket.plan()
    newer = bucket.add(stores[1])
    again = bucket.plan(begun={0: first.entries[0]})
    assert again.entries == first.entries
    newer.unlink()
    (bucket.folder / first.entries[0].location).write_bytes(b"torn")
    with pytest.raises(Failed, match="bring the object back"):
        bucket.plan(begun={0: first.entries[0]})


def test_one_of_several_logs_has_to_be_named(bucket: Bucket, stores: list[MemoryStateStore]) -> None:
    bucket.add(stores[0])
    bucket.add(stores[0], topic_id=OTHER)
    logs = asyncio.run(find_logs(bucket.store, PREFIX))
    assert [one.topic_id for one in logs] == sorted([TOPIC_ID, OTHER])
    assert asyncio.run(find_logs(bucket.store, "snapshots")) == []
    assert pick_log(logs, None, OTHER, "here").topic_id == OTHER
    with pytest.raises(Failed, match="snapshots of 2 metadata topics, name one"):
        pick_log(logs, CLUSTER, None, "here")
    with pytest.raises(Failed, match="no snapshots of this metadata topic"):
        pick_log(logs, "another", None, "here")


def test_two_restores_in_one_topic_are_refused(bucket: Bucket, stores: list[MemoryStateStore]) -> None:
    bucket.add(stores[0])
    bucket.add(stores[0], partition=1)
    mine, other, log = bucket.plan().entries, bucket.plan().entries, bucket.log()
    check_begun({}, log, "t", 2)
    check_begun({0: mine[0]}, log, "t", 2)
    with pytest.raises(Failed, match="two different restores"):
        check_begun({0: mine[0], 1: other[1]}, log, "t", 2)
    with pytest.raises(Failed, match="partition 0 does not"):
        check_begun({1: mine[1]}, log, "t", 2)
    with pytest.raises(Failed, match="of another metadata topic"):
        check_begun({0: mine[0]}, log._replace(topic_id=OTHER), "t", 2)
    with pytest.raises(Failed, match="has 1 partitions"):
        check_begun({0: mine[0]}, log, "t", 1)
