"""An upload is repeated under its key until it is there, and is not sent again when it is."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from coordinator.object_store import StoreUnavailable
from gateway.produce.stats import ProduceStats
from gateway.produce.uploads import upload
from simulation.fakes.objects import FakeObjectStore
from simulation.fakes.snapshots import FakeObjects

KEY = "wal/file"


class HangingUp(FakeObjectStore):
    """Stores what it is sent, or the first `kept_bytes` of it, and hangs up before it answers."""

    def __init__(self, objects: FakeObjects, kept_bytes: int | None = None) -> None:
        super().__init__(objects)
        self._kept_bytes = kept_bytes
        self.puts = 0

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        self.puts += 1
        assert isinstance(data, bytes)
        await super().put(key, data[: self._kept_bytes])
        raise StoreUnavailable("the connection was closed")


def outcome(store: HangingUp) -> tuple[str | None, int]:
    """What became of a file of 100 bytes, and how often it was repeated."""
    stats = ProduceStats()

    async def work() -> str | None:
        async with asyncio.timeout(10):
            return await upload(store, KEY, bytes(100), is_in_vain=lambda: False, stats=stats, rng=random.Random(1))

    return asyncio.run(work()), stats.uploads_repeated


def test_a_file_that_was_stored_without_an_answer_is_found_and_not_sent_again() -> None:
    objects = FakeObjects(now_ms=lambda: 0)
    store = HangingUp(objects)
    assert outcome(store) == (None, 1)
    assert store.puts == 1
    assert objects.by_key[KEY].data == bytes(100)


@pytest.mark.parametrize("kept_bytes", [0, 99])
def test_another_object_under_its_key_is_named_and_given_up(kept_bytes: int) -> None:
    store = HangingUp(FakeObjects(now_ms=lambda: 0), kept_bytes)
    assert outcome(store) == (f"fake://: {KEY} holds {kept_bytes} bytes, the file has 100 bytes", 1)
    assert store.puts == 1
