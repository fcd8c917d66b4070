"""The load of a benchmark: realistic CommitFile requests, encoded once and patched for every use.

Batches of a file are sorted by partition, as a broker's WAL file is; sizes are log-uniform from 1 to 64 KiB. A share of
the batches is idempotent, each connection with producers of its own, so that sequences stay in order on it. Every use
of a template is a new, valid file: its key ends in a new ULID and its sequences go on from the last use.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cli.bench.load_loops import put_sequences
from coordinator.client.records.ulid import new_ulid
from coordinator.kafka.batches import BATCH
from coordinator.protocol.commit_file import BATCH as WIRE_BATCH
from coordinator.protocol.commit_file import CommitFileBody, encode_commit_file
from coordinator.protocol.framing import request_frame

ULID_LENGTH = 26
PRODUCERS_PER_PARTITION = 3
COMMIT_FILE_KEY = 10095
CORRELATION_AT = 8
ULID_TIME_STEP_MS = 1_000
BASE_SEQUENCE_AT = 68
"""In a batch; its last sequence follows at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Batches per file, user partitions they spread over, share of idempotent batches (0 to 1)."""

    batches_per_file: int
    partitions: int
    idempotent_share: float = 0.3


@dataclass(slots=True)
class Template:
    """One encoded request; of its idempotent batches: the places of the sequences, their producers, and the numbers of records."""

    frame: bytearray
    key_at: int
    sequences_at: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]


class Workload:
    """The requests of one connection."""

    def __init__(self, shape: Shape, partition_keys: Sequence[bytes], owner_ids: list[int], *, seed: int, templates: int = 8) -> None:
        """`partition_keys` are 20-byte keys (topic id, partition index) of one coordinator."""
        self._random = random.Random(f"{seed} {time.time_ns()}")
        self._keys = list(partition_keys)
        self._shape = shape
        self._owner_ids = owner_ids
        self._slot_of: dict[tuple[int, int], int] = {}
        # Producer ids of earlier runs must not come again: their sequences would not fit.
        self._producer_base = self._random.getrandbits(50) << 12
        self._made = [self._template() for _ in range(templates)]
        self._sequences = np.zeros(len(self._slot_of) + 1, np.int64)
        self._next = 0
        self._mark = self._random.getrandbits(32)
        self._count = 0
        self._time_ms = 0
        self._time_text = ""

    def next_frame(self, correlation_id: int) -> bytes:
        """A request that was never sent before."""
        template = self._made[self._next]
        self._next = (self._next + 1) % len(self._made)
        frame = template.frame
        frame[CORRELATION_AT : CORRELATION_AT + 4] = correlation_id.to_bytes(4, "big")
        frame[template.key_at : template.key_at + ULID_LENGTH] = self._next_ulid()
        put_sequences(memoryview(frame), template.sequences_at.data, template.slots.data, template.counts.data, self._sequences.data)
        return bytes(frame)

    def _next_ulid(self) -> bytes:
        """A new ULID: the time, then this connection's mark and a counter instead of random bits."""
        self._count += 1
        now_ms = time.time_ns() // 1_000_000
        if now_ms - self._time_ms >= ULID_TIME_STEP_MS:
            self._time_ms = now_ms
            self._time_text = new_ulid(now_ms, bytes(10))[:10]
        return b"%s%08X%08X" % (self._time_text.encode(), self._mark, self._count)

    def _template(self) -> Template:
        rows, file_size, slots = self._batches()
        key = "wal/" + "0" * ULID_LENGTH
        body = encode_commit_file(CommitFileBody(key, 1, file_size, self._owner_ids, rows.view(WIRE_BATCH)))
        frame = bytearray(request_frame(COMMIT_FILE_KEY, 0, 0, "bench", body, flexible=True))
        rows_at = len(frame) - 5 - BATCH.itemsize * len(rows)
        idempotent = np.flatnonzero(rows["producer_id"] >= 0)
        return Template(
            frame=frame,
            key_at=frame.index(b"0" * ULID_LENGTH),
            sequences_at=rows_at + BATCH.itemsize * idempotent + BASE_SEQUENCE_AT,
            slots=np.array(slots, np.int64),
            counts=(rows["last_offset"][idempotent] - rows["base_offset"][idempotent] + 1).astype(np.int64),
        )

    def _batches(self) -> tuple[npt.NDArray[np.void], int, list[int]]:
        rng, n = self._random, self._shape.batches_per_file
        rows = np.zeros(n, BATCH)
        slots: list[int] = []
        taken: set[int] = set()
        at = 0
        now_ms = time.time_ns() // 1_000_000
        places = sorted(rng.randrange(len(self._keys)) for _ in range(n))
        for row, place in zip(rows, places, strict=True):
            size = int(1024 * 64 ** rng.random())
            records = max(1, size // rng.randrange(100, 1200))
            row["magic"], row["topic_partition"] = 2, self._keys[place]
            row["byte_offset"], row["size"] = at, size
            row["last_offset"], row["max_timestamp"] = records - 1, now_ms - rng.randrange(250)
            row["producer_id"] = row["producer_epoch"] = row["base_sequence"] = row["last_sequence"] = -1
            at += size
            if rng.random() < self._shape.idempotent_share:
                slot = self._slot(place, rng.randrange(PRODUCERS_PER_PARTITION))
                # A producer has one batch per file at most: its sequences are patched without looking at each other.
                if slot not in taken:
                    taken.add(slot)
                    slots.append(slot)
                    row["producer_id"], row["producer_epoch"] = self._producer_base + slot, 0
        return rows, at, slots

    def _slot(self, place: int, producer: int) -> int:
        return self._slot_of.setdefault((place, producer), len(self._slot_of))
