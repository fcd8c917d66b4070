"""Moves partitions of a topic between coordinators: each in turn, and again until it was everywhere, in threads of their own."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random
from types import TracebackType
from typing import Final, Self

from coordinator.client import DisklessClient
from coordinator.client.calls.moves import PartitionMove
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
        self._threads = ThreadPoolExecutor(thread_name_prefix="moves")
        self._under_way: list[tuple[Future[str], Say]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._threads.shutdown(cancel_futures=True)

    def begin(self, partition: int, rng: Random, say: Say) -> None:
        """Order that a partition moves to a coordinator where it never was."""
        seed = rng.getrandbits(32)
        self._under_way.append((self._threads.submit(lambda: asyncio.run(self._move(partition, Random(seed)))), say))

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
            end_s = asyncio.get_running_loop().time() + ORDER_TIMEOUT_MS / 1000
            while any(one.partition == place for one in (await client.admin.move_partitions([], timeout_ms=ORDER_TIMEOUT_MS)).under_way):
                assert asyncio.get_running_loop().time() < end_s, f"partition {partition} does not get from {at} to {to}"
                await asyncio.sleep(LOOK_S)
            now = (await client.describe_topic(self._topic, timeout_ms=ORDER_TIMEOUT_MS)).partitions[partition].coordinator_id
            assert now in (at, to), f"partition {partition} moved from {at} to {to}, and is at {now}"
            return f"partition {partition} moved from {at} to {to}"
