"""Moves partitions of a topic between coordinators: each in turn, and again until it was everywhere, on an event loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from random import Random
from types import TracebackType
from typing import Final, Self

from coordinator.client import DisklessClient
from coordinator.client.calls.moves import MoveUnderWay, PartitionMove
from coordinator.client.model import PartitionId

Say = Callable[[str], None]
ORDER_TIMEOUT_MS: Final = 90_000
LOOK_S: Final = 0.2


class PartitionMoves:
    """See the module's text. `addresses` are those of nodes."""

    def __init__(self, addresses: Sequence[str], topic: str, coordinators: int) -> None:
        self._addresses = addresses
        self._topic = topic
        self._coordinators = range(coordinators)
        self._been: defaultdict[int, set[int]] = defaultdict(set)
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
        """Order that a partition moves to a coordinator where it never was."""
        moving = self._move(partition, Random(rng.getrandbits(32)))
        self._under_way.append((asyncio.run_coroutine_threadsafe(moving, self._loop), say))

    def wait(self) -> None:
        """Wait until all moves are done, and say what they did. Raises AssertionError when one is refused or does not end."""
        while self._under_way:
            future, say = self._under_way.pop()
            say(future.result())

    async def _move(self, partition: int, rng: Random) -> str:
        async with DisklessClient(self._addresses) as client:
            topic = await client.describe_topic(self._topic, timeout_ms=ORDER_TIMEOUT_MS)
            place, at = PartitionId(topic.topic_id, partition), topic.partitions[partition].coordinator_id
            self._been[partition].add(at)
            left = [one for one in self._coordinators if one not in self._been[partition]]
            if not left:
                return f"partition {partition} was in all coordinators"
            to = rng.choice(left)
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
