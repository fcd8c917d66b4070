"""`diskless snapshots download`: of several at once one makes the file, whole, and the others replace nothing."""

from __future__ import annotations

import asyncio
import errno
import hashlib
from pathlib import Path

import pytest

from cli.commands.snapshots import fetch_copy
from cli.looks.snapshots import SnapshotFacts
from cli.outcome import Exit, Failed
from coordinator.adapters.objectstore import open_store
from coordinator.config.values import StoreUrl
from coordinator.object_store import ObjectStore
from coordinator.protocol.messages import DescribeSnapshotsSnapshot

CONTENT = b"a snapshot " * 10_000


@pytest.fixture(params=["links", "no links"], autouse=True)
def file_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests run on a file system with links, and on one without."""

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if request.param == "no links":
        monkeypatch.setattr("coordinator.client.records.wal_file.os.link", no_links)


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    (tmp_path / "store").mkdir()
    return open_store(StoreUrl.parse(f"file://{tmp_path}/store"), {})


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "copy.checkpoint"


def facts(content: bytes, location: str) -> SnapshotFacts:
    snapshot = DescribeSnapshotsSnapshot(
        mark_offset=2,
        end_offset=3,
        epoch=1,
        size_bytes=len(content),
        sha256=hashlib.sha256(content).digest(),
        digest=bytes(16),
        location=location,
        is_verified=False,
        is_local=False,
    )
    return SnapshotFacts(coordinator_id=0, snapshot=snapshot, verified_by=[], local_on=[], cluster_id="c", topic_id=bytes(16))


def test_of_downloads_at_once_one_makes_the_file(store: ObjectStore, target: Path) -> None:
    contents = [CONTENT + b"%d" % number for number in range(6)]

    async def story() -> list[BaseException | None]:
        for number, content in enumerate(contents):
            await store.put(f"{number}", content)
        fetching = (fetch_copy(store, facts(content, f"{number}"), target) for number, content in enumerate(contents))
        return await asyncio.gather(*fetching, return_exceptions=True)

    outcomes = asyncio.run(story())
    (winner,) = [number for number, error in enumerate(outcomes) if error is None]
    assert target.read_bytes() == contents[winner]
    for error in outcomes:
        if error is not None:
            assert isinstance(error, Failed), error
            assert (str(error), error.status) == (f"{target} exists; choose another name", Exit.USAGE)
    assert list(target.parent.iterdir()) == [target]


def test_a_file_that_was_made_meanwhile_stays(store: ObjectStore, target: Path) -> None:
    async def story() -> None:
        await store.put("it", CONTENT)
        target.write_bytes(b"of another process")
        with pytest.raises(Failed, match="exists; choose another name") as refused:
            await fetch_copy(store, facts(CONTENT, "it"), target)
        assert refused.value.status is Exit.USAGE

    asyncio.run(story())
    assert target.read_bytes() == b"of another process"
    assert list(target.parent.iterdir()) == [target]


def test_a_damaged_object_makes_no_file(store: ObjectStore, target: Path) -> None:
    async def story() -> None:
        await store.put("it", CONTENT[:-1])
        with pytest.raises(Failed, match="the object was changed or damaged"):
            await fetch_copy(store, facts(CONTENT, "it"), target)

    asyncio.run(story())
    assert list(target.parent.iterdir()) == []
