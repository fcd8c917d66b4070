"""The vector path gives the same entries, answers and state as the readable path, whatever stands in a group."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import coordinator.core.follower as follower_module
import coordinator.core.group as group
from coordinator.core.commands import (
    CommitFile,
    CommitResult,
    DeletePoint,
    DeleteRecords,
    ListOffsets,
    OffsetQuery,
    PlacePartitions,
    TopicShare,
)
from coordinator.core.events import (
    Append,
    Assigned,
    Delivered,
    Delivery,
    Effect,
    EntriesRead,
    MayClaim,
    OpenTerm,
    Reply,
    Request,
    Submitted,
)
from coordinator.core.files.commit_vector import decide_block
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ReadEntry
from coordinator.core.reads.queries import list_offset
from coordinator.core.shard import Shard
from coordinator.core.state.replica_state import ShardState
from coordinator.core.view import ShardView
from coordinator.kafka.batches import BATCH, SEQUENCE_MASK, partition_key
from coordinator.kafka.timestamps import MAX_TIMESTAMP
from coordinator.testing.state_store import MemoryStateStore
from records.log import Fence

NOW_MS = 1_760_000_000_000
TOPICS = [bytes([n]) * 16 for n in range(1, 4)]
PARTITIONS = 3


def new_shard() -> Shard:
    return Shard(
        partition=0,
        partition_count=2,
        node_id=1,
        rack="",
        endpoints=[],
        limits=Limits(group_batches_max=10_000),
        state=ShardState(cold=MemoryStateStore().reader()),
        fence=Fence(),
        claim=None,
        certain_end=0,
    )


class Leader:
    """A leading shard over a log in memory; keeps what it wrote and what it answered."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.answers: list[tuple[object, object]] = []
        self.keys: list[bytes] = []
        self.shard = new_shard()
        self.view = ShardView(self.shard)
        self.perform(self.shard.feed(Assigned(), NOW_MS))
        self.perform(self.shard.feed(MayClaim(0, 77), NOW_MS))
        shares = [TopicShare(topic_id=t, name=f"t{t[0]}", first_partition=0, num_partitions=PARTITIONS, order_offset=1) for t in TOPICS]
        self.submit([PlacePartitions(shares=shares)], NOW_MS)

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case OpenTerm():
                    self.log.append(effect.claim.value)
                    self.keys.append(effect.claim.key)
                    self.perform(self.shard.feed(EntriesRead([ReadEntry(0, NOW_MS, effect.claim.key, effect.claim.value)]), NOW_MS))
                case Append():
                    first = len(self.log)
                    self.log += [entry.value for entry in effect.entries]
                    self.keys += [entry.key for entry in effect.entries]
                    reports = [Delivery(entry.seq, first + at, None) for at, entry in enumerate(effect.entries)]
                    self.perform(self.shard.feed(Delivered(effect.term_id, reports), NOW_MS))
                case Reply():
                    answer = effect.answer
                    plain = answer.result() if hasattr(answer, "result") else answer
                    self.answers.append((effect.token, plain))

    def submit(self, commands: list[object], now_ms: int) -> None:
        requests = [Request(at, command, now_ms + 60_000) for at, command in enumerate(commands)]  # type: ignore[arg-type]
        self.perform(self.shard.feed(Submitted(requests), now_ms))
        self.perform(self.shard.settle())

    def fingerprint(self) -> object:
        """Everything decisions depend on."""
        hot = self.view.state.hot
        partitions = {
            key: (
                hot.partitions.high_watermark.cells[row],
                hot.partitions.log_start.cells[row],
                # What is kept of the greatest timestamp is only good until its batch is deleted; the answer is what counts.
                list_offset(self.view.state, OffsetQuery(topic_id=key[:16], partition=key[19], timestamp=MAX_TIMESTAMP)),
            )
            for key, row in hot.partitions.index.items()
        }
        producers = {
            (hot.partitions.keys[owner], producer): (
                hot.producers.epoch.cells[row],
                hot.producers.last_append.cells[row],
                list(hot.producers.remembered(row)),
            )
            for owner, rows in hot.producers.index.items()
            for producer, row in rows.items()
        }
        rows = {
            key: [tuple(row) for part in self.view.state.rows_from(row_number, 0) for row in part.tolist()]
            for key, row_number in hot.partitions.index.items()
        }
        files = {row.object_key: row for row in self.view.state.files_after("", 10_000)}
        return partitions, producers, rows, files, hot.log_time_ms


class Traffic:
    """Random commits, most of them plain, some with everything that can be wrong."""

    def __init__(self, seed: int, oddity: float) -> None:
        self.rng = random.Random(seed)
        self.oddity = oddity
        self.sequences: dict[tuple[bytes, int], int] = {}
        self.sent: list[CommitFile] = []
        self.files = 0

    def odd(self) -> bool:
        return self.rng.random() < self.oddity

    def commit(self) -> CommitFile:
        rng = self.rng
        if self.sent and self.odd():
            return rng.choice(self.sent)
        self.files += 1
        rows = np.zeros(rng.choice([1, 2, 5, 20, 60]), BATCH)
        at = 0
        for row in rows:
            at = self._batch(row, at)
        owners = [0] if not self.odd() else rng.choice([[0, 1], [1], [0, 0], [], [5]])
        command = CommitFile(
            object_key=f"wal/{self.files}" if not self.odd() else "",
            object_format=1 if not self.odd() else 7,
            file_size=at if not self.odd() else at - 1,
            owner_ids=owners,
            batches=rows,
            uploader_broker_id=rng.choice([-1, 3]),
            created_ms=-1 if not self.odd() else NOW_MS - 10_000_000,
        )
        self.sent.append(command)
        return command

    def _batch(self, row: np.void, at: int) -> int:
        rng = self.rng
        size = rng.randrange(1, 70_000)
        records = rng.choice([1, 1, 7, 300])
        key = partition_key(rng.choice(TOPICS), rng.randrange(PARTITIONS))
        if self.odd():
            key = partition_key(rng.choice([*TOPICS, b"\xff" * 16]), rng.randrange(PARTITIONS + 2))
        row["magic"] = 2 if not self.odd() else 1
        row["request_id"] = rng.randrange(1000)
        row["topic_partition"] = key
        gap = rng.choice([0, 0, 0, 11]) if not self.odd() else rng.choice([-5, 100])
        row["byte_offset"], row["size"] = at + gap, size if not self.odd() else rng.choice([0, -1])
        first = rng.choice([0, 5, 2**62])
        row["base_offset"], row["last_offset"] = first, first + records - 1
        if self.odd():
            row["last_offset"] = rng.choice([-1, first - 1, -(2**62)])
        row["timestamp_type"] = rng.choice([0, 0, 0, 1]) if not self.odd() else rng.choice([2, -1])
        row["max_timestamp"] = NOW_MS - rng.randrange(-500, 5_000) if not self.odd() else rng.choice([-2, -1, 0])
        row["producer_id"] = row["producer_epoch"] = row["base_sequence"] = row["last_sequence"] = -1
        if rng.random() < 0.5:
            self._producer(row, key, records)
        return at + gap + size

    def _producer(self, row: np.void, key: bytes, records: int) -> None:
        rng = self.rng
        producer = rng.randrange(3)
        first = self.sequences.get((key, producer), rng.choice([0, 17, SEQUENCE_MASK - 3]))
        if self.odd():
            first = rng.choice([0, (first + 3) & SEQUENCE_MASK, max(-4, first - records), -4])
        last = (first + records - 1) & SEQUENCE_MASK
        self.sequences[(key, producer)] = (last + 1) & SEQUENCE_MASK
        row["producer_id"], row["producer_epoch"] = producer, 0 if not self.odd() else rng.choice([1, 2, -1])
        row["base_sequence"], row["last_sequence"] = first, last if not self.odd() else last - 1

    def group(self) -> list[object]:
        commands: list[object] = [self.commit() for _ in range(self.rng.choice([1, 3, 12]))]
        for _ in range(self.rng.choice([0, 0, 1, 2])):
            topic, partition = self.rng.choice(TOPICS), self.rng.randrange(PARTITIONS)
            read = ListOffsets(
                queries=[OffsetQuery(topic_id=topic, partition=partition, timestamp=self.rng.choice([-1, -2, -3, NOW_MS - 100]))]
            )
            delete = DeleteRecords(points=[DeletePoint(topic_id=topic, partition=partition, offset=self.rng.choice([-1, 3, 40]))])
            commands.insert(self.rng.randrange(len(commands) + 1), self.rng.choice([read, read, delete]))
        return commands


@pytest.fixture
def block_batches_min(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Sets from how many batches on a group is decided as a block."""
    return monkeypatch


def run(patch: pytest.MonkeyPatch, batches_min: int, seed: int, oddity: float) -> Leader:
    patch.setattr(group, "BLOCK_BATCHES_MIN", batches_min)
    leader, traffic = Leader(), Traffic(seed, oddity)
    for step in range(12):
        leader.submit(traffic.group(), NOW_MS + step * 3)
    return leader


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), oddity=st.sampled_from([0.0, 0.002, 0.02, 0.2]))
def test_vector_path_equals_readable_path(block_batches_min: pytest.MonkeyPatch, seed: int, oddity: float) -> None:
    readable = run(block_batches_min, 10**9, seed, oddity)
    vector = run(block_batches_min, 1, seed, oddity)
    assert vector.log == readable.log
    # Answers that need no entry come at once, before those of the group: only the order among all may differ.
    assert sorted(map(repr, vector.answers)) == sorted(map(repr, readable.answers))
    assert vector.fingerprint() == readable.fingerprint()
    assert vector.view.commit_counts == readable.view.commit_counts


def follow(leader: Leader, chunk: int) -> Leader:
    """Another replica that reads the leader's log, `chunk` entries at a time."""
    follower = Leader.__new__(Leader)
    follower.log, follower.answers = [], []
    follower.shard = new_shard()
    follower.view = ShardView(follower.shard)
    entries = [ReadEntry(at, NOW_MS, key, value) for at, (key, value) in enumerate(zip(leader.keys, leader.log, strict=True))]
    for start in range(0, len(entries), chunk):
        follower.shard.feed(EntriesRead(entries[start : start + chunk]), NOW_MS)
    assert follower.view.failure is None
    return follower


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    oddity=st.sampled_from([0.0, 0.01, 0.1]),
    chunk=st.sampled_from([1, 7, 1000]),
    bytes_max=st.sampled_from([1, 1000, follower_module.REPLAY_BYTES_MAX]),
    always_blocks=st.booleans(),
)
def test_follower_that_applies_blocks_equals_the_leader(seed: int, oddity: float, chunk: int, bytes_max: int, always_blocks: bool) -> None:
    leader, traffic = Leader(), Traffic(seed, oddity)
    for step in range(12):
        leader.submit(traffic.group(), NOW_MS + step * 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower_module, "REPLAY_BYTES_MAX", bytes_max)
        if always_blocks:
            patch.setattr(follower_module, "REPLAY_BLOCK_BYTES_MIN", 1)
            patch.setattr(follower_module, "BLOCK_BATCHES_MIN", 1)
        assert follow(leader, chunk).fingerprint() == leader.fingerprint()


def test_plain_group_takes_the_vector_path(block_batches_min: pytest.MonkeyPatch) -> None:
    decided: list[int] = []
    original = decide_block

    def counting(*arguments: object) -> object:
        block = original(*arguments)  # type: ignore[arg-type]
        decided.append(getattr(block, "batches", -1))
        return block

    block_batches_min.setattr(group, "decide_block", counting)
    leader = run(block_batches_min, 1, 5, 0.0)
    assert decided
    assert min(decided) > 0
    assert all(
        isinstance(answer, CommitResult) and not any(answer.errors) for _, answer in leader.answers if isinstance(answer, CommitResult)
    )
