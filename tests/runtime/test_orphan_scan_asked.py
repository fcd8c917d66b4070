"""Scans for orphans that are asked for while a round runs: they are done whole, however often rounds are interrupted, and told truly."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from coordinator.core.commands import Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.object_store import StoredObject, StoreUnavailable
from coordinator.runtime.files.orphan_scan import OrphanScan
from coordinator.runtime.files.rules import ScanRules
from simulation.loop import VirtualTime
from tests.runtime.made_coordinators import MadeCoordinators
from tests.runtime.test_orphan_scan import AGE_MS, PREFIX, MadeStore, World, obj, restored, ulid

NO_ROUND_BY_ITSELF = ScanRules(prefix=PREFIX, age_ms=AGE_MS, interval_ms=0)
LOOK_S = 0.01
BUSY_S = 30.0
PATIENCE_S = 3600.0
"""Of virtual time; the longest wait after trouble is five minutes."""

RUNS, INTERRUPTED, DONE = (True, False), (False, True), (False, False)
"""Whether it runs, and whether there is an error."""


class Paged(MadeStore):
    """It lists two objects at a time. What happens at a call may raise."""

    def __init__(self, objects: Sequence[StoredObject], happens: Callable[[str], None]) -> None:
        super().__init__(objects)
        self._happens = happens

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        self._happens("put")
        await super().put(key, data, create_only=create_only)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        async for chunk in super().list(prefix, after):
            for first in range(0, len(chunk), 2):
                self._happens("list")
                yield chunk[first : first + 2]


class Judging(MadeCoordinators):
    """Something happens when a coordinator is asked; it may keep the coordinator from answering."""

    def __init__(self, count: int, happens: Callable[[str], None]) -> None:
        super().__init__(count)
        self._happens = happens

    async def before(self, coordinator_id: int, only_tell: bool) -> Outcome | None:
        try:
            self._happens("ask")
        except StoreUnavailable as error:
            return Outcome(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=str(error))
        return None


class Life:
    """A scan on virtual time, and what it tells meanwhile."""

    def __init__(self, keys: Sequence[int], happens: Callable[[str], None], *, is_forced: bool) -> None:
        self.is_forced = is_forced
        self.made = World(
            store=Paged([obj(ulid(key)) for key in keys], happens), coordinators=Judging(1, happens), rules=NO_ROUND_BY_ITSELF
        )
        if is_forced:
            self.made.restoration = restored(is_finished=False)
        self.scan: OrphanScan = self.made.scanner()
        self.told: list[tuple[bool, bool]] = []
        """What it told, each change."""

    def ask(self, key: int) -> None:
        """Ask for a scan that has to find an object."""
        self.made.store.objects[ulid(key)] = obj(ulid(key))
        assert self.scan.begin(is_forced=self.is_forced).error is ErrorCode.NONE
        self.is_done()

    def is_done(self) -> bool:
        """Whether all is said to be done."""
        status = self.scan.status()
        told = status.is_running, bool(status.error)
        if not self.told or told != self.told[-1]:
            self.told.append(told)
        return told == DONE

    def run(self, look: Callable[[bool], None]) -> None:
        """Have it scan for all time; `look` is told now and then whether all is said to be done."""
        time = VirtualTime()
        task = time.new_loop("scan").create_task(self.scan.keep())
        while time.now_s < PATIENCE_S:
            time.run_until(time.now_s + (LOOK_S if time.now_s < BUSY_S else 10 * LOOK_S))
            is_done = self.is_done()
            look(is_done)
            if is_done and time.now_s > BUSY_S:
                break
        task.cancel()
        time.close()


@pytest.mark.parametrize("is_forced", [False, True])
@pytest.mark.parametrize(("call", "count"), [("ask", 2), ("list", 2), ("put", 2)], ids=["a page", "the list", "the end"])
def test_a_scan_that_was_asked_for_in_a_round_that_is_interrupted_is_done_whole(call: str, count: int, is_forced: bool) -> None:
    calls = {"ask": 0, "list": 0, "put": 0}

    def happens(what: str) -> None:
        calls[what] += 1
        if (what, calls[what]) == ("ask", 1):
            life.ask(1)  # the round has passed this object
        if (what, calls[what]) == (call, count):
            raise StoreUnavailable("no answer")

    life = Life([5, 6, 7, 8], happens, is_forced=is_forced)
    life.ask(9)

    def look(is_done: bool) -> None:
        assert not (is_done and life.made.store.objects)

    life.run(look)
    assert not life.made.store.objects
    # At an interruption who asked is told so; from then on it is done, or runs, and never seems to be done before it is.
    assert life.told[:2] == [RUNS, INTERRUPTED]
    assert life.told[-2:] == [RUNS, DONE]
    assert life.told.count(DONE) == 1


@pytest.mark.parametrize("seed", range(150))
def test_all_that_was_there_when_a_round_was_asked_for_is_gone_when_it_is_said_to_be_done(seed: int) -> None:
    rng = random.Random(seed)
    troubles, asks = rng.randrange(8), rng.randrange(1, 5)
    promised: set[str] = set()

    def happens(what: str) -> None:
        nonlocal troubles, asks
        if what == "ask" and asks and rng.random() < 0.3:
            asks -= 1
            life.ask(rng.randrange(100))
            promised.update(life.made.store.objects)
        if troubles and rng.random() < 0.3:
            troubles -= 1
            raise StoreUnavailable("no answer")

    def look(is_done: bool) -> None:
        left = promised & life.made.store.objects.keys()
        assert not is_done or not left, "a round that was asked for is said to be done"

    life = Life(rng.sample(range(100), 10), happens, is_forced=rng.random() < 0.5)
    life.ask(rng.randrange(100))
    life.run(look)
    assert not promised & life.made.store.objects.keys()
    assert life.told[-1] == DONE
