"""Objects are deleted in bulk, a few calls at a time; a store that fails is left alone ever longer, and one bad key stops no other."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from coordinator.adapters.objectstore import open_store
from coordinator.object_store import StoreDenied, StoreUnavailable
from coordinator.runtime.files.objects import CALLS_AT_ONCE_MAX, FAILED_KEYS_MAX, KEYS_PER_CALL_MAX, KEYS_PER_CHECK, REST_S, ObjectRemover
from tests.objectstore.moody_store import MoodyStore
from tests.runtime.files.rounds import calls_in_a_round

DENIED = StoreDenied("test://store: delete: denied")
SILENT = StoreUnavailable("test://store: delete: no answer")


class World:
    """A remover over a store with objects, and its clock."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.store = MoodyStore(open_store("memory://"))
        self.remover = ObjectRemover(self.store, kept_prefix="snapshots/", rng=random.Random(1), monotonic_s=lambda: self.now_s)

    async def put(self, *keys: str) -> None:
        for key in keys:
            await self.store.put(key, b"data")

    async def left(self) -> set[str]:
        return {one.key async for chunk in self.store.list("") for one in chunk}


async def test_what_the_store_confirmed_or_did_not_have_is_gone() -> None:
    world = World()
    await world.put("wal/a", "wal/b")
    removal = await world.remover.remove(["wal/a", "wal/none"])
    assert removal == (frozenset({"wal/a", "wal/none"}), False)
    assert await world.left() == {"wal/b"}


async def test_keys_of_calls_side_by_side_are_checked_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    calls_keys = [[f"wal/{call}/{number}" for number in range(3 * KEYS_PER_CHECK + 1)] for call in range(3)]
    with calls_in_a_round(monkeypatch, "coordinator.runtime.files.objects.why_no_file") as checks:
        removals = await asyncio.gather(*map(world.remover.remove, calls_keys))
    assert [removal.gone for removal in removals] == [frozenset(keys) for keys in calls_keys]
    assert checks.total() == sum(map(len, calls_keys))
    assert max(checks.values()) <= KEYS_PER_CHECK


async def test_a_store_that_does_not_answer_is_left_alone_ever_longer() -> None:
    world = World()
    await world.put("wal/a")
    world.store.error = SILENT
    rests = []
    for _ in range(20):
        assert not world.remover.is_resting
        assert await world.remover.remove(["wal/a"]) == (frozenset(), True)
        assert world.remover.is_resting
        calls = len(world.store.calls)
        assert await world.remover.remove(["wal/a"]) == (frozenset(), False)
        assert len(world.store.calls) == calls
        began_s = world.now_s
        while world.remover.is_resting:
            world.now_s += 0.01
        rests.append(world.now_s - began_s)
    first_s, longest_s = REST_S
    assert first_s / 2 <= rests[0] <= first_s + 0.02
    assert all(longest_s / 2 <= rest <= longest_s + 0.02 for rest in rests[-5:])
    world.store.error = None
    assert (await world.remover.remove(["wal/a"])).gone == {"wal/a"}
    assert await world.left() == set()


async def test_calls_under_way_are_few() -> None:
    world = World()
    world.store.answers.clear()
    async with asyncio.timeout(30), asyncio.TaskGroup() as removals:
        for number in range(50):
            removals.create_task(world.remover.remove([f"wal/{number}"]))
        while world.store.under_way < CALLS_AT_ONCE_MAX:  # noqa: ASYNC110 - the store knows no events
            await asyncio.sleep(0)
        for _ in range(200):
            await asyncio.sleep(0)
            assert world.store.under_way == CALLS_AT_ONCE_MAX
        world.store.answers.set()
    assert len(world.store.calls) == 50


async def test_calls_that_wait_are_not_made_when_the_store_fails_meanwhile() -> None:
    world = World()
    world.store.error = DENIED
    await asyncio.gather(*(world.remover.remove([f"wal/{number}"]) for number in range(50)))
    assert 1 <= len(world.store.calls) <= CALLS_AT_ONCE_MAX


async def test_objects_that_cannot_be_deleted_stop_no_others() -> None:
    world = World()
    keys = [f"wal/{number:04}" for number in range(1_500)]
    await world.put(*keys)
    stubborn = {f"wal/{number:04}" for number in (0, 1, 2, 3, 700)}
    world.store.stubborn |= dict.fromkeys(stubborn, DENIED)
    left = list(keys)
    for sweep in range(13):
        world.now_s += 100
        gone: set[str] = set()
        for call in list(world.remover.calls_of(left)):
            world.now_s += 100
            gone |= (await world.remover.remove(call)).gone
        left = [key for key in left if key not in gone]
        # Others go between two sweeps, by calls that have nothing to do with this one.
        for number in range(5):
            world.now_s += 100
            assert (await world.remover.remove([f"wal/new-{sweep}-{number}"])).gone
    assert set(left) == stubborn
    assert await world.left() == stubborn


async def test_calls_for_keys_that_failed_are_small_until_they_succeed_and_come_last() -> None:
    world = World()
    keys = [f"wal/{number:04}" for number in range(2_000)]
    world.store.error = SILENT
    assert (await world.remover.remove(keys[:1_000])).has_failed
    calls = list(world.remover.calls_of(keys))
    assert [len(call) for call in calls] == [1_000, 500, 500]
    assert calls[0] == keys[1_000:]
    world.now_s += 100
    world.store.error = None
    assert len((await world.remover.remove(keys[:500])).gone) == 500
    assert [len(call) for call in world.remover.calls_of(keys)] == [1_000, 500, 500]
    assert len((await world.remover.remove(keys[500:1_000])).gone) == 500
    assert [len(call) for call in world.remover.calls_of(keys)] == [KEYS_PER_CALL_MAX] * 2
    world.store.error = SILENT
    for first in range(0, 2 * FAILED_KEYS_MAX, KEYS_PER_CALL_MAX):
        world.now_s += 100
        await world.remover.remove([f"wal/{first + number}" for number in range(KEYS_PER_CALL_MAX)])
    remembered = [f"wal/{number}" for number in range(2 * FAILED_KEYS_MAX)]
    small = [len(call) for call in world.remover.calls_of(remembered) if len(call) < KEYS_PER_CALL_MAX]
    assert 0 < sum(small) <= FAILED_KEYS_MAX


async def test_snapshots_and_keys_that_no_store_takes_are_not_asked_for() -> None:
    world = World()
    await world.put("snapshots/one", "orphan-scan/wal/record.json", "wal/a")
    removal = await world.remover.remove(["snapshots/one", "orphan-scan/wal/record.json", "wal//a", "../etc", "wal/a"])
    assert removal.gone == {"snapshots/one", "orphan-scan/wal/record.json", "wal//a", "../etc", "wal/a"}
    assert world.store.calls == [["wal/a"]]
    assert await world.left() == {"snapshots/one", "orphan-scan/wal/record.json"}


async def test_a_trouble_is_said_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.INFO, "coordinator.files"):
        for error in (SILENT, SILENT, DENIED, SILENT, None, None):
            world.store.error = error
            world.now_s += 100
            await world.remover.remove(["wal/a"])
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR", "INFO"]
    assert "no answer" in caplog.text
    assert "denied" in caplog.text
