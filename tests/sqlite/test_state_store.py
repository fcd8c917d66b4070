"""The contract of a state store, for the SQLite database and its twin in memory: a replica that writes, restarts and reads
again is the replica that never did."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.testing.state_store import MemoryStateStore, MemoryStateStores
from tests.sqlite.random_log import LogModel
from tests.sqlite.replicas import CLUSTER_ID, PARTITION, TOPIC_ID, Replica, Store, answers

OpenStore = Callable[[], Store]


@pytest.fixture(params=["sqlite", "memory"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    stores = StateDatabases(tmp_path, boot_id="boot") if request.param == "sqlite" else MemoryStateStores()
    return lambda: stores.open(PARTITION, CLUSTER_ID, TOPIC_ID)


def memory_replica() -> Replica:
    store = MemoryStateStore()
    return Replica(lambda: store)


@pytest.mark.parametrize("seed", range(25))
def test_flush_points_and_restarts_change_neither_answers_nor_digest(open_store: OpenStore, seed: int) -> None:
    rng = random.Random(seed)
    model = LogModel(random.Random(seed + 1000), files_per_record=rng.choice([0.5, 0.8]))
    entries = []
    subject, plain = Replica(open_store), memory_replica()
    flush_chance = rng.choice([0.05, 0.3, 0.8])
    in_flight = False
    for offset in range(120):
        record = model.next_record()
        entries.append(record)
        subject.apply([record], offset)
        plain.apply([record], offset)
        if rng.random() < 0.3:
            subject.state.trim_step(rows_max=rng.choice([1, 3, 1000]))
        if in_flight and rng.random() < 0.5:
            subject.state.written()
            in_flight = False
        elif not in_flight and rng.random() < flush_chance:
            subject.freeze_and_write()
            in_flight = True
        if rng.random() < 0.05:
            subject.restart(clean=rng.random() < 0.5)
            in_flight = False
            for again in range(subject.state.applied_offset + 1, offset + 1):
                subject.apply([entries[again]], again)
        if offset % 20 == 19:
            check_equal(subject, plain, model)
    if in_flight:
        subject.state.written()
    assert subject.digest() == plain.digest()
    subject.restart()
    check_equal(subject, plain, model)
    assert subject.digest() == plain.digest()
    subject.store.close(clean=True)


def check_equal(subject: Replica, plain: Replica, model: LogModel) -> None:
    subject.trim()
    plain.trim()
    expected = answers(plain.state, model)
    found = answers(subject.state, model)
    for question, answer in expected.items():
        assert found[question] == answer, question
    for key, live in model.live.items():
        file = subject.state.find_file(key)
        assert file is not None
        assert file.live_batches == live, key
