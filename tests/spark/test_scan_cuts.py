"""What is found and counted does not depend on how a log was cut into Arrow batches and micro-batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from records import model
from records.codec import encode_entry, encode_key
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey
from records.levels import LEVEL_LATEST
from records.log import RESTORED_KEY
from spark_jobs.store.sink import Store
from tests.records.examples import EXAMPLES, RESTORED
from tests.spark.planted_violations import PLANTS, SEED, adopted, adopted_producers, healthy, released, travelled
from tests.spark.scan_logs import MASK, TOPIC, TRANSACTIONS, Entry, Life, LogWriter, content, follow, moved, refused, with_transactions

OTHER = bytes([9] * 16)


class HostileWriter:
    """A log in which everything happens that may, and much that must not."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = LogWriter(first_offset=self.random.choice([0, 0, 40]))
        if self.log.first_offset:
            self.log.epoch, self.log.term, self.log.seq = 3, 99, 5

    def write(self, steps: int) -> list[Entry]:
        actions = [
            self.file, self.file, self.file, self.broken_file, self.producer, self.producer, self.delete, self.topic, self.keys,
            self.void, self.transaction, self.migration, self.move, self.move, self.claim, self.hole, self.junk, self.several,
            self.example, self.placement, self.snapshot, self.restored,
        ]  # fmt: skip
        for _ in range(steps):
            self.random.choice(actions)()
            self.log.now_ms += self.random.choice([1, 1, 1, 900, 20_000])
        return self.log.entries

    def topic_id(self) -> bytes:
        return self.random.choice([TOPIC, TOPIC, OTHER])

    def runs(self) -> list[tuple[int, int]]:
        return [(self.random.randrange(4), self.random.randint(1, 3)) for _ in range(self.random.randint(1, 4))]

    def record(self) -> FileCommitted:
        record = self.log.file(self.runs(), topic_id=self.topic_id())
        if self.random.random() < 0.2:
            record = replace(record, batches=[*refused(2), *record.batches])
        return replace(record, owner_ids=self.random.choice([[0], [0, 2], [2, 0]]))

    def file(self) -> None:
        self.log.add(self.record())

    def broken_file(self) -> None:
        record = self.record()
        shift = self.random.choice([-5, -2, 3, 10])
        change = self.random.choice(
            [
                {"batches": moved(record, [shift] * len(list(groupby(one[:3] for one in record.batches)))).batches},
                {"batches": [one._replace(log_start=self.random.randint(0, 12)) for one in record.batches]},
                {"file_size": self.random.choice([-1, 0, 15, 2**62])},
                {"batches": [*record.batches[:-1], record.batches[-1]._replace(byte_offset=record.batches[-1].byte_offset + 5)]},
                {"batches": [*record.batches, record.batches[-1]._replace(base_offset=record.batches[-1].next_offset)]},
                {"object_key": f"wal/{self.random.randint(1, self.log.files):06}"},
            ]
        )
        self.log.add(replace(record, **change))  # type: ignore[arg-type]

    def producer(self) -> None:
        sequence = self.random.choice([0, 2, 4, 6, MASK - 1])
        self.log.produce(
            sequence, partition=self.random.randrange(2), epoch=self.random.randint(0, 1), producer_id=self.random.randint(5, 6)
        )

    def delete(self) -> None:
        topic_id, partition = self.topic_id(), self.random.randrange(4)
        start = self.random.randint(0, 12)
        self.log.starts[(topic_id, partition)] = start
        deleted = model.RecordsDeleted(topic_id=topic_id, partition=partition, new_log_start_offset=start)
        before = self.log.now_ms - self.random.choice([0, 50, 5000])
        self.log.add(*self.random.choice([[deleted], [deleted, model.NoOp(), deleted], [model.ProducersExpired(before_ms=before)]]))

    def topic(self) -> None:
        topic_id = self.topic_id()
        if self.random.random() < 0.5:
            self.log.add(model.TopicDeleted(topic_id=topic_id, order_offset=1))
            for partition in range(4):
                self.log.next.pop((topic_id, partition), None)
                self.log.starts.pop((topic_id, partition), None)
        else:
            self.log.create(topic_id, self.random.randint(1, 4))

    def keys(self) -> None:
        names = [f"wal/{self.random.randint(1, self.log.files + 3):06}" for _ in range(2)]
        self.log.add(
            self.random.choice(
                [
                    model.FilesFenced(object_keys=names, created_ms=[self.log.now_ms, -1]),
                    model.FilesRemoved(object_keys=names),
                    model.FilesHandedOver(object_keys=names, next_owner_ids=[2, 1]),
                    model.TombstonesExpired(keys_before_ms=self.log.now_ms - 1000, topics_before_ms=self.log.now_ms - 2000),
                ]
            )
        )

    def void(self) -> None:
        log = self.log
        key = self.random.choice(
            [(log.epoch, log.term, log.seq), (log.epoch, log.term, log.seq + 2), (log.epoch + 1, 5, 0), (log.epoch + 9, 5, 0), (0, 1, 1)]
        )
        log.raw(self.random.choice([None, b"short", encode_key(EntryKey(*key))]), self.random.choice([None, b"", b"junk"]))

    def transaction(self) -> None:
        log = self.log
        log.add(model.TransactionBegan(name="t", num_chunks=self.random.choice([-1, 2])))
        for _ in range(self.random.randint(0, 3)):
            self.random.choice([self.file, self.producer, self.delete, self.void, self.junk, self.several, self.topic])()
        ends = [model.TransactionEnded(num_chunks=2), model.TransactionAborted(reason="r"), None]
        end = self.random.choice(ends)
        if end is not None:
            log.add(end)

    def migration(self) -> None:
        partition, base = self.random.randrange(4), self.random.choice([0, 4, 100])
        seed = model.SeededProducerBatch(
            producer_id=5, producer_epoch=0, base_sequence=0, last_sequence=3, base_offset=1, timestamp_ms=self.log.now_ms
        )
        started = model.DisklessLogInitialized(
            topic_id=TOPIC, partition=partition, base_offset=base, prefix_start_offset=0, leader_epoch=1, producers=[seed]
        )
        reset = model.DisklessLogReset(topic_id=TOPIC, partition=partition, leader_epoch=2)
        repaired = model.DisklessLogRepaired(topic_id=TOPIC, partition=partition, base_offset=2, leader_epoch=2)
        reported = model.PrefixStartReported(topic_id=TOPIC, partition=partition, prefix_start_offset=1, leader_epoch=2)
        awaited = replace(self.log.creation(TOPIC, 1), first_partition=partition, classic_pending=True)
        self.log.add(self.random.choice([started, started, reset, repaired, reported, awaited]))

    def move(self) -> None:
        """A step of a move, often of one that cannot be."""
        partition, move_id = self.random.randrange(4), self.random.randint(1, 9)
        base = self.random.choice([2, 6, 50])
        comes: list[model.Record] = [adopted(self.log, move_id, self.random.randint(0, 3), base, partition)]
        if self.random.random() < 0.5:
            comes.append(adopted_producers(SEED, partition=partition))
        end = self.log.next.get((TOPIC, partition), 0)
        deleted = model.RecordsDeleted(topic_id=TOPIC, partition=partition, new_log_start_offset=end)
        self.log.add(*self.random.choice([comes, [released(move_id, partition)], [deleted]]))

    def claim(self) -> None:
        if self.random.random() < 0.1:
            self.log.add(RESTORED)
        self.log.claim()

    def hole(self) -> None:
        if self.random.random() < 0.3:
            self.log.first_offset += self.random.randint(1, 9)

    def example(self) -> None:
        """Any record type of the log, as it is or beside others."""
        records = self.random.choices(EXAMPLES, k=self.random.choice([1, 1, 1, 2]))
        self.log.add(
            *[model.FeatureLevelSet(level=self.random.randint(1, 3)) if isinstance(one, model.FeatureLevelSet) else one for one in records]
        )

    def placement(self) -> None:
        ranges = [
            model.PlacedRange(first_partition=first, num_partitions=2, coordinator_id=self.random.choice([0, 0, 1])) for first in (0, 2)
        ]
        placed = model.TopicPlaced(topic_id=self.topic_id(), name="t", ranges=ranges[: self.random.randint(0, 2)], confirmed=False)
        created = replace(self.log.creation(self.topic_id(), 2), first_partition=self.random.randint(0, 5))
        self.log.add(self.random.choice([placed, created, model.TopicDeleting(topic_id=self.topic_id(), confirmed=False)]))

    def snapshot(self) -> None:
        """Of this epoch, or of one that comes into force a moment later."""
        epoch, end = self.log.epoch + self.random.choice([0, 1]), self.log.end + self.random.choice([-1, 0, 1])
        snapshot = model.SnapshotCommitted(
            mark_offset=1, end_offset=end, epoch=epoch, size_bytes=1, sha256=bytes(32), digest=bytes(16), location="s"
        )
        self.log.add(snapshot)
        if self.random.random() < 0.5:
            self.log.claim()

    def restored(self) -> None:
        """A restore behind the beginning, and a claim that relies on it at once."""
        floor = self.log.epoch + self.random.randint(1, 9)
        restored = encode_entry([replace(RESTORED, epoch_floor=floor)])
        self.log.raw(self.random.choice([encode_key(RESTORED_KEY), encode_key(EntryKey(floor, 5, 0))]), restored)
        if self.random.random() < 0.5:
            self.log.epoch = self.random.choice([self.log.epoch, floor])
            self.log.claim()

    def junk(self) -> None:
        self.log.seq += 1
        key = encode_key(EntryKey(self.log.epoch, self.log.term, self.log.seq))
        self.log.raw(key, self.random.choice([None, b"", b"\xc3\x01" + b"z" * 20, (self.log.entries or [Entry(0, None, b"", 0)])[0].value]))

    def several(self) -> None:
        self.log.add(self.record(), model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=2), self.record())


def snapshot_before_its_claim(log: LogWriter) -> None:
    epoch = log.epoch + 1
    log.add(
        model.SnapshotCommitted(mark_offset=1, end_offset=2, epoch=epoch, size_bytes=1, sha256=bytes(32), digest=bytes(16), location="s")
    )
    log.claim()


DETACHED = [snapshot_before_its_claim]


def test_what_an_entry_does_takes_effect_before_the_claim_behind_it() -> None:
    log = LogWriter(partitions=3)
    snapshot_before_its_claim(log)
    assert [rule for _, _, rule, *_ in cut(log.entries, [], [])["finding"]] == ["epoch-regression"]


def test_a_restored_log_begins_above_its_floor() -> None:
    log = LogWriter(partitions=3, restored=RESTORED)
    log.commit((0, 1))
    log.add(RESTORED)
    whole = cut(log.entries, [], [])
    totals = {str(name): value for name, _, value in whole["total"]}
    assert (totals["files"], totals["record.Restored"]) == (1, 1)
    assert {name: count for name, count in totals.items() if name.startswith("void.")} == {"void.contradiction": 1}
    assert [rule for _, _, rule, *_ in whole["finding"]] == ["misplaced-restore"]
    for place in range(1, len(log.entries)):
        assert cut(log.entries, [place], []) == whole
        assert cut(log.entries, [], [place]) == whole


def cut(entries: list[Entry], cuts: list[int], arrow_cuts: list[int]) -> dict[str, list[tuple[object, ...]]]:
    with TemporaryDirectory() as folder:
        with Store.open(Path(folder)) as store:
            follow(store, entries, cuts=cuts, arrow_cuts=arrow_cuts)
        return content(Path(folder))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 60), max_size=12), st.lists(st.integers(1, 30), max_size=6))
def test_a_hostile_log_is_judged_alike_however_it_is_cut(seed: int, cuts: list[int], arrow_cuts: list[int]) -> None:
    entries = HostileWriter(seed).write(25)
    whole = cut(entries, [], [])
    assert cut(entries, cuts, arrow_cuts) == whole


@pytest.mark.parametrize("seed", range(6))
def test_entry_by_entry_is_like_all_at_once(seed: int) -> None:
    entries = HostileWriter(1000 + seed).write(35)
    assert cut(entries, list(range(len(entries))), []) == cut(entries, [], [])


def test_every_record_type_is_judged_alike_wherever_the_log_is_cut() -> None:
    log = LogWriter(partitions=2)
    log.commit((0, 1))
    for record in EXAMPLES:
        if isinstance(record, model.TransactionBegan):
            log.add(replace(record, num_chunks=-1))
            log.add(model.RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=1))
            log.add(model.TransactionEnded(num_chunks=1))
        elif isinstance(record, model.FeatureLevelSet):
            log.add(model.FeatureLevelSet(level=LEVEL_LATEST))
        elif not isinstance(record, model.TransactionEnded):
            log.add(record)
            log.commit((0, 1), (1, 1))
    travelled(log)
    entries = log.entries
    whole = cut(entries, [], [])
    counted = {str(name) for name, _, _ in whole["total"]}
    # A restore counts at the beginning of a log alone.
    assert {f"record.{type(record).__name__}" for record in EXAMPLES if record is not RESTORED} <= counted
    assert cut(entries, list(range(len(entries))), []) == whole
    assert cut(entries, [], list(range(len(entries)))) == whole


@pytest.mark.parametrize("plant", [*PLANTS, healthy, *DETACHED], ids=lambda plant: plant.__name__)
def test_every_anomaly_and_oddity_is_judged_alike_wherever_the_log_is_cut(plant: Callable[[LogWriter], object]) -> None:
    log = LogWriter(partitions=3)
    log.commit((0, 2), (1, 2))
    plant(log)
    log.add(model.NoOp())
    log.commit((1, 1))
    whole = cut(log.entries, [], [])
    for place in range(2, len(log.entries), 3):
        assert cut(log.entries, [place], []) == whole, place
        assert cut(log.entries, [], [place]) == whole, place


@pytest.mark.parametrize("seed", range(6))
def test_a_real_log_is_judged_alike_however_it_is_cut(seed: int) -> None:
    entries = Life(seed).run(60)
    chance = random.Random(seed)
    whole = cut(entries, [], [])
    assert not whole["finding"]
    for _ in range(3):
        cuts = [chance.randrange(len(entries)) for _ in range(8)]
        assert cut(entries, cuts, [chance.randrange(20)]) == whole


def test_transactions_are_judged_alike_wherever_they_are_cut() -> None:
    entries = with_transactions().entries
    whole = cut(entries, [], [])
    assert whole["finding"] == []
    notes = [str(text) for _, _, text in whole["note"]]
    assert sorted(note.split("'")[1] for note in notes) == ["claimed", "claimed and noted", "noted"]
    totals = {str(name): value for name, _, value in whole["total"]}
    assert (totals["files"], totals["record.RecordsDeleted"]) == (len(TRANSACTIONS), 4)
    assert len(whole["held_entry"]) == 3
    for place in range(1, len(entries)):
        assert cut(entries, [place], []) == whole, place
        assert cut(entries, [], [place]) == whole, place
        assert cut(entries, [place, place + 1], []) == whole, place
