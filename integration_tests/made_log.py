"""A metadata log made up, for tests and benchmarks of the monitor: sound entries by the thousand, and what they add up to.

Each partition of the metadata topic has one claim, five topics of ten partitions, and files whose batches are spread over
them; about a third of the batches has a producer. Made as tables, many files at once. Deterministic by seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from coordinator.client.records.ulid import new_key
from records.codec import encode_entry
from records.committed_files.codec import FileTable, encode_files, topic_halves
from records.committed_files.head import FileHead
from records.committed_files.lines import (
    BASE_OFFSET,
    BASE_SEQUENCE,
    BYTE_OFFSET,
    BYTE_SIZE,
    FILE,
    LINE_WIDTH,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    TIMESTAMP,
    TOPIC_HIGH,
    TOPIC_LOW,
)
from records.entry_key import EntryKey, encode_key
from records.model import LeadershipClaimed, PartitionCreated, Record

TOPICS = 5
PARTITIONS = 10
SEQUENCE_MASK = 0x7FFFFFFF
LEVEL = 1
"""The schema level that is in force from the beginning."""
FIRST_APPEND_MS = 1_760_000_000_000

Entry = tuple[bytes | None, bytes | None]
Int64s = npt.NDArray[np.int64]


@dataclass
class MadePartition:
    """The log of one partition of the metadata topic. `totals` counts what was made, by the monitor's names."""

    kpart: int
    batches_per_file: int
    seed: int = 1
    now_ms: Callable[[], int] | None = None
    totals: Counter[str] = field(default_factory=Counter)
    epoch: int = 1
    seq: int = 0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng((self.seed, self.kpart))
        self.term = int(self._random.integers(1, 1 << 62))
        self.topic_ids = [self._random.bytes(16) for _ in range(TOPICS)]
        self.next_offset = np.zeros(TOPICS * PARTITIONS, np.int64)
        self.next_sequence = np.zeros(TOPICS * PARTITIONS, np.int64)
        self._clock_ms = FIRST_APPEND_MS

    # ---- entries of every kind

    def key(self) -> bytes:
        """The key of the next entry."""
        self.seq += 1
        return encode_key(EntryKey(self.epoch, self.term, self.seq))

    def entry(self, *records: Record) -> Entry:
        """The next entry, with these records."""
        self.totals["entries"] += 1
        return self.key(), encode_entry(list(records), LEVEL)

    def claim(self) -> Entry:
        """The claim of the epoch, which starts the term."""
        self.totals["entries"] += 1
        self.seq = 0
        record = LeadershipClaimed(epoch=self.epoch, term=self.term, node_id=1, rack="", endpoints=[])
        return encode_key(EntryKey(self.epoch, self.term, 0)), encode_entry([record], LEVEL)

    def beginning(self) -> list[Entry]:
        """The claim and the topics."""
        created = [
            PartitionCreated(topic_id=topic_id, name=f"made-{self.kpart}-{n}", first_partition=0, num_partitions=PARTITIONS, order_offset=n)
            for n, topic_id in enumerate(self.topic_ids)
        ]
        return [self.claim(), *(self.entry(record) for record in created)]

    # ---- files

    def files(self, count: int) -> list[Entry]:
        """The next entries, each with one sound file."""
        values = encode_files(self._table(count), LEVEL)
        self.totals["entries"] += count
        return [(self.key(), value) for value in values]

    def _table(self, count: int) -> FileTable:
        per_file = self.batches_per_file
        where = np.sort(self._random.integers(0, TOPICS * PARTITIONS, (count, per_file)), axis=1).ravel()
        record_counts = self._random.integers(1, 100, count * per_file)
        sizes = self._random.integers(100, 60_000, (count, per_file))
        file_sizes = sizes.sum(axis=1)
        has_producer = np.flatnonzero(self._random.random(count * per_file) < 0.3)
        halves = np.array([topic_halves(topic_id) for topic_id in self.topic_ids])
        heads = self._heads(file_sizes.tolist())
        lines = np.zeros((count * per_file, LINE_WIDTH), np.int64)
        lines[:, FILE] = np.repeat(np.arange(count), per_file)
        lines[:, TOPIC_HIGH : TOPIC_LOW + 1] = halves[where // PARTITIONS]
        lines[:, PARTITION] = where % PARTITIONS
        lines[:, BASE_OFFSET] = _continue(self.next_offset, where, record_counts)
        lines[:, RECORD_COUNT] = record_counts
        lines[:, BYTE_OFFSET] = (sizes.cumsum(axis=1) - sizes).ravel()
        lines[:, BYTE_SIZE] = sizes.ravel()
        lines[:, TIMESTAMP] = np.repeat([head.append_time_ms - 5 for head in heads], per_file)
        lines[:, [PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE]] = -1
        lines[has_producer, PRODUCER_ID] = 7_000 + where[has_producer]
        lines[has_producer, PRODUCER_EPOCH] = 0
        sequences = _continue(self.next_sequence, where[has_producer], record_counts[has_producer])
        lines[has_producer, BASE_SEQUENCE] = sequences & SEQUENCE_MASK
        self.totals.update(
            files=count,
            batches=count * per_file,
            records=int(record_counts.sum()),
            bytes=int(file_sizes.sum()),
            file_bytes=int(file_sizes.sum()),
        )
        return FileTable(heads, list(range(0, count * per_file + 1, per_file)), lines)

    def _heads(self, sizes: Sequence[int]) -> list[FileHead]:
        heads = []
        for size in sizes:
            self._clock_ms = self._clock_ms + 2 if self.now_ms is None else self.now_ms()
            key = new_key(self._clock_ms, self._random.bytes(10))
            heads.append(
                FileHead(
                    object_key=key,
                    object_format=1,
                    file_size=size,
                    uploader_broker_id=1 + self.kpart,
                    owner_ids=[self.kpart],
                    created_ms=self._clock_ms,
                    append_time_ms=self._clock_ms,
                    content_hash=key.encode()[-16:],
                )
            )
        return heads


def _continue(next_values: Int64s, group: Int64s, amounts: Int64s) -> Int64s:
    """Where each amount begins when those of a group follow each other from its next value, which moves."""
    order = np.argsort(group, kind="stable")
    sorted_group, sorted_amounts = group[order], amounts[order]
    before = np.cumsum(sorted_amounts) - sorted_amounts
    starts = np.flatnonzero(np.r_[True, sorted_group[1:] != sorted_group[:-1]]) if len(group) else np.zeros(0, np.int64)
    lengths = np.diff(starts, append=len(group))
    begin = np.empty(len(group), np.int64)
    begin[order] = before - np.repeat(before[starts], lengths) + next_values[sorted_group]
    np.add.at(next_values, group, amounts)
    return begin


@dataclass(slots=True)
class MadeLog:
    """A whole made log."""

    partitions: list[MadePartition]
    given: int = 0

    @classmethod
    def of(cls, kparts: int, batches_per_file: int, *, seed: int = 1, now_ms: Callable[[], int] | None = None) -> MadeLog:
        """A log without entries yet."""
        return cls([MadePartition(kpart, batches_per_file, seed=seed, now_ms=now_ms) for kpart in range(kparts)])

    @property
    def totals(self) -> Counter[str]:
        """What was made so far."""
        return sum((one.totals for one in self.partitions), Counter())

    def beginning(self) -> Iterator[tuple[int, Entry]]:
        """Claims and topics, with the partition each belongs to."""
        for one in self.partitions:
            for entry in one.beginning():
                yield one.kpart, entry

    def files(self, count: int) -> Iterator[tuple[int, Entry]]:
        """Files, evenly over the partitions."""
        size = len(self.partitions)
        for place in range(size):
            one = self.partitions[(self.given + place) % size]
            share = (count + size - 1 - place) // size
            for entry in one.files(share) if share else ():
                yield one.kpart, entry
        self.given += count
