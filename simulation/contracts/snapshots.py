"""The contract of the durable snapshots, checked against the fake, local folders and S3 alike."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from coordinator.runtime.ports import DurableSnapshots, SnapshotStoreFailed
from records.snapshot import SnapshotFile

CLUSTER = "kafka-cluster_1"
TOPIC_ID = bytes(range(240, 256))
OTHER_TOPIC_ID = bytes(range(16))


class SnapshotWorld(Protocol):
    """One empty store, a folder for files, and a way to put objects there behind the port's back."""

    @property
    def folder(self) -> Path: ...

    def snapshots(self, prefix: str = "snapshots") -> DurableSnapshots: ...

    async def put(self, key: str, data: bytes) -> None: ...

    async def keys(self) -> set[str]: ...


def local_file(folder: Path, data: bytes, name: str = "local.checkpoint") -> SnapshotFile:
    path = folder / name
    path.write_bytes(data)
    return SnapshotFile(path, len(data), hashlib.sha256(data).digest())


def size_of(path: Path) -> int:
    return path.stat().st_size


async def upload(
    snapshots: DurableSnapshots, file: SnapshotFile, end_offset: int, *, epoch: int = 3, suffix: str = "0af3", partition: int = 5
) -> str:
    return await snapshots.upload(
        file, cluster_id=CLUSTER, topic_id=TOPIC_ID, partition=partition, end_offset=end_offset, epoch=epoch, suffix=suffix
    )


async def failure_of(call: Awaitable[object]) -> str:
    try:
        await call
    except SnapshotStoreFailed as error:
        return str(error)
    raise AssertionError("the call did not fail")


async def what_is_uploaded_is_downloaded(world: SnapshotWorld) -> None:
    snapshots = world.snapshots()
    for number, data in enumerate((b"x", bytes(range(256)) * 4096 * 12)):
        file = local_file(world.folder, data)
        location = await upload(snapshots, file, 100 + number)
        found = await snapshots.download(location, world.folder / "again.part")
        assert found == SnapshotFile(world.folder / "again.part", file.size_bytes, file.sha256)
        assert local_file(world.folder, data, "again.part") == found
        assert size_of(found.path) == len(data)


async def the_location_is_the_key(world: SnapshotWorld) -> None:
    location = await upload(world.snapshots("deep/er"), local_file(world.folder, b"abc"), 12, epoch=7, suffix="Zz_-9")
    assert location == f"deep/er/{CLUSTER}/8PHy8_T19vf4-fr7_P3-_w/5/00000000000000000012-0000000007-Zz_-9.checkpoint"
    assert await world.keys() == {location}


async def an_object_that_is_there_is_never_overwritten(world: SnapshotWorld) -> None:
    snapshots = world.snapshots()
    first = local_file(world.folder, b"first", "first")
    location = await upload(snapshots, first, 100)
    text = await failure_of(upload(snapshots, local_file(world.folder, b"late", "late"), 100))
    assert location in text
    assert (await snapshots.download(location, world.folder / "again.part")).sha256 == first.sha256


async def repeating_an_upload_of_the_same_file_succeeds(world: SnapshotWorld) -> None:
    """An upload whose answer was lost may be repeated: the object that is there is the right one."""
    snapshots, file = world.snapshots(), local_file(world.folder, b"same")
    assert await upload(snapshots, file, 100) == await upload(snapshots, file, 100)


async def a_file_that_is_not_as_it_was_written_is_not_stored_as_whole(world: SnapshotWorld) -> None:
    snapshots, file = world.snapshots(), local_file(world.folder, b"good")
    for number, data in enumerate((b"evil", b"goo", b"goods")):
        file.path.write_bytes(data)
        assert "00000000000000000100" in await failure_of(upload(snapshots, file, 100, suffix=f"s{number}"))
    file.path.unlink()
    assert "00000000000000000100" in await failure_of(upload(snapshots, file, 100, suffix="gone"))


async def a_missing_object_is_named_and_leaves_no_file(world: SnapshotWorld) -> None:
    target = world.folder / "again.part"
    location = f"snapshots/{CLUSTER}/8PHy8_T19vf4-fr7_P3-_w/5/00000000000000000012-0000000007-0.checkpoint"
    assert location in await failure_of(world.snapshots().download(location, target))
    assert target not in list(world.folder.iterdir())


async def lists_are_of_one_partition_and_newest_first(world: SnapshotWorld) -> None:
    snapshots, file = world.snapshots(), local_file(world.folder, b"abc")
    assert await snapshots.list(CLUSTER, TOPIC_ID, 5) == []
    made = [await upload(snapshots, file, end_offset, epoch=epoch) for end_offset, epoch in ((9, 4), (100, 3), (20, 1), (100, 4))]
    await upload(snapshots, file, 7, partition=50)
    await upload(world.snapshots("other"), file, 7)
    found = await snapshots.list(CLUSTER, TOPIC_ID, 5)
    assert [one.location for one in found] == [made[3], made[1], made[2], made[0]]
    assert [(one.end_offset, one.epoch, one.size_bytes) for one in found] == [(100, 4, 3), (100, 3, 3), (20, 1, 3), (9, 4, 3)]
    assert all(one.modified_ms > 1_600_000_000_000 for one in found)
    assert await snapshots.list(CLUSTER, OTHER_TOPIC_ID, 5) == []
    assert await snapshots.list("another", TOPIC_ID, 5) == []


async def objects_with_other_names_are_not_listed(world: SnapshotWorld) -> None:
    folder = f"snapshots/{CLUSTER}/8PHy8_T19vf4-fr7_P3-_w/5/"
    for name in (
        "00000000000000000012-0000000007.checkpoint",
        "0000000000000000012-0000000007-ab.checkpoint",
        "00000000000000000012-0000000007-ab.checkpoint.part",
        "00000000000000000012-0000000007-a.b.checkpoint",
        "00000000000000000012-9999999999-ab.checkpoint",
        "99999999999999999999-0000000007-ab.checkpoint",
        "deeper/00000000000000000012-0000000007-ab.checkpoint",
        "notes.txt",
    ):
        await world.put(folder + name, b"abc")
    assert await world.snapshots().list(CLUSTER, TOPIC_ID, 5) == []


async def removing_counts_missing_ones_as_removed(world: SnapshotWorld) -> None:
    snapshots, file = world.snapshots(), local_file(world.folder, b"abc")
    made = [await upload(snapshots, file, end_offset) for end_offset in (1, 2, 3)]
    await snapshots.remove(made[:2])
    await snapshots.remove(made[:2])
    await snapshots.remove([])
    assert await world.keys() == {made[2]}


async def what_is_no_snapshot_is_not_removed(world: SnapshotWorld) -> None:
    snapshots, file = world.snapshots(), local_file(world.folder, b"abc")
    made = await upload(snapshots, file, 1)
    await world.put("wal/file", b"precious")
    assert "wal/file" in await failure_of(snapshots.remove([made, "wal/file"]))
    assert await world.keys() == {made, "wal/file"}


async def one_of_another_prefix_is_read_and_removed_by_its_location(world: SnapshotWorld) -> None:
    file = local_file(world.folder, b"abc")
    made = await upload(world.snapshots("before"), file, 1)
    now = world.snapshots("after")
    assert (await now.download(made, world.folder / "again.part")).sha256 == file.sha256
    await now.remove([made])
    assert await world.keys() == set()


Check = Callable[[SnapshotWorld], Awaitable[None]]

CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        what_is_uploaded_is_downloaded,
        the_location_is_the_key,
        an_object_that_is_there_is_never_overwritten,
        repeating_an_upload_of_the_same_file_succeeds,
        a_file_that_is_not_as_it_was_written_is_not_stored_as_whole,
        a_missing_object_is_named_and_leaves_no_file,
        lists_are_of_one_partition_and_newest_first,
        objects_with_other_names_are_not_listed,
        removing_counts_missing_ones_as_removed,
        what_is_no_snapshot_is_not_removed,
        one_of_another_prefix_is_read_and_removed_by_its_location,
    )
}
