"""The contract of an object store, held by every kind, and the opening of stores by URL.

With DISKLESS_TEST_S3_URL=s3://bucket/prefix and DISKLESS_TEST_S3_OPTIONS=endpoint=http://...,access.key.id=... a real S3 is
held to the contract too.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from coordinator.adapters.objectstore import StoreOptionError, open_store
from coordinator.adapters.objectstore.local import LocalFolderStore
from coordinator.config.values import OutOfBounds
from coordinator.object_store import (
    InvalidKey,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    is_key,
)
from simulation.fakes.objects import FakeObjectStore
from simulation.fakes.snapshots import FakeObjects

pytestmark = pytest.mark.usefixtures("folder_of_objects")

S3_URL = os.environ.get("DISKLESS_TEST_S3_URL")
S3_OPTIONS = dict(pair.split("=", 1) for pair in os.environ.get("DISKLESS_TEST_S3_OPTIONS", "").split(",") if pair)


@pytest.fixture(params=["memory", "local", "fake", *(["s3"] if S3_URL else [])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "fake":
        return FakeObjectStore(FakeObjects(now_ms=lambda: 1_700_000_000_000))
    urls = {"memory": "memory://", "local": f"file://{tmp_path}/objects", "s3": f"{S3_URL}/{uuid.uuid4().hex}"}
    return open_store(urls[request.param], S3_OPTIONS if request.param == "s3" else None)


async def listed(store: ObjectStore, prefix: str, after: str = "") -> list[str]:
    return [stored.key async for chunk in store.list(prefix, after) for stored in chunk]


def test_put_get_and_ranges(store: ObjectStore) -> None:
    async def story() -> None:
        await store.put("wal/a/1", b"0123456789")
        assert await store.get("wal/a/1") == b"0123456789"
        assert await store.get_ranges("wal/a/1", [(2, 3), (0, 10)]) == [b"234", b"0123456789"]
        stored = await store.head("wal/a/1")
        assert stored is not None
        assert (stored.key, stored.size_bytes) == ("wal/a/1", 10)
        assert stored.modified_ms > 1_600_000_000_000
        await store.put("wal/a/1", memoryview(b"new"))
        assert b"".join([chunk async for chunk in store.read("wal/a/1")]) == b"new"

    asyncio.run(story())


def test_range_past_the_end_is_an_error(store: ObjectStore) -> None:
    async def story() -> None:
        await store.put("k", b"0123")
        for start, size in ((2, 3), (4, 1), (9, 1)):
            with pytest.raises(StoreError, match="k"):
                await store.get_ranges("k", [(start, size)])
        with pytest.raises(ValueError, match="size positive"):
            await store.get_ranges("k", [(0, 0)])

    asyncio.run(story())


def test_a_range_may_end_where_the_object_does(store: ObjectStore) -> None:
    async def story() -> None:
        await store.put("k", b"0123")
        assert await store.get_up_to("k", 0, 4) == b"0123"
        assert await store.get_up_to("k", 1, 2) == b"12"
        assert await store.get_up_to("k", 1, 100) == b"123"
        for start in (4, 9):
            with pytest.raises(StoreError, match="k"):
                await store.get_up_to("k", start, 1)
        with pytest.raises(ObjectMissing):
            await store.get_up_to("none", 0, 1)
        with pytest.raises(ValueError, match="size positive"):
            await store.get_up_to("k", 0, 0)

    asyncio.run(story())


def test_ranges_of_an_object_come_in_the_order_asked_for(store: ObjectStore) -> None:
    data = os.urandom(3 * 1024 * 1024)
    asked = [(2_500_000, 1_000), (0, 10), (5, 10), (len(data) - 1, 1), (1_048_576, 1_048_576)]

    async def story() -> None:
        await store.put("k", data)
        assert await store.get_ranges("k", asked) == [data[start : start + size] for start, size in asked]
        assert await store.get_ranges("k", []) == []
        with pytest.raises(StoreError, match="k"):
            await store.get_ranges("k", [(0, 10), (len(data) - 5, 10)])
        with pytest.raises(ObjectMissing, match="none"):
            await store.get_ranges("none", asked)

    asyncio.run(story())


def test_missing_object(store: ObjectStore) -> None:
    async def story() -> None:
        assert await store.head("none") is None
        with pytest.raises(ObjectMissing, match="none"):
            await store.get("none")
        with pytest.raises(ObjectMissing, match="none"):
            await store.get_ranges("none", [(0, 1)])
        with pytest.raises(ObjectMissing, match="none"):
            [chunk async for chunk in store.read("none")]

    asyncio.run(story())


def test_create_only_has_one_winner(store: ObjectStore, tmp_path: Path) -> None:
    async def story() -> None:
        results = await asyncio.gather(*(store.put("k", b"%d" % n, create_only=True) for n in range(20)), return_exceptions=True)
        assert [type(result) for result in results if result is not None] == [ObjectExists] * 19
        winner = results.index(None)
        assert await store.get("k") == b"%d" % winner
        large = tmp_path / "large"
        large.write_bytes(os.urandom(12 * 1024 * 1024))
        await store.put("large", large, create_only=True)
        with pytest.raises(ObjectExists, match="large"):
            await store.put("large", large, create_only=True)
        assert await store.get("large") == large.read_bytes()

    asyncio.run(story())


def test_large_object_is_put_in_parts_and_overwritten(store: ObjectStore, tmp_path: Path) -> None:
    data = os.urandom(12 * 1024 * 1024)

    async def story() -> None:
        await store.put("k", b"old")
        await store.put("k", data)
        assert await store.get("k") == data
        assert b"".join([chunk async for chunk in store.read("k")]) == data
        assert await store.get_ranges("k", [(7_000_000, 10)]) == [data[7_000_000:7_000_010]]

    asyncio.run(story())


def test_ping_finds_the_store(store: ObjectStore) -> None:
    asyncio.run(store.ping())


def test_delete_counts_missing_as_deleted(store: ObjectStore) -> None:
    async def story() -> None:
        keys = [f"wal/{n}" for n in range(30)]
        for key in keys[::2]:
            await store.put(key, b"x")
        deleted = await store.delete_many([*keys, "other/missing"])
        assert deleted.error is None
        assert deleted.confirmed == {*keys, "other/missing"}
        assert await listed(store, "") == []
        assert (await store.delete_many([])).confirmed == frozenset()

    asyncio.run(story())


def test_listing_is_in_key_order_and_resumes_after_a_key(store: ObjectStore) -> None:
    keys = sorted(["wal/a/2", "wal/a/1", "wal/a-b/1", "wal/a.b", "wal/é", "wal/b/1/x", "wal2/1"])

    async def story() -> None:
        for key in reversed(keys):
            await store.put(key, b"x")
        assert await listed(store, "") == keys
        below = [key for key in keys if key.startswith("wal/")]
        assert await listed(store, "wal/") == below
        for place, key in enumerate(below):
            assert await listed(store, "wal/", key) == below[place + 1 :]
        assert await listed(store, "none/") == []

    asyncio.run(story())


@pytest.mark.parametrize("sorted_max", [1, 7, 39, 40, 41])
def test_a_folder_with_more_objects_than_are_held_is_listed_in_order(tmp_path: Path, sorted_max: int) -> None:
    async def story() -> None:
        store = LocalFolderStore(tmp_path / "objects", request_timeout_ms=30_000, sorted_max=sorted_max)
        keys = sorted(f"wal/{number % 4}/{number * 7919 % 1000:03}" for number in range(40))
        for key in keys:
            await store.put(key, b"x")
        assert await listed(store, "wal/") == keys
        assert await listed(store, "wal/", keys[10]) == keys[11:]

    asyncio.run(story())


def test_long_listing_comes_in_chunks(store: ObjectStore) -> None:
    async def story() -> None:
        for n in range(1500):
            await store.put(f"wal/{n:04}", b"")
        sizes = [len(chunk) async for chunk in store.list("wal/")]
        assert sum(sizes) == 1500
        assert max(sizes) <= 1000

    asyncio.run(story())


Call = Callable[[ObjectStore, str], Coroutine[None, None, object]]


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/./b", "a\nb", "a\ud800", "a\ufffe", "a\uffff", "x" * 1025])
@pytest.mark.parametrize(
    "call",
    [
        lambda store, key: store.put(key, b""),
        lambda store, key: store.get(key),
        lambda store, key: store.head(key),
        lambda store, key: store.delete_many(["ok", key]),
    ],
)
def test_key_that_a_store_would_change_is_refused(store: ObjectStore, key: str, call: Call) -> None:
    with pytest.raises(InvalidKey):
        asyncio.run(call(store, key))


@pytest.mark.parametrize("after", ["/", "wal//", "wal/b\n", "../x", "wal/./b", "wal/b" + "x" * 2000, "wal/b\ud800", "wal/b\ufffe"])
def test_a_listing_goes_on_behind_any_text(store: ObjectStore, after: str) -> None:
    keys = ["other", "wal/a", "wal/b", "wal/c", "wal/d"]

    async def story() -> None:
        for key in keys:
            await store.put(key, b"x")
        assert await listed(store, "wal/", after) == [key for key in keys[1:] if key > after]

    asyncio.run(story())


def test_a_folder_is_listed_whatever_else_lies_in_it(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/objects")
    folder = tmp_path / "objects" / "wal"

    async def story() -> None:
        await store.put("wal/part/a", b"123")
        await store.put("wal/pct%41", b"1")
        for name in (b"tab\t", b"del\x7f", b"no text \xff\xfe", b"upload#12"):
            (folder / os.fsdecode(name)).write_bytes(b"x")
        (folder / "empty").mkdir()
        (folder / "to nothing").symlink_to(tmp_path / "none")
        (folder / "to itself").symlink_to(folder)
        (folder / "to a part").symlink_to(folder / "part")
        (folder / "to an object").symlink_to(folder / "part" / "a")
        os.mkfifo(folder / "pipe")
        unusual = ["wal/del\x7f", "wal/no text \\xff\\xfe/", "wal/tab\t"]
        assert await listed(store, "wal/") == sorted([*unusual, "wal/part/a", "wal/pct%41"])
        assert not any(map(is_key, unusual))
        assert await listed(store, "wal/", unusual[1]) == ["wal/part/a", "wal/pct%41", "wal/tab\t"]
        assert await listed(store, "wal/pct%41/") == await listed(store, "wal/none/") == []
        [[found]] = [chunk async for chunk in store.list("wal/part/")]
        assert found == await store.head("wal/part/a")

    asyncio.run(story())


def test_one_object_that_stays_keeps_no_other_of_a_folder(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/objects")
    (tmp_path / "objects" / "kept").symlink_to("/proc/self")

    async def story() -> None:
        await store.put("wal/a", b"1")
        deleted = await store.delete_many(["kept/status", "wal/a"])
        assert (deleted.confirmed, type(deleted.error)) == (frozenset(), StoreDenied)
        assert await listed(store, "") == []

    asyncio.run(story())


def test_the_folder_itself_may_be_behind_links(tmp_path: Path) -> None:
    (tmp_path / "disk" / "wal").mkdir(parents=True)
    (tmp_path / "objects" / "wal").symlink_to(tmp_path / "disk" / "wal")
    store = open_store(f"file://{tmp_path}/objects")

    async def story() -> None:
        await store.put("wal/a", b"1")
        assert await listed(store, "wal/") == ["wal/a"]

    asyncio.run(story())


def test_a_lost_folder_has_no_listing(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/objects")
    (tmp_path / "objects").rmdir()
    with pytest.raises(StoreUnavailable, match="folder is missing"):
        asyncio.run(listed(store, ""))


def test_ping_tells_a_lost_folder(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/objects")
    asyncio.run(store.ping())
    (tmp_path / "objects").rmdir()
    with pytest.raises(StoreUnavailable, match="folder is missing"):
        asyncio.run(store.ping())


def test_lost_folder_confirms_no_deletion(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/objects")
    (tmp_path / "objects").rmdir()
    deleted = asyncio.run(store.delete_many(["k"]))
    assert deleted.confirmed == frozenset()
    assert isinstance(deleted.error, StoreUnavailable)
    assert "folder is missing" in str(deleted.error)


def test_local_put_is_synced_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    real = os.fsync

    def recording(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    store = open_store(f"file://{tmp_path}/objects")
    monkeypatch.setattr(os, "fsync", recording)
    root = tmp_path / "objects"

    async def story() -> None:
        await store.put("wal/a/1", b"x")
        assert synced == [root / "wal/a/1", root / "wal/a", root / "wal", root]
        synced.clear()
        await store.put("wal/a/2", b"x")
        assert synced == [root / "wal/a/2", root / "wal/a"]

    asyncio.run(story())


def test_failed_delete_reports_what_is_confirmed(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/objects")
    (tmp_path / "objects" / "circle").symlink_to("circle")
    deleted = asyncio.run(store.delete_many(["circle/x"]))
    assert deleted.confirmed == frozenset()
    assert isinstance(deleted.error, StoreUnavailable)


def test_keys_that_no_object_can_have_hold_up_no_deletion(store: ObjectStore) -> None:
    async def story() -> None:
        for key in ("folder/x", "file", "wanted"):
            await store.put(key, b"1")
        keys = ["folder", "file/x", "n" * 300, "folder/" + "n" * 300, "wanted"]
        deleted = await store.delete_many(keys)
        assert deleted.error is None
        assert deleted.confirmed == set(keys)
        assert await listed(store, "") == ["file", "folder/x"]

    asyncio.run(story())


def test_unreachable_store_is_unavailable_and_ping_says_so_quickly() -> None:
    options = {"endpoint": "http://127.0.0.1:9", "region": "r", "access.key.id": "a", "secret.access.key": "hush"}
    store = open_store("s3://bucket/prefix", options, request_timeout_ms=300)

    async def story() -> None:
        with pytest.raises(StoreUnavailable, match="s3://bucket/prefix: ping"):
            await store.ping()
        with pytest.raises(StoreUnavailable, match="get k") as caught:
            await store.get("k")
        assert "hush" not in str(caught.value)
        assert (await store.delete_many(["k"])).confirmed == frozenset()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("s3://bucket", {"bogus": "1"}, "bogus"),
        ("memory://", {"region": "x"}, "takes no options"),
        ("file:///dev/null/x", {}, "mount or create it"),
        ("az://account", {}, "name the container"),
    ],
)
def test_wrong_options_are_named(url: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(StoreOptionError, match=message):
        open_store(url, options)


def test_unknown_scheme_is_refused() -> None:
    with pytest.raises(OutOfBounds, match="s3://"):
        open_store("ftp://x")
