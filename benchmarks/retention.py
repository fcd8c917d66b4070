"""The cost of retention in one process: looking, deleting through the log, and counting deleted batches out of their files.

    python -m benchmarks.retention [--partitions N] [--rate BATCHES_A_SECOND] [--interval SECONDS]

A state database is filled with the batches that come between two looks, over all partitions at the same rate, each partition in turn.
Then everything but the newest tenth is past retention, by time or by size: all partitions are looked at, their records are deleted in
entries of 500 partitions, and deleted batches are counted out and written. CPU milliseconds of the thread, and the share of a core that
is when it happens once every interval. `deciding` is the work of retention itself; `counting out` and `writing` are what every deletion of
records costs, whoever asks for it. A shorter interval has fewer batches in a look, so that its partitions weigh more.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from benchmarks.state_database import CLUSTER_ID, START_MS, TOPIC_ID, header
from coordinator.adapters.sqlite import StateDatabase
from coordinator.core.commands import DeletePoint, DeleteRecords
from coordinator.core.deciding.decide import decide_write
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.limits import Limits
from coordinator.core.reads.retention import Known, look_at
from coordinator.core.state.packing import Packer
from coordinator.core.state.replica_state import ShardState
from coordinator.kafka.topic_configs import Retention
from coordinator.runtime.retention.enforcer import POINTS_MAX
from records.codec import encode_entry
from records.committed_files.codec import CommittedBatch, FileCommitted, table_of
from records.committed_files.lines import BatchVerdict
from records.model import PartitionCreated

FILE_BATCHES = 100
FLUSH_S = 0.5
BATCH_BYTES = 1000
KEPT_SHARE = 0.1


class Spent(AbstractContextManager[None]):
    """CPU milliseconds of this thread, summed over blocks."""

    def __init__(self) -> None:
        self.ms = 0.0
        self._from = 0.0

    def __enter__(self) -> None:
        self._from = time.thread_time()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.ms += (time.thread_time() - self._from) * 1000


class Bench:
    """A filled state; the batches of a partition have a record each, and times in their order."""

    def __init__(self, folder: Path, partitions: int, rate: int, interval_s: float) -> None:
        self.partitions = partitions
        self._per_ms = rate / 1000
        self.database = StateDatabase(folder / "state", cluster_id=CLUSTER_ID, topic_id=TOPIC_ID, metadata_partition=0)
        self.database.open()
        self.state, self.packer = ShardState(cold=self.database.reader()), Packer()
        created = PartitionCreated(topic_id=TOPIC_ID, name="t", first_partition=0, num_partitions=partitions, order_offset=0)
        self.state.apply_entry([created], 0)
        self.entry = 1
        self.batches = 0
        rng = random.Random(1)
        flush_files = max(1, round(rate * FLUSH_S / FILE_BATCHES))
        for number in range(int(rate * interval_s / FILE_BATCHES)):
            self._commit(rng)
            if number % flush_files == 0:
                self.flush()
        self.flush()

    def now_ms(self) -> int:
        """The time of the newest batch."""
        return START_MS + int(self.batches / self._per_ms)

    def _commit(self, rng: random.Random) -> None:
        lines = []
        for place in range(FILE_BATCHES):
            offset, partition = divmod(self.batches, self.partitions)
            time_ms = self.now_ms()
            lines.append(CommittedBatch(TOPIC_ID, partition, BatchVerdict.ACCEPTED, offset, 1, place * BATCH_BYTES, BATCH_BYTES, time_ms))
            self.batches += 1
        record = FileCommitted(
            object_key=f"wal/01K{self.entry:023d}", object_format=1, file_size=FILE_BATCHES * BATCH_BYTES, uploader_broker_id=1,
            owner_ids=[0], created_ms=time_ms, append_time_ms=time_ms, content_hash=rng.randbytes(16), batches=lines,
        )  # fmt: skip
        files = LoggedFiles(table_of([record]), [encode_entry([record])])
        files.offsets[0] = self.entry
        self.state.apply_files(files, 0, 1)
        self.entry += 1

    def flush(self) -> None:
        """Write all applied changes."""
        self.database.write(self.packer.pack(self.state.freeze(header(self.state))))
        self.state.written()

    def delete(self, points: list[DeletePoint]) -> int:
        """Decide, encode and apply an entry, as a leader does; returns its bytes."""
        decision = decide_write(self.state.hot, DeleteRecords(points=points), Limits())
        encoded = encode_entry(decision.records)
        self.state.apply_entry(decision.records, self.entry)
        self.entry += 1
        return len(encoded)


def enforce(bench: Bench, retention: Retention, known: dict[int, Known], interval_s: float, title: str) -> None:
    """Look at everything until nothing is past retention, and print the time that it took."""
    deciding, deleting, counting, writing = Spent(), Spent(), Spent(), Spent()
    now_ms = bench.now_ms()
    entry_bytes = gone = 0
    wanted: list[int] = list(range(bench.partitions))
    while wanted:
        again: list[int] = []
        points: list[DeletePoint] = []
        for partition in wanted:
            with deciding:
                look = look_at(bench.state, TOPIC_ID, partition, retention, now_ms, known.get(partition))
            assert look is not None
            known[partition] = look.known
            gone += look.batches
            if look.has_more:
                again.append(partition)
            if look.batches:
                points.append(DeletePoint(topic_id=TOPIC_ID, partition=partition, offset=look.delete_to))
            if len(points) == POINTS_MAX or (points and partition == wanted[-1]):
                with deleting:
                    entry_bytes += bench.delete(points)
                points = []
        wanted = again
    with counting:
        while bench.state.trim_step():
            pass
    if gone:
        with writing:
            bench.flush()

    def share(spent: Spent) -> str:
        return f"{spent.ms:9,.0f} ms {spent.ms / interval_s / 10:6.2f} %"

    print(f"{title}: {gone} batches of {bench.partitions} partitions, {entry_bytes:,} bytes of log")
    for name, spent in (("deciding", deciding), ("deleting", deleting), ("counting out", counting), ("writing", writing)):
        print(f"  {name:13} {share(spent)} of a core" + (f", {spent.ms / gone * 1000:6.2f} us/batch" if gone else ""))


def main() -> None:
    """Fill and measure, by time and by size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--interval", type=float, default=60.0)
    options = parser.parse_args()
    kept = int(options.rate * options.interval * KEPT_SHARE)
    limits: dict[str, Callable[[], Retention]] = {
        "by time": lambda: Retention(ms=int(options.interval * 1000 * KEPT_SHARE)),
        "by size": lambda: Retention(size_bytes=kept * BATCH_BYTES // options.partitions),
    }
    for title, limit in limits.items():
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(Path(folder), options.partitions, options.rate, options.interval)
            known: dict[int, Known] = {}
            unlimited = Retention(ms=1 << 50, size_bytes=1 << 50)
            enforce(bench, unlimited, known, options.interval, f"{title}, first look, nothing is past retention")
            enforce(bench, unlimited, known, options.interval, f"{title}, second look, nothing has changed")
            enforce(bench, limit(), known, options.interval, title)
            bench.database.close(clean=False)


if __name__ == "__main__":
    main()
