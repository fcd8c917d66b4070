"""Moves in the monitor's store: the steps that coordinators log are those that metadata partition 0 ordered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from records import model
from records.levels import LEVEL_LATEST
from spark_jobs.snapshots.content import read_content
from spark_jobs.store.merge_moves import MOVES_KEPT
from spark_jobs.store.merge_orders import SETTLED_MS
from spark_jobs.store.sink import Store
from tests.records.examples import RESTORED
from tests.spark.planted_violations import adopted
from tests.spark.scan_logs import LogWriter, findings, follow, rows
from tests.spark.test_verify_from_snapshot import snapshot_of

ORDERS = bytes([8] * 16)


class Service:
    """The logs of three coordinators. Topic `orders` has partitions 0 and 1 at coordinator 1 and partition 2 at coordinator 2."""

    def __init__(self) -> None:
        self.logs = [LogWriter(partitions=0) for _ in range(3)]
        for log in self.logs:
            log.entries.clear()
            log.epoch, log.level = 0, 1
            log.claim()
            if log is self.logs[0]:
                log.add(model.FeatureLevelSet(level=LEVEL_LATEST))
            log.level = LEVEL_LATEST
        order = self.place((0, 2, 1), (2, 1, 2))
        for kpart, first, count in ((1, 0, 2), (2, 2, 1)):
            self.create(kpart, first, count, order)
        self.commit(1, (0, 1), (1, 1))

    def place(self, *ranges: tuple[int, int, int], confirmed: bool = False) -> int:
        placed = [model.PlacedRange(first_partition=first, num_partitions=count, coordinator_id=of) for first, count, of in ranges]
        return self.logs[0].add(model.TopicPlaced(topic_id=ORDERS, name="orders", ranges=placed, confirmed=confirmed))

    def create(self, kpart: int, first: int, count: int, order: int) -> int:
        created = self.logs[kpart].creation(ORDERS, count)
        return self.logs[kpart].add(replace(created, first_partition=first, order_offset=order))

    def commit(self, kpart: int, *runs: tuple[int, int]) -> int:
        log = self.logs[kpart]
        return log.commit(*runs, topic_id=ORDERS, owner_ids=[kpart], object_key=f"wal/{kpart}-{log.end}")

    def order(self, move_id: int, partition: int, leaves: int, reaches: int) -> int:
        places = {"from_coordinator": leaves, "to_coordinator": reaches}
        return self.logs[0].add(model.PartitionMoving(topic_id=ORDERS, partition=partition, move_id=move_id, **places))

    def release(self, move_id: int, partition: int, kpart: int, to: int) -> int:
        step = model.PartitionReleased(topic_id=ORDERS, partition=partition, move_id=move_id, to_coordinator=to, time_ms=move_id)
        return self.logs[kpart].add(step)

    def adopt(self, move_id: int, partition: int, kpart: int, base: int = 2) -> int:
        return self.logs[kpart].add(adopted(self.logs[kpart], move_id, 0, base, partition, ORDERS))

    def done(self, move_id: int, partition: int) -> int:
        return self.logs[0].add(model.PartitionMoved(topic_id=ORDERS, partition=partition, move_id=move_id, earlier=[]))

    def move(self, move_id: int, partition: int, leaves: int, reaches: int, base: int = 2) -> None:
        self.order(move_id, partition, leaves, reaches)
        self.release(move_id, partition, leaves, reaches)
        self.adopt(move_id, partition, reaches, base)
        self.done(move_id, partition)

    def read(self, folder: Path, order: tuple[int, ...] = (0, 1, 2), cut: int = 1000) -> list[tuple[object, ...]]:
        """Read all logs, one after the other, cut once; and a last entry of each when what waits has waited long enough. The findings."""
        with Store.open(folder) as store:
            for kpart in order:
                follow(store, self.logs[kpart].entries, cuts=[cut], kpart=kpart, now_ms=1)
            for kpart in (1, 2, 0):
                self.logs[kpart].add(model.NoOp())
                follow(store, self.logs[kpart].entries, kpart=kpart, now_ms=SETTLED_MS + 2)
        assert rows(folder, "select * from move_step") == []
        assert rows(folder, "select * from created_range") == []
        return [row[:2] for row in findings(folder)]


def moved_and_grown(service: Service) -> None:
    """Partition 0 goes to coordinator 2, comes back, and goes again; the topic grows in between, which says where all partitions are."""
    service.move(1, 0, 1, 2)
    service.logs[1].add(model.RecordsDeleted(topic_id=ORDERS, partition=0, new_log_start_offset=2))
    grown = service.place((0, 1, 2), (1, 1, 1), (2, 1, 2), (3, 1, 1))
    service.create(1, 3, 1, grown)
    service.move(2, 0, 2, 1)
    service.commit(1, (0, 2))
    service.move(3, 1, 1, 2)
    service.place((0, 2, 1), (2, 1, 2), (3, 1, 1), confirmed=True)
    service.order(4, 2, 2, 1)
    service.release(4, 2, 2, 1)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_moves_are_as_they_were_ordered_in_whatever_order_logs_are_read(tmp_path: Path, order: tuple[int, ...]) -> None:
    for cut in (1000, 4, 6, 8):
        service = Service()
        moved_and_grown(service)
        assert service.read(tmp_path / str(cut), order, cut) == []
        query = "select partition, kpart, stretch_base, newest_move, released_to, start_offset, next_offset from partition order by 1, 2"
        assert rows(tmp_path / str(cut), query) == [
            (0, 1, 2, 2, None, 0, 6),
            *[(0, 2, 2, 2, 1, 0, 2), (1, 1, 0, 3, 2, 0, 2), (1, 2, 2, 3, None, 0, 2), (2, 2, 0, 4, 1, 0, 0), (3, 1, 0, -1, None, 0, 0)],
        ]
        query = "select move_id, partition, from_coordinator, to_coordinator, moved_ms is not null from move order by 1"
        assert rows(tmp_path / str(cut), query) == [(1, 0, 1, 2, 1), (2, 0, 2, 1, 1), (3, 1, 1, 2, 1), (4, 2, 2, 1, 0)]


Wrong = Callable[[Service], tuple[int, int]]


def release_that_was_not_ordered(service: Service) -> tuple[int, int]:
    return 1, service.release(5, 0, 1, 2)


def release_to_another_coordinator(service: Service) -> tuple[int, int]:
    service.order(1, 0, 1, 2)
    return 1, service.release(1, 0, 1, 0)


def release_of_another_partition(service: Service) -> tuple[int, int]:
    service.order(1, 0, 1, 2)
    return 1, service.release(1, 1, 1, 2)


def adoption_elsewhere(service: Service) -> tuple[int, int]:
    service.order(1, 0, 1, 2)
    service.release(1, 0, 1, 2)
    return 0, service.adopt(1, 0, 0)


def adoption_that_was_not_ordered(service: Service) -> tuple[int, int]:
    service.move(1, 0, 1, 2)
    return 0, service.adopt(2, 0, 0)


def move_without_an_adoption(service: Service) -> tuple[int, int]:
    service.order(1, 0, 1, 2)
    service.release(1, 0, 1, 2)
    return 0, service.done(1, 0)


@pytest.mark.parametrize("wrong", [
    release_that_was_not_ordered, release_to_another_coordinator, release_of_another_partition, adoption_elsewhere,
    adoption_that_was_not_ordered, move_without_an_adoption,
], ids=lambda wrong: wrong.__name__)  # fmt: skip
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_step_that_was_not_ordered_so_is_found(wrong: Wrong, order: tuple[int, ...], tmp_path: Path) -> None:
    service = Service()
    _, offset = wrong(service)
    assert service.read(tmp_path, order) == [(offset, "move-not-ordered")]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_creation_is_compared_with_placements_though_partitions_of_its_topic_moved(tmp_path: Path, order: tuple[int, ...]) -> None:
    service = Service()
    moved_and_grown(service)
    offset = service.create(2, 3, 1, 0)
    assert service.read(tmp_path, order) == [(offset, "partition-not-placed")]


def test_steps_before_a_restored_directory_has_settled_are_not_judged(tmp_path: Path) -> None:
    service = Service()
    content = read_content(snapshot_of(service.logs[0], tmp_path).path)
    restored = service.logs[0] = LogWriter(partitions=0, restored=replace(RESTORED, epoch_floor=5))
    service.release(7, 0, 1, 2)
    service.adopt(7, 0, 2)
    with Store.open(tmp_path) as store:
        store.start_from(replace(content, head=content.head._replace(metadata_partition=0, end_offset=0)), 0)
        for kpart in (0, 1, 2):
            follow(store, service.logs[kpart].entries, kpart=kpart, now_ms=1)
        restored.add(model.NoOp())
        follow(store, restored.entries, now_ms=SETTLED_MS + 2)
        assert findings(tmp_path) == []
        assert rows(tmp_path, "select count(*) from move_step") == [(2,)]
        service.order(7, 0, 1, 2)
        service.done(7, 0)
        restored.add(model.MovesSettled(last_move_id=7))
        follow(store, restored.entries, now_ms=SETTLED_MS + 3)
    assert findings(tmp_path) == []
    assert rows(tmp_path, "select count(*) from move_step") == [(0,)]


def test_moves_go_with_their_topic_and_the_newest_are_kept(tmp_path: Path) -> None:
    service = Service()
    log = service.logs[0]
    for number in range(1, MOVES_KEPT + 6):
        service.order(number, 0, 1, 2)
    with Store.open(tmp_path) as store:
        follow(store, log.entries, now_ms=1)
        assert rows(tmp_path, "select count(*), min(move_id) from move") == [(MOVES_KEPT, 6)]
        late = service.release(3, 0, 1, 2)
        assert late
        follow(store, service.logs[1].entries, kpart=1, now_ms=1)
        assert rows(tmp_path, "select * from move_step") == []  # of its order nothing is known any more
        log.add(model.TopicDeleting(topic_id=ORDERS, confirmed=False))
        follow(store, log.entries, now_ms=2)
    assert rows(tmp_path, "select * from move") == []
    assert findings(tmp_path) == []
