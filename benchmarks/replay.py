"""The cost of a cold replay inside one process, without Kafka: from log entries to state and to a written state database.

    python -m benchmarks.replay [--batches N] [--profile]

Files of 100 and of 10 batches over 100 partitions of 10 topics, 30 % of the batches idempotent, reach a following shard
as the reader hands them over. Printed are the CPU time per batch of the shard by step, and, with the thread that writes
the state database beside it as in the service, the rates until all is applied and until all is written (wall time). Then all records are
deleted, their batches counted out, and the files removed: CPU per batch and per key, and CPU per key for writing that.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import wraps
from itertools import accumulate
from pathlib import Path
from typing import ParamSpec, TypeVar
from unittest import mock

from benchmarks.profiling import profiled
from coordinator.adapters.sqlite import StateDatabase
from coordinator.core.events import EntriesRead
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ReadEntry
from coordinator.core.shard import Shard
from coordinator.core.state.lookups import OFFSET_END
from coordinator.core.state.packing import Packer
from coordinator.core.state.replica_state import ShardState
from coordinator.runtime.files.empty_files import KEYS_PER_ENTRY_FREE
from records.codec import encode_entry
from records.committed_files.codec import CommittedBatch, FileCommitted, read_files
from records.committed_files.lines import BatchVerdict
from records.entry_key import EntryKey, encode_key
from records.log import Fence
from records.model import FilesRemoved, LeadershipClaimed, PartitionCreated, RecordsDeleted
from simulation.fakes.state_store import MemoryStateStore

T = TypeVar("T")
P = ParamSpec("P")

TOPICS = [bytes([number]) * 16 for number in range(1, 11)]
PARTITIONS_OF_TOPIC = 10
PRODUCERS_OF_PARTITION = 3
IDEMPOTENT_SHARE = 0.3
CHUNK_ENTRIES = 500
FLUSH_BATCHES_MAX = 100_000
"""The default of `state.flush.max.batches`."""
OF_BATCHES, OF_KEYS = ("count out", "write deletions"), ("remove", "write removals")
"""Steps of deleting everything, whose CPU is printed per batch and per file."""
START_MS = 1_760_000_000_000
TERM = 77


class Log:
    """Makes the entries of a log whose offsets and sequences continue from file to file."""

    def __init__(self, batches_per_file: int) -> None:
        self._random = random.Random(batches_per_file)
        self._batches_per_file = batches_per_file
        self._next_offset: dict[tuple[int, int], int] = {}
        self._next_sequence: dict[tuple[int, int, int], int] = {}
        self._seq = 0
        self._keys: list[str] = []

    def deletions(self) -> list[ReadEntry]:
        """The entries behind the files that delete all their records."""
        records = [
            RecordsDeleted(topic_id=TOPICS[topic], partition=partition, new_log_start_offset=offset)
            for (topic, partition), offset in self._next_offset.items()
        ]
        return self._entries([encode_entry([record]) for record in records])

    def removals(self) -> list[ReadEntry]:
        """The entries behind the deletions that remove all files."""
        keys, size = self._keys, KEYS_PER_ENTRY_FREE
        return self._entries([encode_entry([FilesRemoved(object_keys=keys[at : at + size])]) for at in range(0, len(keys), size)])

    def _entries(self, values: list[bytes], epoch: int = 1) -> list[ReadEntry]:
        first, self._seq = self._seq, self._seq + len(values)
        return [ReadEntry(at, START_MS, encode_key(EntryKey(epoch, TERM, at)), value) for at, value in enumerate(values, first)]

    def entries(self, batches: int, *, epoch: int = 1) -> list[ReadEntry]:
        """A claim, the partitions, and files with so many batches."""
        claim = LeadershipClaimed(epoch=epoch, term=TERM, node_id=1, rack="", endpoints=[])
        values = [encode_entry([claim])]
        for topic_id in TOPICS:
            created = PartitionCreated(
                topic_id=topic_id, name=f"t{topic_id[0]}", first_partition=0, num_partitions=PARTITIONS_OF_TOPIC, order_offset=1
            )
            values.append(encode_entry([created]))
        values += [encode_entry([self._file(number)]) for number in range(batches // self._batches_per_file)]
        return self._entries(values, epoch)

    def _file(self, number: int) -> FileCommitted:
        rng, n = self._random, self._batches_per_file
        places = sorted((rng.randrange(len(TOPICS)), rng.randrange(PARTITIONS_OF_TOPIC)) for _ in range(n))
        sizes = [int(1024 * 64 ** rng.random()) for _ in places]
        counts = [max(1, size // rng.randrange(100, 1200)) for size in sizes]
        producers = [rng.randrange(PRODUCERS_OF_PARTITION) if rng.random() < IDEMPOTENT_SHARE else -1 for _ in places]
        bases, sequences = [], []
        for place, count, producer in zip(places, counts, producers, strict=True):
            bases.append(self._next_offset.get(place, 0))
            self._next_offset[place] = bases[-1] + count
            sequences.append(self._next_sequence.get((*place, producer), 0))
            self._next_sequence[*place, producer] = (sequences[-1] + count) % 2**31
        batches = [
            CommittedBatch(
                topic_id=TOPICS[place[0]],
                partition=place[1],
                verdict=BatchVerdict.ACCEPTED,
                base_offset=base,
                record_count=count,
                byte_offset=end - size,
                byte_size=size,
                timestamp_ms=START_MS + number - rng.randrange(250),
                timestamp_type=0,
                producer_id=place[0] * 1000 + place[1] * 10 + producer if producer >= 0 else -1,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence if producer >= 0 else -1,
                log_start=0,
                detail=0,
            )
            for place, size, end, count, base, producer, sequence in zip(
                places, sizes, accumulate(sizes), counts, bases, producers, sequences, strict=True
            )
        ]
        self._keys.append(f"wal/01K{number:023d}")
        return FileCommitted(
            object_key=self._keys[-1], object_format=1, file_size=sum(sizes), uploader_broker_id=1, owner_ids=[0],
            created_ms=START_MS + number - 250, append_time_ms=START_MS + number, content_hash=rng.randbytes(16), batches=batches,
        )  # fmt: skip


def new_shard(state: ShardState) -> Shard:
    """A shard that follows from the start of a log."""
    return Shard(
        partition=0, partition_count=1, node_id=2, rack="", endpoints=[], limits=Limits(), state=state, fence=Fence(), claim=None,
        certain_end=OFFSET_END,
    )  # fmt: skip


def chunks(entries: list[ReadEntry]) -> Iterator[list[ReadEntry]]:
    """The entries as the reader hands them over."""
    return (entries[at : at + CHUNK_ENTRIES] for at in range(0, len(entries), CHUNK_ENTRIES))


class Stopwatch:
    """CPU seconds spent in calls, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, name: str, call: Callable[P, T]) -> Callable[P, T]:
        """The call, timed under a name."""
        self.seconds[name] = 0.0

        @wraps(call)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            started = time.process_time()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds[name] += time.process_time() - started

        return timed


def apply_all(entries: list[ReadEntry]) -> tuple[float, dict[str, float]]:
    """CPU seconds of the shard alone, and of its steps."""
    watch = Stopwatch()
    shard = new_shard(ShardState(cold=MemoryStateStore().reader()))
    with (
        mock.patch("coordinator.core.follower.read_files", watch.timed("decode", read_files)),
        mock.patch.object(ShardState, "apply_files", watch.timed("apply", ShardState.apply_files)),
    ):
        started = time.process_time()
        for chunk in chunks(entries):
            shard.feed(EntriesRead(chunk), START_MS)
        seconds = time.process_time() - started
    if shard.failure is not None or shard.committed.state.applied_offset != len(entries) - 1:
        raise AssertionError(f"applied offset {shard.committed.state.applied_offset} of {len(entries)} entries: {shard.failure}")
    return seconds, {**watch.seconds, "rest": seconds - sum(watch.seconds.values())}


class Replica:
    """A following shard and its state database, written as the service does: by a thread, as often as there is enough."""

    def __init__(self, path: Path) -> None:
        self._database = StateDatabase(path, cluster_id="benchmark", topic_id=b"t" * 16, metadata_partition=0)
        self._database.open()
        self._shard, self._packer = new_shard(ShardState(cold=self._database.reader())), Packer()
        self._writer = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[None] | None = None

    def apply(self, entries: list[ReadEntry]) -> None:
        """Apply entries, and write beside it what has come together."""
        for chunk in chunks(entries):
            self._shard.feed(EntriesRead(chunk), START_MS)
            if self._writing is not None and self._writing.done():
                self._wait()
            if self._writing is None and self._shard.committed.state.unwritten_batches >= FLUSH_BATCHES_MAX:
                self._begin()
        if self._shard.failure is not None:
            raise AssertionError(self._shard.failure)

    def trim(self) -> None:
        """Count all deleted batches out of their files."""
        while self._shard.committed.state.trim_step():
            pass

    def write(self) -> None:
        """Write everything."""
        if self._writing is not None:
            self._wait()
        self._begin()
        self._wait()

    def close(self) -> None:
        """End it."""
        self._writer.shutdown()
        self._database.close(clean=False)

    def _begin(self) -> None:
        freeze = self._shard.freeze(replace(self._shard.header("benchmark", b"t" * 16), last_entry_hash=b"h" * 16))
        self._writing = self._writer.submit(lambda: self._database.write(self._packer.pack(freeze)))

    def _wait(self) -> None:
        assert self._writing is not None
        self._writing.result()
        self._writing = None
        self._shard.written()


def apply_and_write_all(log: Log, entries: list[ReadEntry], path: Path) -> tuple[float, float, dict[str, float]]:
    """Seconds until all is applied and until all is written; then CPU seconds of deleting and removing it again, by step."""
    replica = Replica(path)
    started = time.perf_counter()
    replica.apply(entries)
    applied = time.perf_counter()
    replica.write()
    written = time.perf_counter()
    seconds: dict[str, float] = {}

    def timed(name: str, step: Callable[[], None]) -> None:
        before = time.process_time()
        step()
        seconds[name] = time.process_time() - before

    deletions = log.deletions()
    timed("delete", lambda: replica.apply(deletions))
    timed("count out", replica.trim)
    timed("write deletions", replica.write)
    removals = log.removals()
    timed("remove", lambda: replica.apply(removals))
    timed("write removals", replica.write)
    replica.close()
    return applied - started, written - started, seconds


def main() -> None:
    """Print the figures of both shapes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=300_000)
    parser.add_argument("--profile", action="store_true", help="print the functions that take the time")
    options = parser.parse_args()
    for batches_per_file in (1000, 100, 10):
        log = Log(batches_per_file)
        entries = log.entries(options.batches)
        with profiled(options.profile):
            seconds, steps = apply_all(entries)
        parts = ", ".join(f"{name} {part / options.batches * 1e6:.3f}" for name, part in steps.items())
        print(f"files of {batches_per_file}: {options.batches / seconds:,.0f} batches/s; us per batch: {parts}")
        if options.profile:
            continue
        with tempfile.TemporaryDirectory() as name:
            applied, written, steps = apply_and_write_all(log, entries, Path(name) / "state")
        print(f"  with the state database: applied {options.batches / applied:,.0f} batches/s, written {options.batches / written:,.0f}")
        keys = options.batches // batches_per_file
        print("  us per batch: " + ", ".join(f"{name} {steps[name] / options.batches * 1e6:.3f}" for name in OF_BATCHES))
        print("  us per key: " + ", ".join(f"{name} {steps[name] / keys * 1e6:.2f}" for name in OF_KEYS))


if __name__ == "__main__":
    main()
