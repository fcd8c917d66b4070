"""Which batches are past retention: looks at a replica that writes its state database, against the rule on a plain list."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.core.reads.retention import RUNS_A_LOOK, Bound, Known, look_at
from coordinator.kafka.topic_configs import Retention
from records.committed_files.codec import CommittedBatch, FileCommitted
from simulation.fakes.state_store import MemoryStateStores
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID, Store
from tests.sqlite.small_records import OTHER_TOPIC, TOPIC, deleted, started

APPENDED_MS = 1_000_000
OpenStore = Callable[[], Store]


@pytest.fixture(params=["sqlite", "memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    stores = StateDatabases(tmp_path, boot_id="boot") if request.param == "sqlite" else MemoryStateStores()
    return lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)


class Batch(NamedTuple):
    """A batch of partition 0. `time_ms` is what the client says; `append_time_ms` that of its file."""

    base: int
    records: int
    size: int
    time_ms: int
    is_append_time: bool
    append_time_ms: int

    @property
    def end(self) -> int:
        return self.base + self.records

    @property
    def effective_ms(self) -> int:
        return self.append_time_ms if self.is_append_time or self.time_ms < 0 else self.time_ms


class Log:
    """A replica with one partition, and its live batches."""

    def __init__(self, open_store: OpenStore) -> None:
        self.replica = started(open_store)
        self.live: list[Batch] = []
        self.log_start = 0
        self.end = 0
        self.offset = 1
        self.known: Known | None = None

    def commit(self, *batches: tuple[int, int, int, bool], append_time_ms: int = APPENDED_MS) -> None:
        """One file with batches of partition 0 as (records, bytes, time, is of append time)."""
        lines, at = [], 0
        for count, size, time_ms, is_append_time in batches:
            lines.append(CommittedBatch(TOPIC, 0, 0, self.end, count, at, size, time_ms, int(is_append_time)))
            self.live.append(Batch(self.end, count, size, time_ms, is_append_time, append_time_ms))
            self.end += count
            at += size
        self._apply(
            FileCommitted(
                object_key=f"k{self.offset}",
                object_format=1,
                file_size=at,
                uploader_broker_id=1,
                owner_ids=[0],
                created_ms=append_time_ms,
                append_time_ms=append_time_ms,
                content_hash=b"c" * 16,
                batches=lines,
            )
        )

    def delete(self, before: int) -> None:
        self._apply(deleted(0, before))
        self.log_start = max(self.log_start, before)
        self.live = [one for one in self.live if one.end > before]

    def _apply(self, record: object) -> None:
        self.replica.apply([record], self.offset)  # type: ignore[list-item]
        self.offset += 1

    def enforce(self, retention: Retention, now_ms: int) -> tuple[int, int]:
        """Look until there is nothing more; delete what is found. Returns the batches and bytes that went."""
        batches = size_bytes = 0
        for _ in range(10_000):
            look = look_at(self.replica.state, TOPIC, 0, retention, Bound(now_ms), self.known)
            assert look is not None
            assert look.log_start == self.log_start
            self.known = look.known
            if look.batches:
                assert look.delete_to > look.log_start
                batches, size_bytes = batches + look.batches, size_bytes + look.size_bytes
                self.delete(look.delete_to)
            elif not look.has_more:
                return batches, size_bytes
        raise AssertionError("the looks do not end")


def expected(live: list[Batch], retention: Retention, now_ms: int) -> int:
    """How many of the batches go: Kafka's rules, with a batch for a segment, one after the other until neither finds more."""
    gone, before = 0, -1
    while gone != before:
        before = gone
        while retention.ms >= 0 and gone < len(live) and live[gone].effective_ms < now_ms - retention.ms:
            gone += 1
        left = sum(one.size for one in live[gone:])
        while retention.size_bytes >= 0 and gone < len(live) and left - live[gone].size >= retention.size_bytes:
            left -= live[gone].size
            gone += 1
    return gone


@pytest.mark.parametrize("seed", range(12))
def test_looks_find_what_the_rules_say(open_store: OpenStore, seed: int) -> None:
    rng = random.Random(seed)
    log = Log(open_store)
    now_ms = APPENDED_MS
    for _ in range(60):
        now_ms += rng.randrange(50)
        for _ in range(rng.randrange(4)):
            times = [rng.choice([-1, now_ms - rng.randrange(400), now_ms + rng.randrange(50)]) for _ in range(rng.randint(1, 5))]
            log.commit(*((rng.randint(1, 3), rng.randint(1, 90), time, rng.random() < 0.3) for time in times), append_time_ms=now_ms)
        if rng.random() < 0.4:
            log.replica.flush()
        if rng.random() < 0.2:
            log.replica.trim()
        if rng.random() < 0.1:
            log.delete(rng.randint(log.log_start, log.end))
        if rng.random() < 0.1:
            log.known = None
        retention = Retention(rng.choice([-1, 0, 100, 300]), rng.choice([-1, 0, 200, 1000]))
        gone = expected(log.live, retention, now_ms)
        sizes = [one.size for one in log.live[:gone]]
        after = log.live[gone:]
        assert log.enforce(retention, now_ms) == (len(sizes), sum(sizes))
        assert log.live == after


def test_a_young_batch_keeps_all_behind_it(open_store: OpenStore) -> None:
    log = Log(open_store)
    log.commit((1, 10, 100, False), (1, 10, 900, False), (1, 10, 200, False))
    assert log.enforce(Retention(ms=100), 1000) == (1, 10)
    assert log.enforce(Retention(ms=100), 1001) == (2, 20)


def test_a_batch_without_a_time_of_its_own_has_that_of_its_file(open_store: OpenStore) -> None:
    log = Log(open_store)
    log.commit((1, 10, -1, False), (1, 10, 5, True), append_time_ms=1000)
    log.commit((1, 10, -1, False), append_time_ms=2000)
    log.replica.flush()
    assert log.enforce(Retention(ms=0), 1000) == (0, 0)
    assert log.enforce(Retention(ms=0), 2000) == (2, 20)
    assert log.enforce(Retention(ms=0), 2001) == (1, 10)


def test_as_in_kafka_a_limit_of_bytes_is_never_undercut(open_store: OpenStore) -> None:
    log = Log(open_store)
    log.commit(*[(1, 40, 5, False)] * 5)
    assert log.enforce(Retention(size_bytes=100), 0) == (2, 80)
    log.commit((1, 19, 5, False))
    assert log.enforce(Retention(size_bytes=100), 0) == (0, 0)
    log.commit((1, 1, 5, False))
    assert log.enforce(Retention(size_bytes=100), 0) == (1, 40)
    assert log.enforce(Retention(size_bytes=0), 0) == (4, 100)


def test_a_look_at_very_many_batches_is_bounded(open_store: OpenStore) -> None:
    log = Log(open_store)
    for _ in range(3 * RUNS_A_LOOK):
        log.commit((1, 10, 5, False))
    looks = []
    known: Known | None = None
    while not looks or looks[-1].has_more:
        look = look_at(log.replica.state, TOPIC, 0, Retention(ms=0), Bound(10), known)
        assert look is not None
        looks.append(look)
        known = look.known  # as in a dry run: nothing is deleted
    assert [one.batches for one in looks] == [RUNS_A_LOOK] * 3 + [0]
    assert [one.log_start for one in looks[1:]] == [one.delete_to for one in looks[:-1]]


@pytest.mark.parametrize("retention", [Retention(ms=0), Retention(size_bytes=30), Retention(ms=0, size_bytes=30)], ids=str)
@pytest.mark.parametrize("is_written", [True, False])
def test_looks_by_the_same_bound_leave_what_came_since(open_store: OpenStore, retention: Retention, is_written: bool) -> None:
    log = Log(open_store)
    log.commit(*[(2, 10, 5, False)] * 10)
    look = look_at(log.replica.state, TOPIC, 0, retention, Bound(10), None)
    while look is not None and look.has_more:
        assert look.bound == Bound(10, 20)
        log.commit(*[(2, 10, 5, False)] * 3)
        if is_written:
            log.replica.flush()
        if look.batches:
            log.delete(look.delete_to)
        look = look_at(log.replica.state, TOPIC, 0, retention, look.bound, look.known)
    assert log.log_start == (14 if retention.ms < 0 else 20)
    assert len(log.live) >= 3


def test_what_is_not_there_is_not_looked_at(open_store: OpenStore) -> None:
    log = Log(open_store)
    assert look_at(log.replica.state, OTHER_TOPIC, 0, Retention(ms=0), Bound(10), None) is None
    assert log.enforce(Retention(0, 0), 10) == (0, 0)


def test_what_was_counted_is_not_read_again(open_store: OpenStore) -> None:
    log = Log(open_store)
    log.commit(*[(1, 40, 5, False)] * 5)
    log.enforce(Retention(ms=-1, size_bytes=1000), 0)
    assert log.known == Known(0, 5, 200)
    log.commit((2, 7, 5, False))
    log.enforce(Retention(ms=-1, size_bytes=1000), 0)
    assert log.known == Known(0, 7, 207)
    log.delete(3)
    log.enforce(Retention(ms=100, size_bytes=1000), 50)
    assert log.known == Known(3, 7, 87, 5, 4)
