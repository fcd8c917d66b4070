"""Kafka's clients of a run: producers that keep five requests in flight and repeat, and consumers that follow the ends of partitions.

Which gateway serves a partition is each client's own belief, which may differ from others' and changes while requests are in flight.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Mapping
from itertools import count, islice
from typing import Final

from coordinator.client.errors import DisklessError
from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.find_batches import BatchLocation
from gateway.tails.lanes import MAY_HEAL
from records.record_batch import ProducerSequence, Record, encode_batch
from simulation.fakes.snapshots import FakeObjects
from simulation.fold import Where
from simulation.gateways.gateway import GatewayLife, SimulatedGateway
from simulation.gateways.links import CLOSED_S, Link, LinkFaults, LinkLost
from simulation.gateways.requests import BatchResult, ProduceCall
from simulation.judge import NOT_THERE, name
from simulation.loop import START_MS
from simulation.network import DELAY_S
from simulation.produced import Diligence, JudgedRecords, ProducedBatch
from simulation.workload.clients import Clients

IN_FLIGHT_MAX: Final = 5
THINK_S: Final = (0.01, 0.25)
BACKOFF_S: Final = (0.02, 0.2)
TIMEOUTS_MS: Final = (400, 1_500, 4_000)
"""How long producers let a gateway wait for an outcome; they wait for its answer a little longer."""
SLACK_S: Final = 0.5
PRODUCER_ID: Final = 5_000
WAITS_S: Final = (0.3, 200.0)
"""How long consumers wait at the ends: for a moment, or until they are woken."""
LOST_S: Final = 3.0
"""How long a consumer waits for an answer beyond the time for which it has asked to wait."""
FETCH_BYTES: Final = 2_000
RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class GatewayClients:
    """What the clients of a run share."""

    def __init__(
        self,
        clients: Clients,
        gateways: Mapping[int, SimulatedGateway],
        links: LinkFaults,
        objects: FakeObjects,
        records: JudgedRecords,
    ) -> None:
        self.clients = clients
        self.gateways = gateways
        self.links = links
        self.objects = objects
        self.records = records
        self.numbers = count(1)
        """Of connections."""
        self.views: list[LeaderBelief] = []

    def move(self) -> None:
        """Partitions are led by other gateways now, which each client finds out at a time of its own."""
        for view in self.views:
            self.clients.loop.call_later(view.rng.uniform(0.0, 1.0), view.change)

    def left(self, behind: list[str]) -> list[str]:
        """What has not come to an end: batches without an outcome, bytes that are held, readers that were not told (`behind`)."""
        left = list(behind)
        for number, gateway in self.gateways.items():
            life = gateway.alive
            if life is None:
                left.append(f"gateway {number} is down")
            elif life.memory.bytes_held or life.taker.files_open:
                left.append(f"gateway {number} holds {life.memory.bytes_held} bytes and {life.taker.files_open} files")
        return left


class LeaderBelief:
    """Which gateway serves a partition, as one client believes."""

    def __init__(self, shared: GatewayClients, rng: random.Random) -> None:
        self.rng = rng
        self._gateways = shared.gateways
        self._of: dict[Where, int] = {}
        shared.views.append(self)

    def gateway(self, where: Where) -> SimulatedGateway:
        """The gateway of a partition."""
        if where not in self._of:
            self._of[where] = self.rng.randrange(len(self._gateways))
        return self._gateways[self._of[where]]

    def change(self) -> None:
        """Believe something else of some partitions."""
        for where in self._of:
            if self.rng.random() < 0.7:
                self._of[where] = self.rng.randrange(len(self._gateways))


class _Queue:
    """The batches of one partition that have no outcome, in order."""

    def __init__(self, *, is_begun: bool) -> None:
        self.is_begun = is_begun
        self.batches: deque[ProducedBatch] = deque()
        self.in_flight: set[ProducedBatch] = set()
        self.tried: set[ProducedBatch] = set()
        self.failed: set[ProducedBatch] = set()
        """Those that are to be repeated."""
        self.muted_s = 0.0
        self.last_error = 0

    def due(self, now_s: float) -> ProducedBatch | None:
        """The next batch to send: one that is repeated when all before it have an outcome, and new ones beside others in flight.

        Nothing new goes while one is to be repeated: coordinators remember as many batches of a producer as may be in flight, and some
        that they wrote behind the repeated one are acknowledged already. They take any first batch of a producer that they do not
        know, so a second one that came earlier, by another gateway, would rule the first one out; as with brokers.
        """
        if now_s < self.muted_s:
            return None
        for place, batch in islice(enumerate(self.batches), IN_FLIGHT_MAX if self.is_begun else 1):
            if batch not in self.in_flight:
                return batch if place == 0 or not self.failed else None
        return None

    def drop(self, batch: ProducedBatch) -> None:
        """A batch has an outcome."""
        if batch in self.batches:
            self.batches.remove(batch)
            self.failed.discard(batch)


class ProducingClient:
    """One producer, with a connection to each gateway that it needs."""

    def __init__(self, number: int, diligence: Diligence, shared: GatewayClients, rng: random.Random) -> None:
        self._number = number
        self._diligence = diligence
        self._shared = shared
        self._clients = shared.clients
        self._rng = rng
        self._view = LeaderBelief(shared, rng)
        self._links: dict[int, Link] = {}
        self._in_flight: dict[Link, int] = {}
        self._queues: dict[Where, _Queue] = {}
        self._next: dict[Where, int] = {}
        self._epochs: dict[str, int] = {}
        self._made = 0
        self._sends: set[asyncio.Task[None]] = set()
        self._timeout_ms = rng.choice(TIMEOUTS_MS)
        self._is_repeating = diligence in (Diligence.IDEMPOTENT, Diligence.REPEATING)

    async def run(self) -> None:
        """Write until the clients close, and go on until every batch has an outcome."""
        rng, clients = self._rng, self._clients
        while not clients.is_closing:
            await asyncio.sleep(rng.uniform(*THINK_S))
            targets = clients.targets()
            for where in rng.sample(targets, min(len(targets), rng.randint(1, 3))):
                self._write(where)
            self._send()
        while self.waiting():
            self._send()
            await asyncio.sleep(rng.uniform(*BACKOFF_S))

    def waiting(self) -> list[str]:
        """The batches that have no outcome, and the last answer to each."""
        return [
            f"producer {self._number} waits for {batch}, last answer {queue.last_error}"
            for queue in self._queues.values()
            for batch in queue.batches
        ]

    def _write(self, where: Where) -> None:
        rng, topic = self._rng, self._clients.judge.topics[where[0]]
        queue = self._queues.get(where)
        if queue is None:
            queue = self._queues[where] = _Queue(is_begun=self._diligence is not Diligence.IDEMPOTENT)
            if where[0] not in {other[0] for other in self._queues if other is not where}:
                # A topic of the same name may have been there before, and what was sent to that may still come.
                self._epochs[topic.name] = self._epochs.get(topic.name, -1) + 1
        if len(queue.batches) > IN_FLIGHT_MAX:
            return
        count_, self._made = rng.randint(1, 4), self._made + 1
        epoch = sequence = -1
        producer = None
        if self._diligence is Diligence.IDEMPOTENT:
            epoch, sequence = self._epochs[topic.name], self._next.get(where, 0)
            self._next[where] = sequence + count_
            producer = ProducerSequence(producer_id=PRODUCER_ID + self._number, producer_epoch=epoch, base_sequence=sequence)
        now_ms = START_MS + int(self._clients.loop.time() * 1000)
        records = [Record(timestamp_ms=now_ms, value=b"%d %d" % (self._number, self._made)) for _ in range(count_)]
        batch = ProducedBatch(
            diligence=self._diligence,
            where=where,
            name=topic.name,
            records=count_,
            data=encode_batch(records, producer=producer),
            epoch=epoch,
            sequence=sequence,
        )
        self._shared.records.meant(batch)
        queue.batches.append(batch)

    # ---- requests

    def _send(self) -> None:
        """Send what is due, in one request to each gateway that may get one."""
        now_s = self._clients.loop.time()
        due: dict[int, list[ProducedBatch]] = {}
        for where, queue in self._queues.items():
            batch = queue.due(now_s)
            if batch is None:
                continue
            sent = due.setdefault(self._view.gateway(where).number, [])
            # A topic that was created anew has the name of the former one, and a request has a partition of a name once.
            if (batch.name, where[1]) not in [(one.name, one.where[1]) for one in sent]:
                sent.append(batch)
        for number, batches in due.items():
            link = self._link(number)
            if link is None:
                self._look_elsewhere()
            elif self._in_flight.get(link, 0) < IN_FLIGHT_MAX:
                self._request(link, batches)

    def _link(self, number: int) -> Link | None:
        """A connection to a gateway; None when it takes none."""
        link = self._links.get(number)
        if link is None or not link.is_open:
            life = self._shared.gateways[number].alive
            if life is None or life.is_stopping:
                return None
            link = self._links[number] = Link(next(self._shared.numbers), life, self._clients.loop, self._rng, self._shared.links)
        return link

    def _request(self, link: Link, batches: list[ProducedBatch]) -> None:
        for batch in batches:
            queue = self._queues[batch.where]
            if batch not in queue.tried:
                batch.place = (link.number, next(link.sent))
                queue.tried.add(batch)
            queue.in_flight.add(batch)
            batch.is_next = queue.batches[0] is batch
            if not self._is_repeating:
                # Whatever comes of it, it is not sent again.
                queue.drop(batch)
        acks = 0 if self._diligence is Diligence.BLIND else -1
        call = ProduceCall(batches, acks=acks, timeout_ms=self._timeout_ms, on_answer=self._judge)
        task = self._clients.loop.create_task(self._exchange(link, call))
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)

    async def _exchange(self, link: Link, call: ProduceCall) -> None:
        self._in_flight[link] = self._in_flight.get(link, 0) + 1
        is_lost = False
        try:
            if self._diligence is Diligence.BLIND:
                link.tell(call)
            else:
                await link.ask(call, self._timeout_ms / 1000 + SLACK_S)
        except LinkLost:
            is_lost = True
        self._in_flight[link] -= 1
        if is_lost:
            self._look_elsewhere()
        for place, batch in enumerate(call.batches):
            queue = self._queues[batch.where]
            queue.in_flight.discard(batch)
            if self._is_repeating:
                self._settle(queue, batch, None if is_lost else call.results[place])
        self._send()

    def _look_elsewhere(self) -> None:
        if self._rng.random() < 0.5:
            self._view.change()

    # ---- answers

    def _judge(self, call: ProduceCall) -> None:
        """A gateway answers; whether its client will know or not, it must be true."""
        for batch, result in zip(call.batches, call.results, strict=True):
            if result.error == ErrorCode.NONE:
                self._shared.records.acknowledged(batch, result.base_offset)
            elif self._diligence is Diligence.ONCE:
                self._shared.records.refused(batch, result.error)

    def _settle(self, queue: _Queue, batch: ProducedBatch, result: BatchResult | None) -> None:
        """Take the result of a batch; without one it is repeated, as after an error that may heal."""
        if self._clients.is_going(batch.where):
            queue.batches.clear()
            queue.failed.clear()
            return
        error = ErrorCode.REQUEST_TIMED_OUT if result is None else result.error
        if error == ErrorCode.NONE:
            queue.is_begun = True
            queue.drop(batch)
            return
        if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and batch.written:
            # Older than the batches that a coordinator remembers: it is there once, and refused, as by a broker (docs/gateway-limits.md).
            queue.drop(batch)
            return
        queue.last_error = error
        queue.failed.add(batch)
        # One that was sent beside others may have been judged before them, if they went to another gateway, and is repeated behind them.
        if error not in RETRIED and (batch.is_next or error != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            self._clients.judge.broken("producers have no gaps", f"producer {self._number}: {batch} was refused with {error}")
        if error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            self._look_elsewhere()
        queue.muted_s = self._clients.loop.time() + self._rng.uniform(*BACKOFF_S)


class FollowingClient:
    """A consumer: follows partitions at a gateway from where they begin, and goes to another one when that is gone."""

    def __init__(self, number: int, shared: GatewayClients, rng: random.Random) -> None:
        self._number = number
        self._shared = shared
        self._clients = shared.clients
        self._rng = rng
        self._positions: dict[Where, int] = {}
        self._followed: list[Where] = []

    async def run(self) -> None:
        """Follow until nothing runs any more."""
        rng = self._rng
        while True:
            await asyncio.sleep(rng.uniform(*BACKOFF_S))
            gateway = self._shared.gateways[rng.randrange(len(self._shared.gateways))]
            life = gateway.alive
            while life is not None and life is gateway.alive and not life.is_stopping:
                if not await self._find(life):
                    break
                await asyncio.sleep(rng.uniform(*DELAY_S))

    def behind(self) -> list[str]:
        """The partitions whose end it has not reached."""
        judge = self._clients.judge
        ends = {where: judge.folds_of(where) for where in self._followed if not self._clients.is_going(where)}
        return [
            f"consumer {self._number} is at {self._positions[where]} of {name(where)}, which ends at {limits.high_watermark}"
            for where, limits in ends.items()
            if limits is not None and self._positions[where] < limits.high_watermark
        ]

    async def _find(self, life: GatewayLife) -> bool:
        """Ask once; returns whether to stay at this gateway."""
        judge, rng, loop = self._clients.judge, self._rng, self._clients.loop
        targets = self._followed = self._clients.targets()
        for where in targets:
            self._positions.setdefault(where, 0)
        if not targets:
            return False
        floors = judge.floors(targets)
        asked = [FetchFrom(PartitionId(*where), self._positions[where], FETCH_BYTES) for where in targets]
        wait_s = rng.choice(WAITS_S)
        answer: asyncio.Future[list[PartitionBatches] | None] = loop.create_future()

        def give(found: list[PartitionBatches] | None) -> None:
            if not answer.done():
                answer.set_result(found)

        async def find() -> None:
            found: list[PartitionBatches] | None
            try:
                found = await life.tails.find(asked, min_bytes=1, max_bytes=FETCH_BYTES, max_wait_ms=int(wait_s * 1000))
            except DisklessError:
                found = None
            loop.call_later(rng.uniform(*DELAY_S), give, found)

        life.loop.call_soon(life.spawn_soon, find)
        life.on_ended.append(lambda: loop.call_later(CLOSED_S, give, None))
        timer = loop.call_later(wait_s + LOST_S, give, None)
        found = await answer
        timer.cancel()
        if found is None:
            return False
        is_well = True
        for where, floor, one in zip(targets, floors, found, strict=True):
            if one.error is ErrorCode.NONE:
                self._take(where, one)
            elif one.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._reset(where)
            elif one.error in NOT_THERE and floor.exists and not self._clients.is_going(where):
                text = f"consumer {self._number} was answered {one.error} for {name(where)}"
                judge.broken("acknowledged topics are there", text)
            else:
                is_well = one.error in MAY_HEAL
        return is_well

    def _take(self, where: Where, found: PartitionBatches) -> None:
        """Go on behind the batches of an answer, which must be those that come next."""
        judge = self._clients.judge
        parts = judge.stretches_of(where)
        if not parts:
            return
        logged, log_start = {base: batch for part in parts for base, batch in part.batches.items()}, parts[-1].log_start
        due = self._positions[where]
        who = f"consumer {self._number} at {due} of {name(where)}"
        for batch in found.batches:
            if not batch.base_offset <= due <= batch.last_offset:
                judge.broken("consumers see no gap", f"{who} was given {batch}")
            if logged.get(batch.base_offset) != (batch.object_key, batch.byte_offset, batch.last_offset):
                judge.broken("found is logged", f"{who} was given {batch}, the log has {logged.get(batch.base_offset)}")
            self._read(who, batch, is_live=batch.last_offset >= log_start)
            due = batch.last_offset + 1
        self._positions[where] = due

    def _read(self, who: str, batch: BatchLocation, *, is_live: bool) -> None:
        if is_live and batch.object_key not in self._shared.objects.by_key and self._clients.uploads is not None:
            self._clients.judge.broken("readers find what they were told of", f"{who}: {batch} is not in the store")

    def _reset(self, where: Where) -> None:
        """Begin where the partition does, if records were deleted that come next."""
        limits = self._clients.judge.folds_of(where)
        if limits is None:
            return
        if limits.log_start <= self._positions[where]:
            text = f"consumer {self._number}: {self._positions[where]} of {name(where)} is out of range, it begins at {limits.log_start}"
            self._clients.judge.broken("no consumer is reset", text)
        self._positions[where] = limits.log_start
