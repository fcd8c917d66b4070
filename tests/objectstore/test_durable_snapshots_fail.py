"""Over a store that fails, stalls, cuts and lies, an upload either raises or its object is right."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.adapters.objectstore import open_store
from coordinator.adapters.objectstore.snapshots import ObjectStoreSnapshots
from coordinator.object_store import ObjectStore
from coordinator.runtime.ports import SnapshotStoreFailed
from records.snapshot import SnapshotFile
from simulation.contracts.snapshots import CLUSTER, TOPIC_ID, failure_of, local_file, upload
from tests.objectstore.failing_store import FailingStore, PutFault, ReadFault, UnlistableStore
from tests.objectstore.hostile_s3 import Break, HostileS3

DATA = bytes(range(256)) * 20
KEY = f"snapshots/{CLUSTER}/8PHy8_T19vf4-fr7_P3-_w/5/00000000000000000100-0000000003-0af3.checkpoint"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> SnapshotFile:
    return local_file(tmp_path_factory.mktemp("snapshot"), DATA)


def over(store: ObjectStore) -> ObjectStoreSnapshots:
    return ObjectStoreSnapshots(store, prefix="snapshots")


RIGHT_AND_SEEN = {PutFault.NONE, PutFault.LOST_ANSWER, PutFault.REPEATED}


@pytest.mark.parametrize("read", ReadFault)
@pytest.mark.parametrize("put", PutFault)
def test_an_upload_succeeds_when_the_right_object_is_read_back(file: SnapshotFile, put: PutFault, read: ReadFault) -> None:
    async def story() -> None:
        kept = open_store("memory://")
        store = FailingStore(kept, puts=[put], reads=[read])
        if put in RIGHT_AND_SEEN and read is ReadFault.NONE:
            assert await upload(over(store), file, 100) == KEY
            assert await kept.get(KEY) == DATA
        else:
            text = await failure_of(upload(over(store), file, 100))
            assert KEY in text
            assert "failing://store" in text
        assert store.modes == [True]

    asyncio.run(story())


@given(st.lists(st.tuples(st.sampled_from(PutFault), st.sampled_from(ReadFault)), min_size=1, max_size=8))
def test_whatever_fails_a_returned_location_holds_the_snapshot(file: SnapshotFile, faults: Sequence[tuple[PutFault, ReadFault]]) -> None:
    async def story() -> None:
        kept = open_store("memory://")
        store = FailingStore(kept, puts=[put for put, _ in faults], reads=[read for put, read in faults if put is not PutFault.DENIED])
        snapshots, returned = over(store), []
        for number in range(len(faults)):
            with contextlib.suppress(SnapshotStoreFailed):
                returned.append(await upload(snapshots, file, 100, suffix=f"s{number}"))
        await store.land_late_puts()
        returned.append(await upload(snapshots, file, 101))
        for location in returned:
            assert await kept.get(location) == DATA
        assert set(returned) <= {one.location for one in await snapshots.list(CLUSTER, TOPIC_ID, 5)}

    asyncio.run(story())


@pytest.mark.parametrize("read", [ReadFault.REFUSED, ReadFault.BROKEN, ReadFault.STALLED])
def test_a_download_that_fails_leaves_no_file(file: SnapshotFile, tmp_path: Path, read: ReadFault) -> None:
    async def story() -> None:
        snapshots = over(FailingStore(open_store("memory://"), reads=[ReadFault.NONE, read]))
        location = await upload(snapshots, file, 100)
        (tmp_path / "x.part").write_bytes(b"left by an earlier try")
        assert KEY in await failure_of(snapshots.download(location, tmp_path / "x.part"))
        assert list(tmp_path.iterdir()) == []
        assert (await snapshots.download(location, tmp_path / "x.part")).sha256 == file.sha256

    asyncio.run(story())


@pytest.mark.parametrize("read", [ReadFault.CUT, ReadFault.WRONG])
def test_a_download_tells_what_it_wrote(file: SnapshotFile, tmp_path: Path, read: ReadFault) -> None:
    async def story() -> None:
        snapshots = over(FailingStore(open_store("memory://"), reads=[ReadFault.NONE, read]))
        found = await snapshots.download(await upload(snapshots, file, 100), tmp_path / "x.part")
        written = (tmp_path / "x.part").read_bytes()
        assert (found.size_bytes, found.sha256) == (len(written), hashlib.sha256(written).digest())
        assert found.sha256 != file.sha256

    asyncio.run(story())


def test_a_disk_that_cannot_be_written_is_no_failure_of_the_store(file: SnapshotFile, tmp_path: Path) -> None:
    async def story() -> None:
        snapshots = over(open_store("memory://"))
        location = await upload(snapshots, file, 100)
        with pytest.raises(FileNotFoundError):
            await snapshots.download(location, tmp_path / "missing" / "x.part")
        # By a link: what a failed download leaves is removed, and that must not be the device.
        (tmp_path / "x.part").symlink_to("/dev/full")
        with pytest.raises(OSError, match="No space left"):
            await snapshots.download(location, tmp_path / "x.part")
        assert list(tmp_path.iterdir()) == []
        assert Path("/dev/full").is_char_device()

    asyncio.run(story())


def test_half_a_listing_or_half_a_removal_is_a_failure(file: SnapshotFile) -> None:
    async def story() -> None:
        snapshots = over(UnlistableStore(open_store("memory://")))
        made = [await upload(snapshots, file, end_offset) for end_offset in (1, 2, 3)]
        assert "snapshots/" in await failure_of(snapshots.list(CLUSTER, TOPIC_ID, 5))
        text = await failure_of(snapshots.remove(made))
        assert "2 of 3" in text
        assert made[1] in text

    asyncio.run(story())


REQUEST_TIMEOUT_MS = 400


@pytest.fixture
def s3() -> Iterator[HostileS3]:
    with HostileS3().running() as server:
        yield server


def over_s3(s3: HostileS3) -> ObjectStoreSnapshots:
    options = {"endpoint": s3.endpoint, "region": "r", "access.key.id": "a", "secret.access.key": "hush"}
    return over(open_store("s3://bucket/deep", options, request_timeout_ms=REQUEST_TIMEOUT_MS))


PATH = f"/bucket/deep/{KEY}"


@pytest.mark.parametrize("fault", [Break.NONE, Break.ERROR, Break.LOST_ANSWER])
def test_a_put_over_the_wire_counts_by_what_is_there(file: SnapshotFile, s3: HostileS3, fault: Break) -> None:
    async def story() -> None:
        s3.breaks["PUT"].append(fault)
        assert await upload(over_s3(s3), file, 100) == KEY
        assert s3.objects == {PATH: DATA}

    asyncio.run(story())


@pytest.mark.parametrize("fault", [Break.ERROR, Break.LOST_ANSWER, Break.CUT, Break.STALL])
def test_a_body_that_never_comes_whole_is_a_failure_within_bounded_time(
    file: SnapshotFile, s3: HostileS3, tmp_path: Path, fault: Break
) -> None:
    async def story() -> None:
        snapshots = over_s3(s3)
        s3.always["GET"] = fault
        async with asyncio.timeout(60):  # requests that end at their own timeout take two seconds
            text = await failure_of(upload(snapshots, file, 100))
            assert KEY in text
            assert "s3://bucket/deep" in text
            assert "hush" not in text
            assert KEY in await failure_of(snapshots.download(KEY, tmp_path / "x.part"))
        assert list(tmp_path.iterdir()) == []
        s3.always.clear()
        s3.released.set()
        assert (await snapshots.download(KEY, tmp_path / "x.part")).sha256 == file.sha256

    asyncio.run(story())


def test_a_late_put_over_the_wire_overwrites_nothing(file: SnapshotFile, s3: HostileS3, tmp_path: Path) -> None:
    async def story() -> None:
        snapshots = over_s3(s3)
        await upload(snapshots, file, 100)
        assert KEY in await failure_of(upload(snapshots, local_file(tmp_path, b"late"), 100))
        assert s3.objects == {PATH: DATA}

    asyncio.run(story())
