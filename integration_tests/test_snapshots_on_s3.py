"""The durable snapshots keep their contract on a real S3."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integration_tests.s3 import RealS3
from simulation.contracts.snapshots import CHECKS, failure_of, local_file, upload
from tests.objectstore.snapshot_worlds import StoreWorld


@pytest.mark.parametrize("check", CHECKS)
def test_contract(s3: RealS3, tmp_path: Path, check: str) -> None:
    asyncio.run(asyncio.wait_for(CHECKS[check](StoreWorld(s3.open(check), tmp_path)), 60))


def test_one_of_many_uploads_to_a_key_wins_and_the_others_know(s3: RealS3, tmp_path: Path) -> None:
    async def story() -> None:
        world = StoreWorld(s3.open("race"), tmp_path)
        snapshots = world.snapshots()
        files = [local_file(tmp_path, b"%d" % number * 100_000, f"file{number}") for number in range(10)]
        results = await asyncio.gather(*(upload(snapshots, file, 7) for file in files), return_exceptions=True)
        (location,) = [result for result in results if isinstance(result, str)]
        found = await snapshots.download(location, tmp_path / "again")
        assert found.sha256 == files[results.index(location)].sha256

    asyncio.run(story())


def test_wrong_credentials_are_named(s3: RealS3, tmp_path: Path) -> None:
    snapshots = StoreWorld(s3.open("denied", secret_key="wrong-secret", request_timeout_ms=2_000), tmp_path).snapshots()
    text = asyncio.run(failure_of(upload(snapshots, local_file(tmp_path, b"abc"), 7)))
    assert "check credentials" in text
    assert "wrong-secret" not in text
