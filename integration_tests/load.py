"""Concurrent clients that commit and read without pause while nodes fail, in a thread of their own, all recorded.

    with Load(service, topic) as load:
        load.wait_flowing()
        ...faults...
    history = load.history

Every client sends a file until each of its batches has a final answer: the same key and content again after an unknown
outcome or a retriable error, to whoever leads then. An attempt whose reply is late is not forgotten: a paused node's
answer is recorded when it comes. One client per coordinator gives a dense series of acknowledgements, others commit
files with batches of several coordinators, and one sends files whose keys must be refused. Half of the batches are idempotent, a few have
times in microseconds, tens of thousands of years ahead; now and then a client sends a finished
file once more (must be answered the same) or producer sequences again in another file (must be duplicates).
With `consumers=True` others follow partitions, delete records and describe files meanwhile (`integration_tests.consumers`).
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from coordinator.client.records.ulid import new_key
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.pool import ConnectionPool
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.commit_file import CommitFileBody, batch_rows, decode_commit_response, encode_commit_file
from coordinator.protocol.messages import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from integration_tests.consumers import Consumer, Deleter, Describer
from integration_tests.history import (
    NO_PRODUCER,
    RETRIABLE_CODES,
    SENT_MS,
    UNKNOWN_CODES,
    Attempt,
    BatchAnswer,
    History,
    Origin,
    SentBatch,
    SentFile,
    StrictRead,
    TopicLife,
    Unknown,
    UserPartition,
)
from integration_tests.routes import Address, Leader, Routes, expect
from integration_tests.unusual_keys import unusual_key
from integration_tests.waiting import WAIT_S, wait_until
from integration_tests.work_in_thread import WorkInThread
from tests.commit_batches import commit_batch

PATIENCE_S: Final = 0.5
"""After this long without a reply a client sends its request to whoever leads then."""
REPLY_TIMEOUT_S: Final = 30.0
LATE_REPLIES_S: Final = 2.0
FRESH_LANE_S: Final = 2.0
"""A connection without a reply for this long is kept for late replies, but no more requests go through it: it may be cut off."""
RETRY_PAUSE_S: Final = 0.04
COMMIT_PAUSE_S: Final = 0.1
READ_PAUSE_S: Final = 0.2
UNUSUAL_PAUSE_S: Final = 0.3
MICROSECONDS_CHANCE: Final = 0.05
MIXED_CLIENTS: Final = 3
CONSUMERS: Final = 3
REPEATED_BATCHES: Final = 2
"""At most; only the last five of a producer and partition are remembered."""
DRAIN_TIMEOUT_S: Final = 90.0
LATEST: Final = -1


class Load(WorkInThread):
    """See the module's text. `nodes` maps node ids to addresses and may grow; `owners` maps the partitions used to coordinators."""

    def __init__(self, nodes: Mapping[int, Address], owners: Mapping[UserPartition, int], *, seed: int, consumers: bool = False) -> None:
        super().__init__("load")
        now_s = time.monotonic()  # whoever made the topics was told so
        lives = [TopicLife(topic_id=topic_id, created_s=now_s) for topic_id in sorted({where.topic_id for where in owners})]
        self.history = History(topics=lives)
        self.acknowledged: dict[int, int] = dict.fromkeys(owners.values(), 0)
        """Batches acknowledged so far, by coordinator."""
        self._nodes = nodes
        self._owners = dict(owners)
        self._seed = seed
        self._has_consumers = consumers

    def wait_flowing(self, more: int = 3, timeout_s: float = WAIT_S, *, coordinators: Sequence[int] | None = None) -> None:
        """Wait until every coordinator (or those given) has acknowledged some more batches."""
        wanted = {c: self.acknowledged[c] + more for c in (self.acknowledged if coordinators is None else coordinators)}

        def is_flowing() -> bool:
            self._check_running("the load has")
            return all(self.acknowledged[c] >= count for c, count in wanted.items())

        wait_until(is_flowing, f"{more} more acknowledged batches of every coordinator of {sorted(wanted)}", timeout_s)

    @property
    def is_running(self) -> bool:
        """Whether the clients work; they end early only by an error, which `wait_flowing` and leaving the context raise."""
        return self._work is not None and not self._work.done()

    async def _run(self) -> None:
        pool = ConnectionPool(client_id="load")
        routes = Routes(pool, self._nodes)
        sender = Sender(pool, routes, self.history, self._count)
        work: list[Coroutine[Any, Any, None]] = []
        for coordinator_id in sorted(set(self._owners.values())):
            own = {where: owner for where, owner in self._owners.items() if owner == coordinator_id}
            work.append(self._commit(Client(f"of-{coordinator_id}", own, 2, self._seed + coordinator_id), sender))
            work.append(self._read(sender, sorted(own), f"reader-{coordinator_id}"))
        work.append(self._commit_unusual(Sender(pool, routes, self.history, lambda _: None)))
        mixed = [Client(f"mixed-{number}", self._owners, 6, self._seed + 100 + number) for number in range(MIXED_CLIENTS)]
        work += [self._commit(client, sender) for client in mixed]
        if self._has_consumers:
            for number in range(CONSUMERS):
                own_share = sorted(self._owners)[number::CONSUMERS]
                work.append(Consumer(f"consumer-{number}", own_share, self._nodes, pool).run(self.history, self._stopping))
            work.append(Deleter("deleter", self._owners, routes, pool).run(self.history, self._stopping))
            work.append(Describer("describer", self._nodes).run(self.history, self._stopping))
        try:
            await asyncio.gather(*work)
            await sender.finish_late()
        finally:
            await routes.close()
            await pool.close()

    def _count(self, coordinator_id: int) -> None:
        self.acknowledged[coordinator_id] += 1

    async def _commit(self, client: Client, sender: Sender) -> None:
        while not self._stopping.is_set():
            file = client.next_file()
            answers = await sender.commit_fully(client.name, file, self._stopping)
            if client.rng.random() < 0.1:
                await sender.commit_fully(client.name, file, self._stopping)
            client.done(file, answers)
            await asyncio.sleep(COMMIT_PAUSE_S * client.rng.random() * 2)  # a load of a rate, not the machine's limit

    async def _commit_unusual(self, sender: Sender) -> None:
        """Commit files whose keys must be refused."""
        client = Client("unusual", self._owners, 2, self._seed + 200)
        while not self._stopping.is_set():
            await asyncio.sleep(UNUSUAL_PAUSE_S)
            file = client.next_file(unusual_key(client.rng), is_idempotent=False)
            await sender.commit_fully(client.name, file, self._stopping)
        await sender.finish_late()

    async def _read(self, sender: Sender, partitions: Sequence[UserPartition], name: str) -> None:
        rng = random.Random(name)
        while not self._stopping.is_set():
            await sender.read(name, rng.choice(partitions), self._owners)
            await asyncio.sleep(READ_PAUSE_S)  # a load of a rate


class Client:
    """Makes the files of one client: keeps its producer's sequences, which nobody else uses."""

    def __init__(self, name: str, owners: Mapping[UserPartition, int], batches_max: int, seed: int) -> None:
        self.name = name
        self.rng = random.Random(seed)
        self._owners = owners
        self._partitions = sorted(owners)
        self._batches_max = batches_max
        self._producer_id = 1_000_000 + seed
        self._next_sequence: dict[UserPartition, int] = {}
        self._to_repeat: tuple[SentFile, list[int]] | None = None

    def next_file(self, object_key: str = "", *, is_idempotent: bool = True) -> SentFile:
        """A new file, some of whose batches may have producer sequences that were acknowledged before, or, not idempotent, none."""
        rng = self.rng
        key = object_key or new_key(time.time_ns() // 1_000_000, rng.randbytes(10), prefix="wal/faults/")
        batches: list[SentBatch] = []
        at = 0
        if self._to_repeat is not None:
            file, places = self._to_repeat
            self._to_repeat = None
            for place in places:
                old = file.batches[place]
                again = self._batch(old.where, at, old.record_count, old.base_sequence, Origin(file.object_key, place))
                batches.append(replace(again, timestamp_type=old.timestamp_type))
                at += batches[-1].size_bytes
        for _ in range(rng.randint(1, self._batches_max)):
            where = rng.choice(self._partitions)
            count = rng.randint(1, 20)
            sequence = -1
            if is_idempotent and rng.random() < 0.5:
                sequence = self._next_sequence.get(where, 0)
                self._next_sequence[where] = sequence + count
            batches.append(self._batch(where, at, count, sequence, None))
            at += batches[-1].size_bytes
        return SentFile(object_key=key, batches=tuple(batches))

    def _batch(self, where: UserPartition, at: int, count: int, sequence: int, repeats: Origin | None) -> SentBatch:
        return SentBatch(
            where=where,
            coordinator_id=self._owners[where],
            byte_offset=at,
            size_bytes=self.rng.randint(70, 5_000),
            record_count=count,
            timestamp_type=int(self.rng.random() < 0.2),
            producer_id=NO_PRODUCER if sequence < 0 else self._producer_id,
            base_sequence=sequence,
            repeats=repeats,
            timestamp_ms=SENT_MS * 1000 if self.rng.random() < MICROSECONDS_CHANCE else SENT_MS,
        )

    def done(self, file: SentFile, answers: Mapping[int, BatchAnswer]) -> None:
        """Choose now and then that the file's new idempotent batches come again in the next file."""
        if len(answers) == len(file.batches) and self.rng.random() < 0.1:
            places = [p for p, batch in enumerate(file.batches) if batch.producer_id >= 0 and batch.repeats is None]
            self._to_repeat = (file, places[-REPEATED_BATCHES:])


class Sender:
    """Sends requests to leaders and records how each ended."""

    def __init__(self, pool: ConnectionPool, routes: Routes, history: History, on_acknowledged: Callable[[int], None]) -> None:
        self._pool = pool
        self._routes = routes
        self._history = history
        self._on_acknowledged = on_acknowledged
        self._under_way: set[asyncio.Task[Any]] = set()
        self._lanes = FreshLanes()

    async def commit_fully(self, client: str, file: SentFile, stopping: threading.Event) -> dict[int, BatchAnswer]:
        """Send a file until every batch has its final answer; gives up only long after the end of the run was asked for."""
        self._history.files[file.object_key] = file
        final: dict[int, BatchAnswer] = {}
        give_up_s: float | None = None
        while len(final) < len(file.batches):
            if stopping.is_set():
                give_up_s = give_up_s or time.monotonic() + DRAIN_TIMEOUT_S
                if time.monotonic() > give_up_s:
                    raise AssertionError(f"{client}: file {file.object_key} got no final answer within {DRAIN_TIMEOUT_S:g} s of trying")
            by_leader: dict[Leader, list[int]] = {}
            for place, batch in enumerate(file.batches):
                if place not in final and (leader := self._routes.leaders.get(batch.coordinator_id)) is not None:
                    by_leader.setdefault(leader, []).append(place)
            attempts = [self._start(self._attempt(client, file, tuple(places), leader)) for leader, places in by_leader.items()]
            if attempts:
                await asyncio.wait(attempts, timeout=PATIENCE_S)
            for task in attempts:
                if task.done():
                    attempt = task.result()
                    final |= {p: answer for p, answer in zip(attempt.places, attempt.answers, strict=False) if answer.is_final}
            if len(final) < len(file.batches):
                await self._routes.refresh()
                await asyncio.sleep(RETRY_PAUSE_S)
        return final

    def _start(self, work: Coroutine[Any, Any, Attempt]) -> asyncio.Task[Attempt]:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _attempt(self, client: str, file: SentFile, places: tuple[int, ...], leader: Leader) -> Attempt:
        body = encode_request(file, places)
        invoked_s = time.monotonic()
        answers: tuple[BatchAnswer, ...] = ()
        try:
            with self._lanes.use(client, leader, invoked_s) as lane:
                reply = await self._pool.request(leader.address.lane(lane), ApiKey.COMMIT_FILE, 0, body, REPLY_TIMEOUT_S)
            answers = decode_answers(reply)
        except (ConnectionLost, RequestTimedOut):
            pass  # recorded as an attempt without answers: its outcome is not known
        attempt = Attempt(
            object_key=file.object_key,
            places=places,
            node_id=leader.node_id,
            client=client,
            invoked_s=invoked_s,
            answered_s=time.monotonic(),
            answers=answers,
        )
        self._history.attempts.append(attempt)
        for place, answer in zip(places, answers, strict=False):
            if answer.is_final:
                self._on_acknowledged(file.batches[place].coordinator_id)
        return attempt

    async def read(self, client: str, where: UserPartition, owners: Mapping[UserPartition, int]) -> None:
        """One strict read of the high watermark; only an answered one is recorded."""
        leader = self._routes.leaders.get(owners[where])
        if leader is None:
            await self._routes.refresh()
            return
        task = asyncio.get_running_loop().create_task(self._read(client, where, leader))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.wait({task}, timeout=PATIENCE_S)
        if not task.done() or not task.result():
            await self._routes.refresh()

    async def _read(self, client: str, where: UserPartition, leader: Leader) -> bool:
        request = ListOffsetsRequest(
            topics=(
                ListOffsetsTopic(
                    topic_id=where.topic_id, partitions=(ListOffsetsPartition(partition_index=where.partition, timestamp=LATEST),)
                ),
            ),
            timeout_ms=2_000,
        )
        invoked_s = time.monotonic()
        try:
            with self._lanes.use(client, leader, invoked_s) as lane:
                reply = expect(await self._pool.call(leader.address.lane(lane), request, REPLY_TIMEOUT_S), ListOffsetsResponse)
        except (ConnectionLost, RequestTimedOut):
            return False
        answer = reply.topics[0].partitions[0]
        if answer.error_code in UNKNOWN_CODES:
            self._history.unknowns.append(Unknown("ListOffsets", where, leader.node_id, invoked_s, time.monotonic(), answer.error_code))
            return False
        if answer.error_code in RETRIABLE_CODES:
            return False
        if answer.error_code != 0:
            raise AssertionError(f"ListOffsets of {where} answered {answer.error_code}: {answer.error_message}")
        read = StrictRead(where=where, node_id=leader.node_id, invoked_s=invoked_s, answered_s=time.monotonic(), offset=answer.offset)
        self._history.reads.append(read)
        return True

    async def finish_late(self) -> None:
        """Give late replies a moment, then leave them unknown."""
        late = set(self._under_way)
        if late:
            await asyncio.wait(late, timeout=LATE_REPLIES_S)
        for task in late:
            task.cancel()
        for outcome in await asyncio.gather(*late, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


class FreshLanes:
    """Names of lanes: one of a client and node for as long as replies come, the next one when they do not."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}
        self._waiting: dict[str, list[float]] = {}

    @contextmanager
    def use(self, client: str, leader: Leader, now_s: float) -> Iterator[str]:
        """Count a request as waiting on the lane it is given."""
        who = (client, leader.node_id)
        lane = f"{client}/{self._numbers.get(who, 0)}"
        if now_s - min(self._waiting.get(lane + str(who), []), default=now_s) > FRESH_LANE_S:
            self._numbers[who] = self._numbers.get(who, 0) + 1
            lane = f"{client}/{self._numbers[who]}"
        waiting = self._waiting.setdefault(lane + str(who), [])
        waiting.append(now_s)
        try:
            yield lane
        finally:
            waiting.remove(now_s)


def encode_request(file: SentFile, places: Sequence[int]) -> bytes:
    """The CommitFile request with some batches of a file; the same file and places give the same bytes."""
    rows = []
    for place in places:
        batch = file.batches[place]
        rows.append(
            commit_batch(
                batch.where.topic_id,
                batch.where.partition,
                records=batch.record_count,
                at=batch.byte_offset,
                size=batch.size_bytes,
                request_id=place,
                timestamp_ms=batch.timestamp_ms + place,
                timestamp_type=batch.timestamp_type,
                producer_id=batch.producer_id,
                sequence=batch.base_sequence,
            )
        )
    last = file.batches[-1]
    request = CommitFileBody(
        object_key=file.object_key,
        object_format=1,
        file_size=last.byte_offset + last.size_bytes,
        owner_ids=sorted({batch.coordinator_id for batch in file.batches}),
        batches=batch_rows(rows),
        timeout_ms=5_000,
    )
    return encode_commit_file(request)


def decode_answers(reply: bytes) -> tuple[BatchAnswer, ...]:
    """The answers of a CommitFile response, in the order of the request."""
    rows = decode_commit_response(reply).results
    return tuple(
        BatchAnswer(
            int(row["error_code"]),
            int(row["base_offset"]),
            int(row["append_time_ms"]),
            int(row["log_start_offset"]),
            bool(row["is_duplicate"]),
        )
        for row in rows
    )
