"""The durable snapshots over object stores and in memory pass one contract; the fake fails as it is told.

A real S3 is held to the contract in integration_tests.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coordinator.adapters.objectstore import open_store
from simulation.contracts.snapshots import CHECKS, CLUSTER, TOPIC_ID, SnapshotWorld, failure_of, local_file, upload
from simulation.fakes.snapshots import SnapshotFault
from tests.objectstore.snapshot_worlds import FakeWorld, StoreWorld
from tests.waiting import stays, until


@pytest.fixture(params=["fake", "memory", "local"])
def world(request: pytest.FixtureRequest, tmp_path: Path, folder_of_objects: None) -> SnapshotWorld:
    folder = tmp_path / "files"
    folder.mkdir()
    match request.param:
        case "fake":
            return FakeWorld(folder)
        case "memory":
            return StoreWorld(open_store("memory://"), folder)
    return StoreWorld(open_store(f"file://{tmp_path}/objects"), folder)


@pytest.mark.parametrize("check", CHECKS)
def test_contract(world: SnapshotWorld, check: str) -> None:
    asyncio.run(asyncio.wait_for(CHECKS[check](world), 60))


@pytest.mark.parametrize("fault", [fault for fault in SnapshotFault if fault is not SnapshotFault.NONE])
def test_a_faulty_upload_of_the_fake_raises_and_leaves_what_its_fault_says(tmp_path: Path, fault: SnapshotFault) -> None:
    async def story() -> None:
        world = FakeWorld(tmp_path)
        world.objects.fault_of = lambda call, _key: fault if call == "upload" else SnapshotFault.NONE
        world.objects.late_s = 0.01
        assert fault.value in await failure_of(upload(world.snapshots(), local_file(tmp_path, b"abc"), 1))
        at_once = [stored.data for stored in world.objects.by_key.values()]
        expected_at_once, expected_later = {
            SnapshotFault.REFUSED: ([], []),
            SnapshotFault.UNKNOWN: ([b"abc"], [b"abc"]),
            SnapshotFault.LATE: ([], [b"abc"]),
            SnapshotFault.WRONG_BYTES: ([b"`bc"], [b"`bc"]),
        }[fault]

        def has_arrived() -> bool:
            return [stored.data for stored in world.objects.by_key.values()] == expected_later

        assert at_once == expected_at_once
        await until(has_arrived, "what arrives late")
        await stays(has_arrived, "what has arrived", 0.02)

    asyncio.run(story())


@pytest.mark.parametrize("fault", [fault for fault in SnapshotFault if fault is not SnapshotFault.NONE])
def test_other_faulty_calls_of_the_fake(tmp_path: Path, fault: SnapshotFault) -> None:
    async def story() -> None:
        world = FakeWorld(tmp_path)
        snapshots, file = world.snapshots(), local_file(tmp_path, b"abc")
        location = await upload(snapshots, file, 1)
        world.objects.fault_of = lambda _call, _key: fault
        target = tmp_path / "x.part"
        if fault is SnapshotFault.WRONG_BYTES:
            assert (await snapshots.download(location, target)).sha256 != file.sha256
        else:
            assert location in await failure_of(snapshots.download(location, target))
            assert not target.exists()
        assert fault.value in await failure_of(snapshots.list(CLUSTER, TOPIC_ID, 5))
        assert location in await failure_of(snapshots.remove([location]))
        assert (location in await world.keys()) == (fault is SnapshotFault.REFUSED)

    asyncio.run(story())
