"""Produce on virtual time: a fake service that decides commits as coordinators do, the store of the simulator, sessions and clients."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

import numpy as np

from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.adapters.server.request_memory import RequestMemory
from coordinator.app.process.timers import shared_delay_s
from coordinator.client.model import CommitOutcome, FileStandingAt
from coordinator.core.commands import FileStanding
from coordinator.kafka.acls import AclOperation
from coordinator.kafka.errors import ErrorCode
from coordinator.security.principal import ANONYMOUS
from gateway.ports import DisklessTopic, Session
from gateway.produce.buffer import BufferLimits
from gateway.produce.stats import ProduceStats
from gateway.produce.taker import CommittedFile, ProduceHooks, ProduceTaker
from simulation.fakes.objects import FakeObjectStore, StoreFault
from simulation.fakes.snapshots import FakeObjects
from tests.gateway.produce.kio_produce import Result, decode_answer, encode_request
from tests.virtual_loop import VirtualLoop

T = TypeVar("T")
ORDERS, OTHERS = b"o" * 16, b"t" * 16
START_MS = 1_700_000_000_000
VERSION = 12
NODE_ID = 1001


class LateTimers(VirtualLoop):
    """A loop on virtual time whose long timers come as late as those of a process."""

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        now_s = self.time()
        return super().call_at(now_s + shared_delay_s(now_s, when - now_s), callback, *args, context=context)


class FakeCatalogue:
    """Implements `Catalogue`: two topics, whose partitions have coordinators in turn."""

    def __init__(self, coordinators: int = 4, partitions: int = 8, **settings: str) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        owners = tuple(partition % coordinators for partition in range(partitions))
        self.topics = [
            DisklessTopic("orders", ORDERS, partitions, named, owners),
            DisklessTopic("others", OTHERS, partitions, {}, owners),
        ]

    def named(self, name: str) -> DisklessTopic | None:
        return next((one for one in self.topics if one.name == name), None)

    def identified(self, topic_id: bytes) -> DisklessTopic | None:
        return next((one for one in self.topics if one.topic_id == topic_id), None)

    async def refreshed(self) -> None:
        """Nothing changes."""


class FakeRights:
    """Implements `Rights`: everything is allowed but what is `forbidden_topics`; asking takes `takes_s`, None when it is known."""

    def __init__(self) -> None:
        self.forbidden_topics: frozenset[str] = frozenset()
        self.takes_s: float | None = None
        self.error: Exception | None = None

    def known(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str] | None:
        assert operation is AclOperation.WRITE
        return None if self.takes_s is not None else self.forbidden_topics.intersection(topics)

    async def forbidden(self, session: Session, topics: Collection[str], operation: AclOperation) -> frozenset[str]:
        await asyncio.sleep(self.takes_s or 0)
        if self.error is not None:
            raise self.error
        return self.forbidden_topics.intersection(topics)


class FakeService:
    """Commits files as coordinators do: shares as a whole, sequences of producers, a key once.

    `behave` may say for one attempt at some coordinators what goes wrong: "lost" takes effect without an answer, "never" does neither
    before the time is over, "down" is refused at once.
    """

    def __init__(self) -> None:
        self.logs: dict[bytes, list[tuple[str, int]]] = defaultdict(list)
        """By partition: file and place of each batch."""
        self.next_offsets: dict[bytes, int] = defaultdict(int)
        self.sequences: dict[tuple[bytes, int], tuple[int, dict[int, int]]] = {}
        self.known: dict[tuple[str, int], tuple[bytes, list[tuple[int, int, bool]]]] = {}
        self.behave: Callable[[str, int, int], str] = lambda _key, _coordinator, _attempt: "served"
        self.attempts: dict[tuple[str, int], int] = defaultdict(int)
        self.calls: list[tuple[float, str, tuple[int, ...]]] = []
        self.fenced: list[tuple[str, int]] = []
        self.takes_s = 0.005
        self.takes_unknown = False
        """Whether a producer without a batch may begin with any sequence, as in a partition that has records."""
        self.gone: set[bytes] = set()
        """Partitions that were deleted."""
        self.refused: dict[bytes, tuple[int, str]] = {}
        """Partitions whose batches are refused, with code and message."""

    async def commit_file(
        self,
        object_key: str,
        file_size_bytes: int,
        batches: Any,
        *,
        owner_ids: Sequence[int] | None = None,
        coordinator_ids: Sequence[int] | None = None,
        uploader_broker_id: int = -1,
        timeout_ms: int | None = None,
    ) -> CommitOutcome:
        assert uploader_broker_id == NODE_ID
        assert owner_ids is not None
        assert coordinator_ids is not None
        assert timeout_ms is not None
        shares = sorted(set(coordinator_ids))
        self.calls.append((asyncio.get_running_loop().time(), object_key, tuple(shares)))
        rows = [(-1, -1, False)] * len(batches)
        worst = self.takes_s
        for coordinator in shares:
            mine = [row for row, one in enumerate(coordinator_ids) if one == coordinator]
            behaviour = self.behave(object_key, coordinator, self.attempts[object_key, coordinator])
            self.attempts[object_key, coordinator] += 1
            answers = [(int(ErrorCode.COORDINATOR_NOT_AVAILABLE), -1, False)] * len(mine)
            if behaviour in ("served", "lost"):
                answers = self._decide(object_key, coordinator, batches[mine], owner_ids)
            if behaviour in ("lost", "never"):
                worst = timeout_ms / 1000
                answers = [(int(ErrorCode.REQUEST_TIMED_OUT), -1, False)] * len(mine)
            for row, answer in zip(mine, answers, strict=True):
                rows[row] = answer
        await asyncio.sleep(worst)
        codes = np.array([code for code, _, _ in rows], np.int16)
        is_append_time = (batches["timestamp_type"] == 1) & (codes == 0)
        return CommitOutcome(
            object_key=object_key,
            owner_ids=tuple(owner_ids),
            error_codes=codes,
            base_offsets=np.array([base for _, base, _ in rows], np.int64),
            append_times_ms=np.where(is_append_time, START_MS + 77, -1),
            log_start_offsets=np.where(codes == 0, 0, -1),
            duplicates=np.array([is_duplicate for _, _, is_duplicate in rows]),
            messages={row: f"refused by {coordinator_ids[row]}" for row in np.flatnonzero(codes).tolist()},
        )

    def _decide(self, key: str, coordinator: int, batches: Any, owner_ids: Sequence[int]) -> list[tuple[int, int, bool]]:
        content = batches.tobytes() + bytes(str(owner_ids), "ascii")
        known = self.known.get((key, coordinator))
        if known is not None:
            assert known[0] == content, "a share was repeated with another content"
            return known[1]
        keys = [one.item() for one in batches["topic_partition"]]
        if any(one in self.gone for one in keys):
            pending = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return [(int(ErrorCode.UNKNOWN_TOPIC_ID) if one in self.gone else pending, -1, False) for one in keys]
        answers = [self._judge(key, place, one, row) for place, (one, row) in enumerate(zip(keys, batches, strict=True))]
        self.known[key, coordinator] = content, answers
        return answers

    def _judge(self, key: str, place: int, partition: bytes, row: Any) -> tuple[int, int, bool]:
        if partition in self.refused:
            return self.refused[partition][0], -1, False
        count, first = int(row["last_offset"]) + 1, int(row["base_sequence"])
        if first >= 0:
            due, offsets = self.sequences.get((partition, int(row["producer_id"])), (0, {}))
            if first in offsets:
                return 0, offsets[first], True
            if first != due and (offsets or not self.takes_unknown):
                return int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1, False
            offsets[first] = self.next_offsets[partition]
            self.sequences[partition, int(row["producer_id"])] = first + count, offsets
        base = self.next_offsets[partition]
        self.next_offsets[partition] += count
        self.logs[partition].append((key, int(row["byte_offset"])))
        return 0, base, False

    async def fence_files(
        self, coordinator_id: int, object_keys: Sequence[str], created_ms: Sequence[int], *, timeout_ms: int | None = None
    ) -> Sequence[FileStandingAt]:
        self.fenced += [(key, coordinator_id) for key in object_keys]
        return [FileStandingAt(object_key=key, standing=FileStanding.FENCED) for key in object_keys]


class FakeSession:
    """Implements `Session`, as far as Produce uses it."""

    relayed_broker_id = None
    upstream: Any = None
    zone = None
    listener = "PLAINTEXT"
    address = "10.0.0.1"

    def __init__(self, connection_id: int) -> None:
        self.connection_id = connection_id
        self.client_id: str | None = f"client-{connection_id}"


class World:
    """A taker with everything that it stands on."""

    def __init__(self, limits: BufferLimits | None = None, catalogue: FakeCatalogue | None = None, memory: int = 1 << 30) -> None:
        self.loop = asyncio.get_running_loop()
        self.objects = FakeObjects(now_ms=self.now_ms)
        self.fault_of: Callable[[str], StoreFault] = lambda _call: StoreFault.NONE
        self.store = FakeObjectStore(
            self.objects, fault_of=lambda call: self.fault_of(call), later=lambda work: self.loop.call_later(3, work), stalled_s=30.0
        )
        self.service, self.rights = FakeService(), FakeRights()
        self.stored: list[tuple[str, bytes]] = []
        self.committed: list[CommittedFile] = []
        self.memory = RequestMemory(memory)
        self.stats = ProduceStats()
        self.taker = ProduceTaker(
            catalogue or FakeCatalogue(),
            self.rights,
            self.service,
            self.store,
            memory=self.memory,
            stats=self.stats,
            limits=limits,
            hooks=ProduceHooks(
                stored=lambda key, data: self.stored.append((key, data)),
                committed=self.committed.append,
            ),
            now_ms=self.now_ms,
            rng=random.Random(0),
            uploader_id=NODE_ID,
        )
        self._connections = 0

    def now_ms(self) -> int:
        return START_MS + round(self.loop.time() * 1000)

    def client(self) -> FakeClient:
        self._connections += 1
        return FakeClient(self, FakeSession(self._connections))


class FakeClient:
    """One connection."""

    def __init__(self, world: World, session: FakeSession) -> None:
        self._world = world
        self.session = session

    def send(
        self,
        *topics: tuple[str | bytes, Sequence[tuple[int, bytes | None]]],
        version: int = VERSION,
        acks: int = -1,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
    ) -> asyncio.Future[bytes | None]:
        """Send a request; the future has the body of its answer."""
        body = encode_request(version, topics, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id)
        return self.send_body(body, version)

    def send_body(self, body: bytes, version: int = VERSION) -> asyncio.Future[bytes | None]:
        loop = self._world.loop
        answer: asyncio.Future[bytes | None] = loop.create_future()
        peer = Peer(self.session.connection_id, "PLAINTEXT", "10.0.0.1", ANONYMOUS)
        data = b"header" + body
        request = IncomingRequest(0, version, 1, self.session.client_id, data, 6, 0, loop.time(), peer)
        self._world.taker.take(self.session, request, answer.set_result)
        return answer

    async def ask(self, *topics: tuple[str | bytes, Sequence[tuple[int, bytes | None]]], **options: Any) -> dict[str | bytes, list[Result]]:
        """Send a request, and wait for the results of its partitions by topic."""
        body = await self.send(*topics, **options)
        assert body is not None
        return decode_answer(options.get("version", VERSION), body)[0]


def results(body: bytes | None, version: int = VERSION) -> list[Result]:
    """All results of an answer."""
    assert body is not None
    return [one for found in decode_answer(version, body)[0].values() for one in found]


async def every(answers: Sequence[Awaitable[bytes | None]]) -> list[list[Result]]:
    """The results of several answers."""
    return [results(body) for body in await asyncio.gather(*answers)]
