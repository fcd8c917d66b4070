"""Marks of services in an object store: written once, told from those of others, and found by rivals."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.object_store import ObjectStore, is_key
from coordinator.runtime.files.keys import kept_prefixes, why_no_file
from coordinator.store_mark import MARKS, Mark, MarkedService, PrefixTaken, check_alone, is_marked, mark_key, put_mark, take_over_mark
from tests.objectstore.failing_store import FailingStore
from tests.objectstore.test_object_store import listed

OURS = MarkedService(cluster_id="kafka", topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
OTHER = MarkedService(cluster_id="other", topic_id="AAAAAAAAAAAAAAAAAAAAAg")
NO_PREFIX = b'{"service": {"cluster_id": "kafka", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}, "wal_prefixes": []}'
DAMAGE = [
    NO_PREFIX,
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff",
    b'{"service": 1, "wal_prefixes": ["wal/"]}',
    b'{"service": {"topic_id": "x"}}',
    b"[" * 100_000,
]


@pytest.fixture
def store() -> FailingStore:
    return FailingStore(open_store("memory://"))


def test_a_mark_is_put_once_and_again_when_the_prefix_changes(store: FailingStore) -> None:
    async def story() -> None:
        assert not await is_marked(store, OURS)
        for _ in range(3):
            await put_mark(store, Mark(service=OURS, wal_prefixes=("wal/",)))
        assert await is_marked(store, OURS)
        assert (len(store.modes), await listed(store, "")) == (1, [mark_key(OURS)])
        await put_mark(store, Mark(service=OURS, wal_prefixes=("files/",)))
        assert len(store.modes) == 2
        assert not await is_marked(store, OTHER)

    asyncio.run(story())


STOLEN = b'{"service": {"cluster_id": "another", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}, "wal_prefixes": [""]}'


@pytest.mark.parametrize("damage", [*DAMAGE, STOLEN])
def test_what_is_no_mark_of_the_service_counts_as_none_and_is_replaced(store: FailingStore, damage: bytes) -> None:
    async def story() -> None:
        await store.put(mark_key(OURS), damage)
        assert not await is_marked(store, OURS)
        await put_mark(store, Mark(service=OURS, wal_prefixes=("wal/",)))
        assert await is_marked(store, OURS)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("theirs", "is_alone"), [("wal/", False), ("wal/part/", False), ("walrus/", True), ("files/", True), ("", False)], ids=ascii
)
def test_a_service_is_alone_where_no_other_has_files(store: ObjectStore, theirs: str, is_alone: bool) -> None:
    async def story() -> None:
        await put_mark(store, Mark(service=OURS, wal_prefixes=("wal/",)))
        await put_mark(store, Mark(service=OTHER, wal_prefixes=(theirs,)))
        await check_alone(store, "wal/", [OURS, OTHER])
        if is_alone:
            await check_alone(store, "wal/", [OURS])
            return
        with pytest.raises(PrefixTaken, match=rf"{mark_key(OTHER)} says that cluster other, metadata topic id {OTHER.topic_id}, has files"):
            await check_alone(store, "wal/", [OURS])

    asyncio.run(story())


def test_a_service_keeps_the_prefixes_that_it_had(store: ObjectStore) -> None:
    async def story() -> None:
        for prefix in ("wal/", "files/", "wal/"):
            await put_mark(store, Mark(service=OTHER, wal_prefixes=(prefix,)))
        for prefix in ("wal/", "files/"):
            with pytest.raises(PrefixTaken, match=rf"has files below {prefix}, and"):
                await check_alone(store, prefix, [OURS])
        await check_alone(store, "data/", [OURS])

    asyncio.run(story())


def test_a_restored_service_has_the_prefixes_of_the_former_one(store: ObjectStore) -> None:
    async def story() -> None:
        await put_mark(store, Mark(service=OTHER, wal_prefixes=("old/", "wal/")))
        for _ in range(2):  # a node may be killed at any moment, and the next one begins anew
            await take_over_mark(store, Mark(service=OURS, wal_prefixes=("data/",)), OTHER)
        assert await listed(store, "") == [mark_key(OURS)]
        third = MarkedService(cluster_id="kafka", topic_id="AAAAAAAAAAAAAAAAAAAAAw")
        for prefix in ("old/", "wal/", "data/"):
            with pytest.raises(PrefixTaken, match=f"topic id {OURS.topic_id}, has files below {prefix}, and"):
                await check_alone(store, prefix, [third])

    asyncio.run(story())


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_mark_that_cannot_be_read_may_be_that_of_another_service(store: ObjectStore, damage: bytes) -> None:
    async def story() -> None:
        await store.put(f"{MARKS}x.json", damage)
        with pytest.raises(PrefixTaken, match=r"services/x.json is no mark of a service; delete it"):
            await check_alone(store, "wal/", [OURS])

    asyncio.run(story())


def test_a_mark_is_no_file() -> None:
    key = mark_key(OURS)
    assert is_key(key)
    assert why_no_file(key, "snapshots/") == f"its key is that of a mark of a service: {key!r}"
    assert key.startswith(tuple(kept_prefixes("snapshots/")))
