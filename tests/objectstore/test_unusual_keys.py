"""Objects whose keys are no plain paths: listings go on past them and name them as they are, in a real S3 too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.object_store import InvalidKey, ObjectStore, StoreDenied, StoreUnavailable, is_key
from integration_tests.s3 import RealS3, find_gateway
from tests.objectstore.hostile_s3 import Break, HostileS3
from tests.objectstore.test_object_store import listed

UNUSUAL = ["wal/\x01", "wal/./x", "wal//x", "wal/a\tb", "wal/folder/", "wal/zero/", "wal/é &<\n"]
BASE = "/bucket/deep/"


@pytest.fixture
def s3() -> Iterator[HostileS3]:
    with HostileS3().running() as server:
        yield server


def store_of(s3: HostileS3, **options: str) -> ObjectStore:
    given = {"endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "a", "secret_access_key": "b", **options}
    return open_store("s3://bucket/deep", given, request_timeout_ms=5_000)


def fill(s3: HostileS3, keys: list[str]) -> None:
    for key in keys:
        s3.objects[BASE + quote(key)] = b"" if key.endswith("/") else b"1"


@pytest.mark.parametrize("page_objects", [1, 3, 1000])
def test_a_listing_goes_on_past_unusual_keys_and_has_them_whole(s3: HostileS3, page_objects: int) -> None:
    usual = [f"wal/{name}" for name in ("0", "a", "b", "folder/x", "m", "zero", "zz")]
    keys = sorted([*usual, *UNUSUAL])
    fill(s3, [*keys, "other/x", "wal"])
    s3.objects["/bucket/walrus"] = b"1"
    s3.page_objects = page_objects
    store = store_of(s3)

    async def story() -> None:
        assert await listed(store, "wal/") == keys
        for after in keys:
            assert await listed(store, "wal/", after) == [key for key in keys if key > after]
        assert not any(map(is_key, UNUSUAL))
        await store.ping()

    asyncio.run(story())


def test_only_pages_with_unusual_keys_are_asked_for_a_second_time(s3: HostileS3) -> None:
    keys = [f"wal/{number:04}" for number in range(5_000)]
    fill(s3, [*keys, "wal/1500\t"])
    assert asyncio.run(listed(store_of(s3), "wal/")) == sorted([*keys, "wal/1500\t"])
    assert len(s3.pages) == 7


def test_a_file_beside_a_marker_of_its_name_is_listed_once(s3: HostileS3) -> None:
    fill(s3, ["wal/zero", "wal/zero/", "wal/gone/"])
    assert asyncio.run(listed(store_of(s3), "wal/")) == ["wal/gone/", "wal/zero", "wal/zero/"]


def test_unusual_keys_are_not_deleted(s3: HostileS3) -> None:
    fill(s3, UNUSUAL)
    for key in UNUSUAL:
        with pytest.raises(InvalidKey):
            asyncio.run(store_of(s3).delete_many([key]))
    assert len(s3.objects) == len(UNUSUAL)


def test_a_page_that_is_not_answered_is_an_error_of_the_store(s3: HostileS3) -> None:
    fill(s3, ["wal//x"])
    # obstore is answered, and refuses the page; the second question for it is not.
    s3.breaks["GET"].extend([Break.NONE, Break.ERROR])
    with pytest.raises(StoreUnavailable, match="503"):
        asyncio.run(listed(store_of(s3), "wal/"))


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RealS3]:
    with RealS3(find_gateway(), tmp_path) as running:
        yield running


def test_a_real_s3(gateway: RealS3) -> None:
    store = gateway.open("deep/er")
    plain = ["wal/0", "wal/a", "wal/folder/x", "wal/z"]
    unusual = ["wal/a\tb", "wal/empty/", "wal/z é&<#%+\n"]

    async def story() -> None:
        for key in plain:
            await store.put(key, b"1")
        for key in unusual:
            gateway.put_unusual(f"deep/er/{key}", b"" if key.endswith("/") else b"1")
        assert await listed(store, "wal/") == sorted([*plain, *unusual])
        assert await listed(store, "wal/", "wal/a\tb") == ["wal/empty/", "wal/folder/x", "wal/z", "wal/z é&<#%+\n"]
        await store.ping()
        stranger = gateway.open("deep/er", secret_key="wrong")
        with pytest.raises(StoreDenied):
            await listed(stranger, "wal/", "wal/a\tb")

    asyncio.run(story())
