"""Damages under a running replica: commits and reads go on, every answer is checked, and it heals by itself.

    report = await damage_running(seed=1, count=300, folder=...)

A real node (`runtime`) over Kafka in memory and real SQLite. One client does one thing after the other, so `expected` says what each
answer must be. An answer may be a retriable error at any time; it may never be wrong, and after every damage each operation must
succeed again within `PATIENCE_S`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from coordinator.adapters.sqlite import StateDatabases
from coordinator.core.commands import CommitAnswer, CommitResult, DeletePoint, FetchPoint, OffsetQuery, Outcome, WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.files import DESCRIBE_FILES
from coordinator.operations.partitions import DELETE_RECORDS
from coordinator.runtime.answers.serving import ask
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.routing.applied import find_applied_batches
from tests.core.build import TOPIC, batch, commit, result_of
from tests.damage.expected import File, Partition
from tests.damage.files import Damage, damage
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

PARTITIONS = 3
PATIENCE_S = 60.0
PAUSE_S = 0.005
RETRIABLE = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
T = TypeVar("T")


@dataclass(slots=True)
class Report:
    """What happened. `noticed` are damages after which the replica failed; others hit what nobody read before it was overwritten."""

    damages: Counter[tuple[str, str]] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    refusals: int = 0
    failures: int = 0


async def damage_running(*, seed: int, count: int, folder: Path) -> Report:
    """Do so many damages. Raises AssertionError, with the seed and the last damages, on a wrong answer or one that never comes."""
    async with running(in_memory(partitions=1), StateDatabases(folder), pauses=Pauses(revive_s=(0.01, 0.05))) as started:
        await started.leads()
        [outcome] = await started.node.directory.create_topics(
            [WantedTopic(topic_id=TOPIC, name="orders", num_partitions=PARTITIONS)], TIMEOUT_MS
        )
        assert outcome.error is ErrorCode.NONE
        client = _Client(started, random.Random(seed), folder)
        try:
            await client.run(count)
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}, after {client.report.damages.total()} damages, last {client.last}: {wrong}") from wrong
        return client.report


class _Client:
    """One thing after the other, each checked."""

    def __init__(self, started: Running, rng: random.Random, folder: Path) -> None:
        self.report = Report()
        self.last: list[Damage] = []
        self._started = started
        self._rng = rng
        self._folder = folder
        self._partitions = [Partition() for _ in range(PARTITIONS)]
        self._files: list[File] = []
        self._clock = 1_000

    async def run(self, count: int) -> None:
        """See the module's text."""
        operations = [self._commit, self._commit, self._find, self._find, self._list, self._repeat, self._describe, self._delete]
        for _ in range(10):
            await self._commit()
        while self.report.damages.total() < count:
            done = damage(self._folder, self._rng)
            if done is None:
                # Every file was removed: the replica works on with what it has open, until it is built anew.
                self._started.node.replicas[0].invalidate("the files of the state database are gone")
            else:
                self.report.damages[(done.file, done.kind)] += 1
                self.last = [*self.last[-4:], done]
            for _ in range(self._rng.randint(1, 8)):
                await self._rng.choice(operations)()
                if self._rng.random() < 0.2:
                    await asyncio.sleep(self._rng.random() * 0.03)  # a flush between them
            assert not self._started.fatal, f"the process ended: {self._started.fatal}"
        for number in range(PARTITIONS):
            await self._find(number, 0)
        self.report.failures = self._started.node.keeper.failures[0].count

    async def _until_answered(self, what: str, attempt: Callable[[], Awaitable[T]], errors: Callable[[T], list[int]]) -> T:
        """Repeat while the answer is a retriable error."""
        self.report.operations[what] += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    answer = await attempt()
                    codes = set(errors(answer))
                    if not codes & RETRIABLE:
                        return answer
                    self.report.refusals += 1
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            shard = self._started.node.replicas[0].view
            why = "not loaded" if shard is None else f"{shard.phase.value} ({shard.failure})"
            raise AssertionError(f"{what} was not answered within {PATIENCE_S} s: {why}") from None

    async def _commit_file(self, file: File) -> CommitResult:
        rows = [batch(partition, count, max_timestamp=timestamp) for partition, count, timestamp in file.batches]

        async def attempt() -> CommitResult:
            answered: asyncio.Future[CommitAnswer] = asyncio.get_running_loop().create_future()
            self._started.node.router.commit(commit(file.key, rows), TIMEOUT_MS, answered.set_result, 100)
            return result_of(await answered)

        return await self._until_answered("commit", attempt, lambda result: list(result.errors))

    async def _commit(self) -> None:
        number = len(self._files)
        self._clock += self._rng.randint(0, 5)
        batches = [
            (self._rng.randrange(PARTITIONS), self._rng.randint(1, 5), self._clock - self._rng.randint(0, 20))
            for _ in range(self._rng.randint(1, 4))
        ]
        file = File(f"file-{number:06}", batches, [])
        result = await self._commit_file(file)
        file.bases = [self._partitions[partition].append(file.key, count, timestamp) for partition, count, timestamp in batches]
        self._files.append(file)
        assert (list(result.errors), list(result.base_offsets)) == ([0] * len(batches), file.bases), f"{file} got {result}"

    async def _repeat(self) -> None:
        file = self._rng.choice(self._files)
        result = await self._commit_file(file)
        assert (list(result.errors), list(result.base_offsets)) == ([0] * len(file.bases), file.bases), f"again {file} got {result}"

    async def _find(self, number: int | None = None, offset: int | None = None) -> None:
        number = self._rng.randrange(PARTITIONS) if number is None else number
        expected = self._partitions[number]
        at = self._rng.randint(expected.log_start, expected.high_watermark) if offset is None else max(offset, expected.log_start)
        points = [FetchPoint(topic_id=TOPIC, partition=number, offset=at, max_bytes=1 << 30)]

        async def attempt() -> list[object]:
            applied = find_applied_batches(self._started.node.view, points, 1 << 30, 0)
            return list(applied if applied is not None else await self._started.node.router.find_batches(points, 1 << 30, 0, TIMEOUT_MS))

        [found] = await self._until_answered("find", attempt, lambda answers: [answer.outcome.error for answer in answers])  # type: ignore[attr-defined]
        assert found.outcome.error is ErrorCode.NONE, found  # type: ignore[attr-defined]
        told = [(one.object_key, one.base_offset, one.last_offset, one.max_timestamp_ms) for one in found.batches]  # type: ignore[attr-defined]
        assert told == [tuple(one) for one in expected.from_offset(at)], (
            f"partition {number} from {at} of {expected.high_watermark}: {told}"
        )
        bounds = (found.log_start, found.high_watermark)  # type: ignore[attr-defined]
        assert bounds == (expected.log_start, expected.high_watermark), f"partition {number}: {bounds}"

    async def _list(self) -> None:
        number = self._rng.randrange(PARTITIONS)
        expected = self._partitions[number]
        timestamp = self._rng.choice((-1, -2, self._rng.randint(970, self._clock + 2)))
        right = {-1: (-1, expected.high_watermark), -2: (-1, expected.log_start)}.get(timestamp) or expected.reaching(timestamp)
        query = OffsetQuery(topic_id=TOPIC, partition=number, timestamp=timestamp)
        [found] = await self._until_answered(
            "list", lambda: self._started.node.router.list_offsets([query], TIMEOUT_MS), lambda answers: [answers[0].outcome.error]
        )
        assert (found.outcome.error, found.timestamp, found.offset) == (ErrorCode.NONE, *right), f"{query}: {found}, {right} is right"

    async def _describe(self) -> None:
        file = self._rng.choice(self._files)
        ends = [
            base + count > self._partitions[partition].log_start
            for (partition, count, _), base in zip(file.batches, file.bases, strict=True)
        ]
        [found] = await self._until_answered(
            "describe", lambda: ask(self._started.node, DESCRIBE_FILES, [file.key], TIMEOUT_MS), lambda answers: [answers[0].outcome.error]
        )
        assert (found.outcome.error, found.has_live_batches) == (ErrorCode.NONE, any(ends)), f"{file}: {found}"

    async def _delete(self) -> None:
        number = self._rng.randrange(PARTITIONS)
        expected = self._partitions[number]
        to = self._rng.randint(expected.log_start, max(expected.log_start, expected.high_watermark - 50))
        point = DeletePoint(topic_id=TOPIC, partition=number, offset=to)

        def outcomes(answers: list[Outcome]) -> list[int]:
            return [answer.error for answer in answers]

        async def attempt() -> list[Outcome]:
            return [answer.outcome for answer in await ask(self._started.node, DELETE_RECORDS, [point], TIMEOUT_MS)]

        [outcome] = await self._until_answered("delete", attempt, outcomes)
        assert outcome.error is ErrorCode.NONE, outcome
        expected.log_start = to
