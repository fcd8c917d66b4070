"""Moves partitions of a topic between coordinators, for as long as a run goes on, on an event loop of their own.

A partition returns to a coordinator once none of its records are left there (`docs/design/moves.md`). So when it was everywhere its oldest
records are deleted, and the coordinator that had them is waited for, which asks the owner at intervals: `QUICK_RETENTION`.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from random import Random
from types import TracebackType
from typing import Final, Self

from coordinator.client import DisklessClient
from coordinator.client.calls.moves import MoveUnderWay, PartitionMove
from coordinator.client.model import PartitionId
from coordinator.errors import DisklessError
from coordinator.kafka.errors import ErrorCode

Say = Callable[[str], None]
Room = Callable[[DisklessClient], Awaitable[int]]
"""Deletes the oldest records of a partition, those that nobody needs any more; returns where it starts then. May raise `DisklessError`."""
QUICK_RETENTION: Final = {"log.retention.check.interval.ms": "1000"}
"""Properties of nodes."""
STILL_THERE: Final = re.compile(r"it was there before, and its records up to offset (\d+) still are")
ORDER_TIMEOUT_MS: Final = 90_000
LOOK_S: Final = 0.2


class PartitionMoves:
    """See the module's text. `addresses` are those of nodes; `room_of` says, in the thread of `begin`, what makes room for a partition."""

    def __init__(self, addresses: Sequence[str], topic: str, coordinators: int, room_of: Callable[[int], Room]) -> None:
        self._addresses = addresses
        self._topic = topic
        self._coordinators = range(coordinators)
        self._room_of = room_of
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="moves", daemon=True)
        self._under_way: list[tuple[Future[str], Say]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """A run that failed may leave moves: nobody waits for them any more."""

        async def cancel() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(cancel(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def begin(self, partition: int, rng: Random, say: Say) -> None:
        """Order that a partition moves to a coordinator where nothing of it is, which may have to be made so first."""
        moving = self._move(partition, Random(rng.getrandbits(32)), self._room_of(partition))
        self._under_way.append((asyncio.run_coroutine_threadsafe(moving, self._loop), say))

    def wait(self) -> None:
        """Wait until all moves are done, and say what they did. Raises AssertionError when one is refused or does not end."""
        while self._under_way:
            future, say = self._under_way.pop()
            say(future.result())

    async def _move(self, partition: int, rng: Random, room: Room) -> str:
        async with DisklessClient(self._addresses) as client:
            topic = await client.describe_topic(self._topic, timeout_ms=ORDER_TIMEOUT_MS)
            place, at = PartitionId(topic.topic_id, partition), topic.partitions[partition].coordinator_id
            others = [one for one in self._coordinators if one != at]
            rng.shuffle(others)
            to = await self._free(client, place, others, room)
            if to is None:
                return f"partition {partition} stays at {at}: its older records are needed yet"
            ordered = await client.admin.move_partitions([PartitionMove(place, to)], timeout_ms=ORDER_TIMEOUT_MS)
            assert not ordered.error, f"partition {partition} does not move to {to}: {ordered.message}"
            for refusal in ordered.refusals:
                assert not refusal.code, f"partition {partition} does not move to {to}: {refusal.message}"
            end_s = self._loop.time() + ORDER_TIMEOUT_MS / 1000
            while under_way := [one for one in await self._all_under_way(client) if one.partition == place]:
                text = f"partition {partition} does not get from {at} to {to}, it waits for {under_way[0].waits_for or 'an answer'}"
                assert self._loop.time() < end_s, text
                await asyncio.sleep(LOOK_S)
            now = (await client.describe_topic(self._topic, timeout_ms=ORDER_TIMEOUT_MS)).partitions[partition].coordinator_id
            assert now in (at, to), f"partition {partition} moved from {at} to {to}, and is at {now}"
            return f"partition {partition} moved from {at} to {to}"

    @staticmethod
    async def _all_under_way(client: DisklessClient) -> Sequence[MoveUnderWay]:
        return (await client.admin.move_partitions([], timeout_ms=ORDER_TIMEOUT_MS)).under_way

    async def _free(self, client: DisklessClient, place: PartitionId, others: Sequence[int], room: Room) -> int | None:
        """The first of these coordinators that the partition may move to; None if it has been in all, and no more may be deleted.

        Raises AssertionError when there is none for long otherwise: the service has just started, or what was deleted is still there.
        """
        start, end_s = -1, self._loop.time() + ORDER_TIMEOUT_MS / 1000
        while True:
            refusals: list[str] = []
            for to in others:
                checked = await client.admin.move_partitions([PartitionMove(place, to)], only_check=True, timeout_ms=ORDER_TIMEOUT_MS)
                checked.raise_for_error()
                [refusal] = checked.refusals
                if refusal.code is ErrorCode.NONE:
                    return to
                refusals.append(refusal.message)
            ends = [int(kept[1]) for one in refusals if (kept := STILL_THERE.search(one)) is not None]
            if len(ends) == len(others):
                try:
                    before, start = start, await room(client)
                except DisklessError:
                    pass  # a fault is in the way
                else:
                    if before == start < min(ends):
                        return None
            assert self._loop.time() < end_s, f"partition {place.partition}, which starts at {start}, may not move: {'; '.join(refusals)}"
            await asyncio.sleep(LOOK_S)
