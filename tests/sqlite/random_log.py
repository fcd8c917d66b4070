"""A random but valid log: what a leader could have written, record by record, from a seed."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from dataclasses import dataclass, field

from records import model
from records.committed_files.codec import CommittedBatch, FileCommitted

Place = tuple[bytes, int]
PENDING = -1
START_MS = 1_760_000_000_000
FAR_TIMESTAMPS = (-1, START_MS - 3_000_000_000, START_MS + 3_000_000_000, (1 << 63) - 1)
"""Too far apart for one packed run, the ends even for a signed distance."""


@dataclass(slots=True)
class LogModel:
    """Knows enough of the state to write only what a leader may write; itself the plainest description of that state."""

    rng: random.Random
    files_per_record: float = 0.7
    may_remove: bool = True
    """Not inside a transaction, where a file may not go together with its last batch."""
    now_ms: int = START_MS
    high_watermark: dict[Place, int] = field(default_factory=dict)
    log_start: dict[Place, int] = field(default_factory=dict)
    batches: dict[Place, list[tuple[int, int, str]]] = field(default_factory=dict)
    live: dict[str, int] = field(default_factory=dict)
    all_keys: list[str] = field(default_factory=list)
    all_places: list[Place] = field(default_factory=list)
    next_sequence: dict[tuple[Place, int], tuple[int, int]] = field(default_factory=lambda: defaultdict(lambda: (0, 0)))
    counter: int = 0
    starts: dict[Place, int] = field(default_factory=dict)
    """B0 of classic partitions."""
    released: set[Place] = field(default_factory=set)
    """Partitions that have gone on elsewhere."""
    ends: dict[Place, list[model.EarlierStretch]] = field(default_factory=lambda: defaultdict(list))
    """The stretches of partitions that ended in moves."""
    epochs: dict[Place, int] = field(default_factory=dict)

    def next_record(self) -> model.Record:
        """The next record, never one that contradicts the state."""
        self.now_ms += self.rng.randrange(50)
        if self._open_places() and self.rng.random() < self.files_per_record:
            return self._file()
        choices = [self._created, self._records_deleted, self._records_deleted, self._fenced, self._removed, self._removed]
        choices += [self._handed_over, self._expired, self._producers_expired, self._deleted, self._migrated, self._moved, self._moved]
        return self.rng.choice(choices)()

    def _key(self) -> str:
        self.counter += 1
        key = f"wal/{self.rng.randrange(36**6):08x}-{self.counter}"
        self.all_keys.append(key)
        return key

    def _created(self) -> model.PartitionCreated:
        known = sorted({topic_id for topic_id, _ in self.high_watermark})
        grows = known and self.rng.random() < 0.4
        topic_id = self.rng.choice(known) if grows else self.rng.randbytes(16)
        first = sum(1 for known_id, _ in self.high_watermark if known_id == topic_id)
        count = self.rng.randrange(1, 4)
        for partition in range(first, first + count):
            self.high_watermark[topic_id, partition] = self.log_start[topic_id, partition] = 0
            self.batches[topic_id, partition] = []
            self.all_places.append((topic_id, partition))
        self.counter += 1
        return model.PartitionCreated(
            topic_id=topic_id, name=f"t-{topic_id.hex()[:6]}", first_partition=first, num_partitions=count, order_offset=self.counter
        )

    def _open_places(self) -> list[Place]:
        """The partitions that take batches."""
        return sorted(place for place in self.high_watermark if self.starts.get(place) != PENDING and place not in self.released)

    def _moved(self) -> model.Record:
        """A step of a move: a partition goes on elsewhere, or comes from there; one of which nothing is left here comes back.

        Inside a transaction, which may say nothing else of the partition, there is none.
        """
        if not self.may_remove:
            return self._created()
        self.counter += 1
        born = [place for place in self._open_places() if place not in self.starts]
        gone = sorted(place for place in self.released if self.log_start[place] == self.high_watermark[place])
        chance = self.rng.random()
        if gone and chance < 0.5:
            place = self.rng.choice(gone)
            elsewhere = self.high_watermark[place] + self.rng.randrange(1, 30)
            self._end(place, 2, elsewhere)
            return self._adopted(place, f"t-{place[0].hex()[:6]}", self.rng.randrange(self.high_watermark[place], elsewhere + 1), elsewhere)
        if born and chance < 0.75:
            place = self.rng.choice(born)
            self.released.add(place)
            self._end(place, 3, self.high_watermark[place])
            return model.PartitionReleased(
                topic_id=place[0], partition=place[1], move_id=self.counter, to_coordinator=2, time_ms=self.now_ms
            )
        created = self._created()
        place, base = (created.topic_id, created.first_partition), self.rng.randrange(100)
        for partition in range(created.first_partition + 1, created.first_partition + created.num_partitions):
            del self.high_watermark[place[0], partition], self.log_start[place[0], partition], self.batches[place[0], partition]
            self.all_places.remove((place[0], partition))
        self._end(place, 2, base)
        return self._adopted(place, created.name, self.rng.randrange(base + 1), base)

    def _end(self, place: Place, coordinator_id: int, end: int) -> None:
        """Let the newest stretch of a partition end in a move."""
        ended = model.EarlierStretch(coordinator_id=coordinator_id, end_offset=end, move_id=self.counter, time_ms=self.now_ms)
        self.ends[place].append(ended)

    def _adopted(self, place: Place, name: str, start: int, base: int) -> model.PartitionAdopted:
        self.released.discard(place)
        self.log_start[place], self.high_watermark[place] = start, base
        for one in range(4):
            self.next_sequence.pop((place, one), None)
        return model.PartitionAdopted(
            topic_id=place[0],
            partition=place[1],
            name=name,
            move_id=self.counter,
            start_offset=start,
            base_offset=base,
            earlier=list(self.ends[place]),
        )

    def producers_of(self, adopted: model.PartitionAdopted) -> list[model.Record]:
        """What may be said of producers, in one or two records, beside the adoption of a partition."""
        place, begins = (adopted.topic_id, adopted.partition), adopted.base_offset
        known = self.rng.sample(range(4), self.rng.randrange(4)) if begins >= 40 else []
        seeds = [
            model.SeededProducerBatch(
                producer_id=one, producer_epoch=1, base_sequence=0, last_sequence=4, base_offset=begins - 10 - one, timestamp_ms=-1
            )
            for one in known
        ]
        for one in known:
            self.next_sequence[place, one] = (1, 5)
        cut = self.rng.randrange(len(seeds) + 1)
        return [
            model.ProducersAdopted(topic_id=place[0], partition=place[1], producers=some, time_ms=self.now_ms)
            for some in (seeds[:cut], seeds[cut:])
            if some
        ]

    def _migrated(self) -> model.Record:
        """A step of the migration of a classic partition, or a new one."""
        known = sorted(place for place in self.starts if place in self.high_watermark)
        if not known or not self.may_remove or self.rng.random() < 0.2:
            created = self._created()
            places = [(created.topic_id, created.first_partition + number) for number in range(created.num_partitions)]
            self.starts |= dict.fromkeys(places, PENDING)
            return dataclasses.replace(created, classic_pending=True)
        place = self.rng.choice(known)
        start, end, of = self.starts[place], self.high_watermark[place], {"topic_id": place[0], "partition": place[1]}
        self.epochs[place] = epoch = self.epochs.get(place, 0) + 1
        if start == PENDING:
            base = self.rng.randrange(50, 1_000)
            self.starts[place] = self.high_watermark[place] = self.log_start[place] = base
            seeds = [
                model.SeededProducerBatch(
                    producer_id=one, producer_epoch=0, base_sequence=0, last_sequence=9, base_offset=base - 10 - one, timestamp_ms=-1
                )
                for one in range(self.rng.randrange(3))
            ]
            for seed in seeds:
                self.next_sequence[place, seed.producer_id] = (0, 10)
            return model.DisklessLogInitialized(
                **of, base_offset=base, prefix_start_offset=0, leader_epoch=epoch, producers=seeds, time_ms=self.now_ms
            )
        if end == start and self.rng.random() < 0.5:
            self.starts[place], self.high_watermark[place], self.log_start[place] = PENDING, 0, 0
            for one in range(4):
                self.next_sequence.pop((place, one), None)
            return model.DisklessLogReset(**of, leader_epoch=epoch)
        if self.rng.random() < 0.5:
            return model.PrefixStartReported(**of, prefix_start_offset=self.rng.randrange(20), leader_epoch=epoch)
        lower = self.starts[place] = self.rng.randrange(30, start + 1) if start >= 30 else start
        if end == start:
            self.high_watermark[place] = self.log_start[place] = lower
        return model.DisklessLogRepaired(**of, base_offset=lower, leader_epoch=epoch)

    def _deleted(self) -> model.Record:
        known = sorted({topic_id for topic_id, _ in self.high_watermark})
        topic_id = self.rng.choice(known) if known and self.rng.random() < 0.8 else self.rng.randbytes(16)
        for place in [place for place in self.high_watermark if place[0] == topic_id]:
            for _, _, key in self.batches.pop(place):
                self.live[key] -= 1
            del self.high_watermark[place], self.log_start[place]
            self.released.discard(place)
            self.ends.pop(place, None)
        self.counter += 1
        return model.TopicDeleted(topic_id=topic_id, order_offset=self.counter)

    def _records_deleted(self) -> model.Record:
        """Deletes records; often the last ones of a partition that has gone on elsewhere."""
        known = sorted(place for place in self.high_watermark if self.starts.get(place) != PENDING)
        if not known:
            return self._created()
        place = self.rng.choice(sorted(self.released) if self.released and self.rng.random() < 0.3 else known)
        is_last = place in self.released and self.rng.random() < 0.5
        to = self.high_watermark[place] if is_last else self.rng.randrange(self.log_start[place], self.high_watermark[place] + 1)
        self.log_start[place] = to
        kept = []
        for base, last, key in self.batches[place]:
            if last < to:
                self.live[key] -= 1
            else:
                kept.append((base, last, key))
        self.batches[place] = kept
        return model.RecordsDeleted(topic_id=place[0], partition=place[1], new_log_start_offset=to)

    def _dead_keys(self) -> list[str]:
        return sorted(key for key, live in self.live.items() if live == 0) if self.may_remove else []

    def _fenced(self) -> model.Record:
        keys = [self._key() for _ in range(self.rng.randrange(1, 3))]
        created = [self.rng.choice([-1, self.now_ms - self.rng.randrange(2000)]) for _ in keys]
        return model.FilesFenced(object_keys=keys, created_ms=created)

    def _removed(self) -> model.Record:
        keys = [key for key in self._dead_keys() if self.rng.random() < 0.5]
        for key in keys:
            del self.live[key]
        return model.FilesRemoved(object_keys=keys)

    def _handed_over(self) -> model.Record:
        dead = self._dead_keys()
        if not dead:
            return self._fenced()
        keys = self.rng.sample(dead, self.rng.randint(1, min(2, len(dead))))
        for key in keys:
            del self.live[key]
        return model.FilesHandedOver(object_keys=keys, next_owner_ids=[1] * len(keys))

    def _expired(self) -> model.Record:
        before_ms = self.now_ms - self.rng.randrange(3000)
        return model.TombstonesExpired(keys_before_ms=before_ms, topics_before_ms=before_ms - 500)

    def _producers_expired(self) -> model.Record:
        return model.ProducersExpired(before_ms=self.now_ms - self.rng.randrange(1500))

    def _file(self) -> FileCommitted:
        rng = self.rng
        known = self._open_places()
        places = rng.sample(known, rng.randrange(1, min(4, len(known)) + 1))
        has_gaps, has_types, is_odd = rng.random() < 0.2, rng.random() < 0.3, rng.random() < 0.2
        key = self._key()
        batches: list[CommittedBatch] = []
        end = 0
        for place in places:
            for _ in range(rng.randrange(1, 6)):
                base, count, size = self.high_watermark[place], rng.randrange(1, 5), rng.randrange(1, 10_000)
                self.high_watermark[place] = base + count
                self.batches[place].append((base, base + count - 1, key))
                producer = (-1, -1, -1)
                if rng.random() < 0.3:
                    one = rng.randrange(4)
                    epoch, sequence = self.next_sequence[place, one]
                    if sequence > 40:  # a new epoch begins with sequence 0
                        epoch, sequence = epoch + 1, 0
                    self.next_sequence[place, one] = (epoch, sequence + count)
                    producer = (one, epoch, sequence)
                at = end + (rng.randrange(3) if has_gaps else 0)
                time_ms = rng.choice(FAR_TIMESTAMPS) if is_odd else self.now_ms - rng.randrange(-100, 500)
                time_type = rng.randrange(2) if has_types else 0
                batches.append(CommittedBatch(*place, 0, base, count, at, size, time_ms, time_type, *producer, self.log_start[place]))
                end = at + size
        self.live[key] = len(batches)
        return FileCommitted(
            object_key=key,
            object_format=1,
            file_size=end,
            uploader_broker_id=rng.randrange(3),
            owner_ids=[0],
            created_ms=self.now_ms - rng.randrange(300),
            append_time_ms=self.now_ms,
            content_hash=rng.randbytes(16),
            batches=batches,
        )
