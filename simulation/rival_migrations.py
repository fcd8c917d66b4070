"""A classic partition becomes diskless while its leaders fail over, rival drivers race, die and start again, and requests arrive late.

    outcome = rival_migrations(seed)

The classic partition is abstract: two replicas, of which one may go on believing that it leads. Drivers (`MigrationDriver`) ask whichever
leader they know of; idempotent producers write to the classic log until it refuses them, and then, with the same sequences, to the
coordinator, which is the real core. In the end every batch that was acknowledged must be found once, no producer may have been refused,
and all drivers must have been told one B0. Deterministic: the same seed and code give the same outcome.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coordinator.client.calls.migrations import DisklessLogState
from coordinator.client.errors import ServiceError, error_of
from coordinator.client.model import SeededBatch, SeededProducer
from coordinator.core.commands import (
    CommitFile,
    CommitResult,
    DescribeDisklessLogs,
    LogInit,
    LogOrigin,
    LogReset,
    MigratePartitions,
    MigrationStep,
    NamedLog,
    Outcome,
    PlacePartitions,
    TopicShare,
)
from coordinator.core.events import SchemaLevel, Unassigned
from coordinator.kafka.batches import BATCH, partition_key
from coordinator.kafka.errors import ErrorCode
from migration.classic import ClassicState, MigrationRefused, ProducerBatches
from migration.driver import MigrationDriver
from records.levels import LEVEL_LATEST
from records.model import SeededProducerBatch
from simulation.fakes.shard_harness import HarnessReplica, World
from simulation.fold import LogFold
from simulation.loop import VirtualTime
from simulation.story import Violation

TOPIC_ID = b"a classic topic!"
PRODUCERS = 3
FAULTS_S = 8.0
END_S = 60.0
REMEMBERED = 5
DELAY_S = (0.001, 0.02)
LATE_S = (0.3, 4.0)
STATES = {LogOrigin.PENDING: "pending", LogOrigin.INITIALISED: "initialised", LogOrigin.BORN: "born"}


class Written(NamedTuple):
    """A batch in a classic log."""

    producer_id: int
    first_sequence: int
    records: int
    base_offset: int

    @property
    def end(self) -> int:
        return self.base_offset + self.records


@dataclass(slots=True)
class ClassicReplica:
    """One replica of the classic partition; `replicated` is how many of its batches it knows to be on both."""

    log: list[Written] = field(default_factory=list)
    replicated: int = 0
    epoch: int = 0
    is_leading: bool = False
    """Whether it believes so."""

    @property
    def end(self) -> int:
        return self.log[-1].end if self.log else 0

    @property
    def high_watermark(self) -> int:
        return self.log[self.replicated - 1].end if self.replicated else 0


class ClassicPair:
    """Two replicas. The leader that was replaced believes that it leads until it hears of the other one, and loses its own tail then."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.replicas = (ClassicReplica(is_leading=True), ClassicReplica())
        self.leader = 0
        self.epoch = 0
        self.is_refusing = False
        self.is_apart = False
        """Whether the one that does not lead has not heard of the leader yet."""
        self._is_cut_off = False
        """Whether writers cannot reach it either."""

    @property
    def true_log(self) -> list[Written]:
        return self.replicas[self.leader].log

    def elect(self, epoch: int | None = None) -> None:
        """Let the other replica lead, if it is in sync."""
        if self.is_apart:
            return
        self.leader = 1 - self.leader
        self.epoch = max(self.epoch + 1, epoch or 0)
        new = self.replicas[self.leader]
        new.epoch, new.is_leading, new.replicated = self.epoch, True, len(new.log)
        self.is_apart, self._is_cut_off = True, self._rng.random() < 0.5

    def heal(self) -> None:
        """Let the replaced leader hear of it: its log becomes that of the leader."""
        new, old = self.replicas[self.leader], self.replicas[1 - self.leader]
        old.log, old.replicated, old.epoch, old.is_leading = list(new.log[: new.replicated]), new.replicated, self.epoch, False
        self.is_apart = False

    def append(self, at: int, producer_id: int, first: int, count: int) -> int | None:
        """Append a batch at a replica that believes that it leads; returns its place, None when it is refused."""
        if self.is_refusing or (at != self.leader and self._is_cut_off):
            return None
        replica = self.replicas[at]
        known = next((place for place, one in enumerate(replica.log) if one[:2] == (producer_id, first)), None)
        if known is not None:
            return known
        replica.log.append(Written(producer_id, first, count, replica.end))
        return len(replica.log) - 1

    def replicate(self) -> None:
        """Let the true leader's log be on every replica that is in sync."""
        leader, other = self.replicas[self.leader], self.replicas[1 - self.leader]
        leader.replicated = len(leader.log)
        if not self.is_apart:
            other.log, other.replicated = list(leader.log), leader.replicated


class LeaderView:
    """The port of a driver: the partition as the leader shows it that the driver knows of, which may be the replaced one."""

    name = "classic-0"
    topic_id = TOPIC_ID
    partition = 0

    def __init__(self, pair: ClassicPair, rng: random.Random) -> None:
        self._pair = pair
        self._rng = rng
        self._at = rng.randrange(2)

    async def refuse_writes(self) -> None:
        await asyncio.sleep(self._rng.uniform(*DELAY_S))
        self._pair.is_refusing = True

    async def look(self) -> ClassicState:
        await asyncio.sleep(self._rng.uniform(*DELAY_S))
        return self._state()

    def _state(self) -> ClassicState:
        if not self._pair.replicas[self._at].is_leading:
            self._at = self._pair.leader
        replica = self._pair.replicas[self._at]
        return ClassicState(
            leader_epoch=replica.epoch, log_start_offset=0, high_watermark=replica.high_watermark, log_end_offset=replica.end
        )

    async def last_batches(self, state: ClassicState) -> ProducerBatches:
        await asyncio.sleep(self._rng.uniform(*DELAY_S))
        by_producer: dict[int, list[SeededBatch]] = {}
        for one in self._pair.replicas[self._at].log:
            if one.end <= state.log_end_offset:
                last = one.first_sequence + one.records - 1
                by_producer.setdefault(one.producer_id, []).append(SeededBatch(one.first_sequence, last, one.base_offset, one.end - 1, -1))
        return ProducerBatches(producers=tuple(SeededProducer(key, 0, tuple(own[-REMEMBERED:])) for key, own in by_producer.items()))

    async def settle(self, state: ClassicState) -> ClassicState:
        """Only the true leader finds replicas that follow it."""
        await asyncio.sleep(self._rng.uniform(*DELAY_S))
        self._at = self._pair.leader
        return self._state()

    async def count_records(self, start_offset: int, state: ClassicState) -> int:
        return sum(one.records for one in self._pair.replicas[self._at].log if one.base_offset >= start_offset)


class CoordinatorCalls:
    """The coordinator's side: the core, whose leader changes; requests and answers are late or lost as long as there are faults."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.has_faults = True
        self.world = World()
        self.replicas = [self.world.add_replica(), self.world.add_replica()]
        self.replicas[0].lead()
        self._feed_level()
        share = TopicShare(topic_id=TOPIC_ID, name="classic", first_partition=0, num_partitions=1, order_offset=1, classic_pending=True)
        self.leader.ask(PlacePartitions(shares=[share]))
        self._files = 0

    def _feed_level(self) -> None:
        for replica in self.replicas:
            replica.feed(SchemaLevel(LEVEL_LATEST))

    @property
    def leader(self) -> HarnessReplica:
        return self.replicas[0]

    def fail_over(self) -> None:
        """Let the other replica lead."""
        self.leader.feed(Unassigned())
        self.replicas.reverse()
        self.leader.lead()
        self._feed_level()

    async def step(self, step: MigrationStep) -> None:
        """Take a step, now or late. Raises `ServiceError`, also for one whose outcome is not known."""
        rng = self._rng
        if self.has_faults and rng.random() < 0.25:
            asyncio.get_running_loop().call_later(rng.uniform(*LATE_S), self._take, step)
            await asyncio.sleep(rng.uniform(*LATE_S) / 4)
            raise error_of(ErrorCode.REQUEST_TIMED_OUT, "no answer")
        await asyncio.sleep(rng.uniform(*DELAY_S))
        outcome = self._take(step)
        if self.has_faults and rng.random() < 0.15:
            raise error_of(ErrorCode.REQUEST_TIMED_OUT, "the answer was lost")
        if outcome.error is not ErrorCode.NONE:
            raise error_of(outcome.error, outcome.message or "")

    async def take_surely(self, step: MigrationStep) -> None:
        """Take a step, or have it refused, as a client that repeats it until the answer is there."""
        await asyncio.sleep(self._rng.uniform(*DELAY_S))
        self._take(step)

    def _take(self, step: MigrationStep) -> Outcome:
        self.world.now_ms += 1
        [answer] = self.leader.ask(MigratePartitions(steps=[step]))
        return answer[0].outcome  # type: ignore[index, union-attr]

    async def init_diskless_log(
        self,
        topic_id: bytes,
        partition: int,
        *,
        start_offset: int,
        prefix_start: int,
        leader_epoch: int,
        producers: Sequence[SeededProducer],
    ) -> None:
        seeds = [
            SeededProducerBatch(
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
                base_sequence=batch.first_sequence,
                last_sequence=batch.last_sequence,
                base_offset=batch.base_offset,
                timestamp_ms=-1,
            )
            for one in producers
            for batch in one.batches
        ]
        await self.step(LogInit(topic_id, partition, start_offset, prefix_start, leader_epoch, seeds))

    async def describe_diskless_log(self, topic_id: bytes, partition: int) -> DisklessLogState:
        await asyncio.sleep(self._rng.uniform(*DELAY_S))
        return self.state()

    def state(self) -> DisklessLogState:
        """The state of the migration."""
        [[answer]] = self.leader.ask(DescribeDisklessLogs(partitions=[NamedLog(TOPIC_ID, 0)]))  # type: ignore[misc]
        facts = answer.facts  # type: ignore[union-attr]
        return DisklessLogState(state=STATES[facts.origin], **facts._asdict())  # type: ignore[arg-type]

    def commit(self, producer_id: int, first: int, count: int) -> ErrorCode:
        """Commit a batch in a file of its own."""
        self._files += 1
        self.world.now_ms += 1
        rows = np.zeros(1, BATCH)
        values = {"magic": 2, "size": 10, "max_timestamp": 1, "producer_id": producer_id, "producer_epoch": 0, "base_sequence": first}
        for name, value in (values | {"last_sequence": first + count - 1, "last_offset": count - 1}).items():
            rows[name] = value
        rows["topic_partition"] = np.void(partition_key(TOPIC_ID, 0))
        [answer] = self.leader.ask(CommitFile(f"wal/{self._files}", 1, 100, [0], rows, 1, -1))
        result: CommitResult = answer.result()  # type: ignore[union-attr]
        return ErrorCode(result.errors[0])


@dataclass(slots=True)
class RivalOutcome:
    """`acknowledged` counts batches, `migrations` how often a driver succeeded, `resets` those of the operator."""

    seed: int
    violation: Violation | None = None
    acknowledged: int = 0
    migrations: int = 0
    resets: int = 0
    start_offset: int = -1


def rival_migrations(seed: int) -> RivalOutcome:
    """Live one partition's migration."""
    life = _Life(seed)
    try:
        life.live()
    except Violation as violation:
        life.outcome.violation = violation
    finally:
        life.time.close()
    return life.outcome


class _Life:
    def __init__(self, seed: int) -> None:
        self.outcome = RivalOutcome(seed)
        self._rng = random.Random(seed)
        self.time = VirtualTime()
        self._loop = self.time.new_loop("migration")
        self._violation: Violation | None = None
        self.time.on_error = self._failed
        self._pair = ClassicPair(self._rng)
        self._calls = CoordinatorCalls(self._rng)
        self._acknowledged: set[tuple[int, int]] = set()
        self._told: list[int] = []
        """The start offsets that drivers were told since the last reset."""
        self._is_stopped = False
        self._drivers: list[asyncio.Task[None]] = []
        self._holds_until_s = self._rng.choice((0.0, self._rng.uniform(2.0, FAULTS_S)))
        """Before, no client writes to the diskless log: then it can be taken back."""

    def _failed(self, _: object, context: dict[str, object]) -> None:
        error = context.get("exception")
        self._break(error if isinstance(error, Violation) else Violation("nothing fails", f"{error!r}"))

    def _break(self, violation: Violation) -> None:
        self._violation = self._violation or violation
        self.time.is_over = True

    def _start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(None, {"exception": error})

    def live(self) -> None:
        writers = [self._start(self._write(producer_id)) for producer_id in range(PRODUCERS)]
        self._loop.call_later(self._rng.uniform(0.2, 3.0), self._begin_drivers)
        if self._holds_until_s:
            self._start(self._take_back())
        self._start(self._make_faults())
        self._start(self._replicate())
        self.time.run_until(END_S)
        if self._violation is not None:
            raise self._violation
        if not all(task.done() for task in (*writers, *self._drivers)):
            raise Violation("everything heals", f"after {END_S:g} s writers or drivers are not done")
        self._judge()

    def _begin_drivers(self) -> None:
        self._drivers = [self._start(self._drive()) for _ in range(2)]

    # ---- what happens

    async def _replicate(self) -> None:
        while True:
            # Now and then a follower lags behind.
            await asyncio.sleep(self._rng.uniform(0.005, 0.15) if self._rng.random() < 0.8 else self._rng.uniform(0.3, 1.5))
            self._pair.replicate()

    async def _make_faults(self) -> None:
        rng, pair = self._rng, self._pair
        loop = asyncio.get_running_loop()
        while loop.time() < FAULTS_S:
            await asyncio.sleep(rng.uniform(0.05, 0.6))
            match rng.choice(["elect", "elect", "elect", "heal", "coordinator", "kill", "stray"]):
                case "elect":
                    pair.elect()
                case "heal" if pair.is_apart:
                    pair.heal()
                case "coordinator":
                    self._calls.fail_over()
                case "kill" if self._drivers:
                    victim = rng.randrange(len(self._drivers))
                    self._drivers[victim].cancel()
                    self._drivers[victim] = self._start(self._drive())
                case "stray":
                    await self._propose_another()
                case _:
                    pass
        self._calls.has_faults = False
        if pair.is_apart:
            pair.heal()
        await asyncio.sleep(LATE_S[1])
        self._is_stopped = True

    async def _propose_another(self) -> None:
        """Propose another B0 for a log that is initialised; it must be refused."""
        state = self._calls.state()
        if state.state == "initialised":
            with suppress(ServiceError):
                await self._calls.step(LogInit(TOPIC_ID, 0, state.start_offset + 1, 0, state.leader_epoch, []))
                raise Violation("B0 is one", f"{state.start_offset + 1} was taken when {state} was said")

    async def _take_back(self) -> None:
        """An operator takes migrations back that have just been made, as long as nothing is written."""
        loop = asyncio.get_running_loop()
        while loop.time() < self._holds_until_s:
            await asyncio.sleep(self._rng.uniform(0.05, 1.0))
            if self._calls.state().state == "initialised":
                await self._reset()

    async def _reset(self) -> None:
        """Stop the drivers, take the migration back, and let writers write to the classic log again."""
        for task in self._drivers:
            task.cancel()
        self._drivers = []
        state = self._calls.state()
        epoch = max(state.leader_epoch, self._pair.epoch) + 1
        await self._calls.take_surely(LogReset(TOPIC_ID, 0, epoch))
        after = self._calls.state()
        if after.state == "pending" and after.leader_epoch == epoch:
            self._told.clear()
            self.outcome.resets += 1
            if self._pair.is_apart:
                self._pair.heal()
            self._pair.elect(epoch)
            self._pair.is_refusing = False
            await asyncio.sleep(self._rng.uniform(0.05, 1.0))
        self._begin_drivers()

    async def _drive(self) -> None:
        """Migrate, again and again until it is done."""
        while True:
            driver = MigrationDriver(self._calls, still_s=0.05, drain_timeout_s=1.0, look_every_s=0.02)
            try:
                done = await driver.migrate(LeaderView(self._pair, self._rng))
            except (ServiceError, MigrationRefused) as error:
                if "born" in str(error):
                    raise Violation("pending partitions take nothing", str(error)) from error
                await asyncio.sleep(self._rng.uniform(0.02, 0.3))
                continue
            self._told.append(done.start_offset)
            self.outcome.migrations += 1
            if len(set(self._told)) > 1:
                raise Violation("B0 is one", f"drivers were told {self._told}")
            return

    async def _write(self, producer_id: int) -> None:
        """Write batches one after the other, each until it is acknowledged; where the log is, the answers say."""
        rng, sequence, at = self._rng, 0, 0
        while not self._is_stopped:
            await asyncio.sleep(rng.uniform(0.005, 0.25))
            count = rng.randint(1, 4)
            while not await self._send(producer_id, sequence, count, at):
                await asyncio.sleep(rng.uniform(0.01, 0.2))
                at = self._pair.leader if rng.random() < 0.7 else rng.randrange(2)
            self._acknowledged.add((producer_id, sequence))
            self.outcome.acknowledged += 1
            sequence += count

    async def _send(self, producer_id: int, first: int, count: int, at: int) -> bool:
        """Send a batch where it is taken; returns whether it was acknowledged."""
        rng, pair = self._rng, self._pair
        await asyncio.sleep(rng.uniform(*DELAY_S))
        if pair.replicas[at].is_leading and (place := pair.append(at, producer_id, first, count)) is not None:
            for _ in range(20):
                await asyncio.sleep(0.02)
                replica = pair.replicas[at]
                is_there = place < len(replica.log) and replica.log[place][:2] == (producer_id, first)
                if not is_there or at != pair.leader:
                    return False
                if place < replica.replicated:
                    return rng.random() < 0.8  # else the answer was lost
            return False
        if not pair.is_refusing or asyncio.get_running_loop().time() < self._holds_until_s:
            return False
        error = self._calls.commit(producer_id, first, count)
        if error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH):
            raise Violation("no producer is wrongly rejected", f"producer {producer_id}, sequence {first}: {error.name}")
        return error is ErrorCode.NONE and rng.random() < 0.8

    # ---- what must hold

    def _judge(self) -> None:
        state = self._calls.state()
        self.outcome.start_offset = start = state.start_offset
        if state.state != "initialised" or set(self._told) != {start}:
            raise Violation("B0 is one", f"drivers were told {self._told}, the coordinator says {state}")
        classic = self._pair.true_log
        if (end := classic[-1].end if classic else 0) < start:
            raise Violation("nothing is lost", f"the classic log ends at {end}, before B0 {start}")
        fold = LogFold(0)
        for offset, (key, value) in enumerate(self._calls.world.log):
            fold.take(offset, key, value)
        found = Counter((one.producer_id, one.first_sequence) for one in classic if one.base_offset < start)
        for file in fold.committed.values():
            found.update((one.producer_id, one.base_sequence) for one in file.accepted)
        lost = sorted(self._acknowledged - found.keys())
        doubled = sorted(key for key, times in found.items() if times > 1)
        if lost or doubled:
            raise Violation("every acknowledged batch is there once", f"B0 {start}: lost {lost[:5]}, doubled {doubled[:5]}")
