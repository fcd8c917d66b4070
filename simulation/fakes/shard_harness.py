"""Replicas of one metadata partition over one log in memory, stepped by hand.

Owns the log, the clock and every entry on its way; nothing happens unless it is asked for, so that a test or a walk
chooses every order of landing, reporting and reading. Like Kafka it keeps the entries of one producer in order and may
lose, double or delay what a producer leaves behind. Never looks into a shard: it performs effects and feeds events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from coordinator.core.commands import Answer, Command
from coordinator.core.events import (
    Append,
    Assigned,
    Contradicted,
    Delivered,
    Delivery,
    DirectoryChanged,
    Effect,
    EndTerm,
    EntriesRead,
    Event,
    Follow,
    MayClaim,
    NewEntry,
    OpenTerm,
    Recover,
    StateChanged,
    Submitted,
    Ticked,
)
from coordinator.core.files.answers import FileAnswer
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ReadEntry, entry_hash
from coordinator.core.request import Reply, Request
from coordinator.core.shard import Shard
from coordinator.core.state.lookups import OFFSET_END
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.stored_rows import NO_FILES, FileName, FileRow, FileTotals, RunRow, Tombstone
from coordinator.core.view import ShardView
from records.log import Fence
from records.model import Endpoint

START_MS = 1_700_000_000_000
DEADLINE_MS = 10_000


class EmptyColdStore:
    """A state database to which nothing was ever written."""

    def run_covering(self, partition_row: int, offset: int) -> RunRow | None:
        return None

    def run_reaching(self, partition_row: int, from_offset: int, timestamp_ms: int) -> RunRow | None:
        return None

    def max_run(self, partition_row: int, from_offset: int) -> RunRow | None:
        return None

    def file_by_key(self, object_key: str) -> FileRow | None:
        return None

    def files_by_key(self, object_keys: Sequence[str]) -> list[FileRow]:
        return []

    def file_name(self, file_id: int) -> FileName | None:
        return None

    def files_after(self, object_key: str, limit: int) -> list[FileRow]:
        return []

    def tombstone(self, object_key: str) -> Tombstone | None:
        return None

    def empty_files(self, before_ms: int, after: tuple[int, int], limit: int) -> list[FileRow]:
        return []

    def file_changes(self) -> FileTotals:
        return NO_FILES

    def tombstones_after(self, object_key: str, limit: int) -> list[Tombstone]:
        return []

    def written(self) -> None:
        """Do nothing: there is no database."""


@dataclass(slots=True)
class World:
    """The log, the clock, and entries whose producers are gone (`orphans`, one list per producer, in order)."""

    log: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    orphans: list[deque[NewEntry]] = field(default_factory=list)
    replicas: list[HarnessReplica] = field(default_factory=list)
    now_ms: int = START_MS
    next_term_id: int = 1001
    next_token: int = 1
    defers: bool = False
    """Whether replicas leave what their shards deferred to the next event; else they settle behind each one, as the runtime does."""

    def add_replica(self, *, limits: Limits | None = None, partition: int = 0, partition_count: int = 4) -> HarnessReplica:
        """A replica that has read nothing yet."""
        replica = HarnessReplica(self, len(self.replicas), limits or Limits(), partition, partition_count)
        self.replicas.append(replica)
        return replica

    def append(self, key: bytes | None, value: bytes | None) -> int:
        """Append a message of anybody; returns its offset."""
        self.log.append((key, value))
        return len(self.log) - 1

    def entries(self, start: int, stop: int) -> list[ReadEntry]:
        """The messages `[start, stop)` as a reader hands them over."""
        return [ReadEntry(offset, self.now_ms, *self.log[offset]) for offset in range(start, min(stop, len(self.log)))]

    def settle(self) -> None:
        """Let everything under way arrive until nothing moves any more."""
        while any(replica.move() for replica in self.replicas):
            pass


def _unread(world: World) -> ShardState:
    """An empty state, as it is prepared for the first entry of the log."""
    key, value = world.log[0] if world.log else (b"", b"")
    return ShardState(cold=EmptyColdStore(), prepared_for=entry_hash(key or b"", value or b""))


class HarnessReplica:
    """A shard with its producer, its reader and the answers it gave; one answer per token, or an AssertionError."""

    def __init__(
        self, world: World, node_id: int, limits: Limits, partition: int, partition_count: int, loaded_from: ShardView | None = None
    ) -> None:
        """With `loaded_from` it has what the state database of that replica would hold, and reads on from there."""
        self.world = world
        self.node_id = node_id
        self.limits = limits
        self.outbox: deque[NewEntry] = deque()
        self.reports: deque[Delivery] = deque()
        self.term_id: int | None = None
        self.recover: Recover | None = None
        self.cursor = 0 if loaded_from is None else loaded_from.applied_offset + 1
        self.answers: dict[int, Answer] = {}
        self.requests: dict[int, Command] = {}
        self.effects: list[Effect] = []
        self.shard = Shard(
            partition=partition,
            partition_count=partition_count,
            node_id=node_id,
            rack="",
            endpoints=[Endpoint(listener="PLAINTEXT", host=f"node-{node_id}", port=9092)],
            limits=limits,
            state=_unread(world) if loaded_from is None else loaded_from.state,
            fence=Fence() if loaded_from is None else loaded_from.written_fence,
            claim=None if loaded_from is None else loaded_from.claim,
            certain_end=OFFSET_END if loaded_from is None else 0,
        )
        self.view = ShardView(self.shard)

    # ---- events

    def feed(self, event: Event) -> list[Effect]:
        """Feed an event and perform what the shard wants done."""
        effects = self.shard.feed(event, self.world.now_ms)
        self.effects.extend(effects)
        for effect in effects:
            self._perform(effect)
        if not self.world.defers:
            self.settle()
        return effects

    def settle(self) -> None:
        """Apply what the shard has deferred."""
        effects = self.shard.settle()
        self.effects.extend(effects)
        for effect in effects:
            self._perform(effect)

    def submit(self, *commands: Command, timeout_ms: int = DEADLINE_MS) -> list[int]:
        """Send requests in one event; returns their tokens."""
        requests: list[Request] = []
        for command in commands:
            token = self.world.next_token
            self.world.next_token += 1
            self.requests[token] = command
            requests.append(Request(token, command, self.world.now_ms + timeout_ms))
        self.feed(Submitted(requests))
        return [request.token for request in requests if isinstance(request.token, int)]

    def tick(self, passed_ms: int = 0) -> None:
        """Let time pass and say so."""
        self.world.now_ms += passed_ms
        self.feed(Ticked())

    # ---- steps

    def land(self, count: int | None = None) -> None:
        """Let the next entries produced reach the log; their reports are on the way then."""
        for _ in range(len(self.outbox) if count is None else count):
            entry = self.outbox.popleft()
            self.reports.append(Delivery(entry.seq, self.world.append(entry.key, entry.value), None))

    def report(self, count: int | None = None) -> None:
        """Hand over the next delivery reports."""
        count = len(self.reports) if count is None else count
        reports = [self.reports.popleft() for _ in range(count)]
        if self.term_id is not None:
            self.feed(Delivered(self.term_id, reports))

    def read(self, count: int | None = None) -> None:
        """Read on."""
        stop = len(self.world.log) if count is None else self.cursor + count
        entries = self.world.entries(self.cursor, stop)
        self.cursor += len(entries)
        self.feed(EntriesRead(entries))

    def may_claim(self) -> None:
        """Answer the pending `Recover`: here the log ends, membership is proved."""
        self.recover = None
        self.world.next_term_id += 1
        self.feed(MayClaim(len(self.world.log), self.world.next_term_id - 1))

    def lead(self) -> None:
        """Assign the partition and let everything arrive: afterwards this replica leads."""
        self.feed(Assigned())
        self.world.settle()
        if self.shard.phase is not State.LEADING:
            raise AssertionError(f"replica is {self.shard.phase}, not leading")

    def ask(self, *commands: Command) -> list[Answer]:
        """Send requests, let everything arrive, and return the answers."""
        tokens = self.submit(*commands)
        self.world.settle()
        return [self.answers[token] for token in tokens]

    def move(self) -> bool:
        """Let everything of this replica that is under way arrive; returns whether there was anything."""
        moved = bool(self.outbox or self.reports or self.recover is not None or self.cursor < len(self.world.log))
        self.land()
        if self.reports:
            self.report()
        if self.cursor < len(self.world.log):
            self.read()
        if self.recover is not None:
            self.may_claim()
        return moved and self.shard.phase is not State.FAILED

    # ---- effects

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Reply():
                self._note_answer(effect)
            case OpenTerm():
                if self.term_id is not None:
                    raise AssertionError(f"term {effect.term_id} opened inside term {self.term_id}")
                self.term_id = effect.term_id
                self.outbox.append(effect.claim)
            case Append():
                if effect.term_id != self.term_id:
                    raise AssertionError(f"entries of term {effect.term_id} in term {self.term_id}")
                self.outbox.extend(effect.entries)
            case EndTerm():
                if self.outbox:
                    self.world.orphans.append(self.outbox)
                self.outbox, self.term_id = deque(), None
                self.reports.clear()
            case Follow():
                self.cursor = effect.next_offset
            case Recover():
                self.recover = effect
            case StateChanged() | DirectoryChanged() | Contradicted():
                pass
            case _:
                assert_never(effect)

    def _note_answer(self, reply: Reply) -> None:
        token = reply.token
        if not isinstance(token, int) or token not in self.requests:
            raise AssertionError(f"answer to {token!r}, which nobody asked")
        if token in self.answers:
            raise AssertionError(f"request {token} was answered twice: {self.answers[token]} and {reply.answer}")
        # Which way the leader took to an answer is nothing a client could tell.
        self.answers[token] = reply.answer.result() if isinstance(reply.answer, FileAnswer) else reply.answer

    def unanswered(self) -> Sequence[int]:
        """Tokens of requests without an answer yet."""
        return [token for token in self.requests if token not in self.answers]
