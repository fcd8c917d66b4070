"""Print the cost of taking and loading a snapshot, beside raw SQLite.

    python -m benchmarks.snapshots [batches ...]

The state holds so many live batches (1 million unless said otherwise) in files of 100 over 100 partitions. Taking: the state is pinned and
written as a file. Loading: the file is read, made a database, proven, opened, and restored to memory, as a replica does that has nothing.
Jobs: what those of `spark_jobs` do with a snapshot that they begin with, without Spark.
Raw SQLite writes the same number of plain rows of six numbers in one transaction, and reads them again. CPU seconds stand beside those of
the clock, because other work on the machine counts for the latter.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from benchmarks.state_database import CLUSTER_ID, TOPIC_ID, fill
from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.core.state.replica_state import ShardState
from records.snapshot import SnapshotReader, write_snapshot
from spark_jobs.archive.snapshot_rows import snapshot_rows
from spark_jobs.snapshots.content import read_content
from spark_jobs.store.sink import Store
from spark_jobs.verify.from_snapshot import prove

BATCHES = 1_000_000
BATCHES_A_FILE = 100


@contextmanager
def timed(what: str, more: Callable[[float], str] = lambda _: "") -> Iterator[None]:
    """Print how long the block took."""
    clock, cpu = time.perf_counter(), time.process_time()
    yield
    seconds = time.perf_counter() - clock
    print(f"{what:44s} {seconds:7.3f} s, CPU {time.process_time() - cpu:7.3f} s{more(seconds)}", flush=True)


def rest() -> None:
    """The benchmark has no event loop to make way for."""


def raw_sqlite(folder: Path, rows: int) -> None:
    """Write and read plain rows."""
    connection = apsw.Connection(str(folder / "raw.db"))
    connection.execute("PRAGMA journal_mode = wal").fetchall()
    connection.execute("PRAGMA synchronous = OFF").fetchall()
    connection.execute("CREATE TABLE batch (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER)")
    with timed(f"raw SQLite: {rows} plain rows written"), connection:
        connection.executemany("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)", ((n, n, n, n, n, n) for n in range(rows)))
    with timed(f"raw SQLite: {rows} plain rows read"):
        for _ in connection.execute("SELECT * FROM batch"):
            pass
    connection.close()


def measure(folder: Path, batches: int) -> None:
    """Take and load one snapshot."""
    taken_from, loaded_into = (StateDatabases(folder / name) for name in ("leader", "replica"))
    for stores in (taken_from, loaded_into):
        stores.directory.mkdir()
    database = taken_from.open(0, CLUSTER_ID, TOPIC_ID)
    fill(database, batches, BATCHES_A_FILE)
    with timed("taken: pinned, read and written", lambda s: f", {batches / s / 1e6:.2f} M batches/s"):
        pinned = database.pin()
        file = write_snapshot(folder, pinned.head, pinned.tables(rest), log_timestamp_ms=1, rest=rest)
        pinned.close()
    database_bytes = database.path.stat().st_size
    database.close(clean=False)
    print(f"{'size':44s} {file.size_bytes / batches:7.2f} bytes a batch; the database {database_bytes / batches:.2f}")
    with timed("loaded: cold, until a replica serves", lambda s: f", {batches / s / 1e6:.2f} M batches/s"):
        with timed("  read, made a database and proven"), SnapshotReader(file.path) as reader:
            stored = loaded_into.build(0, reader.head, reader.rows())
        with timed("  opened and restored to memory"):
            loaded = loaded_into.open(0, CLUSTER_ID, TOPIC_ID)
            state = ShardState.restore(stored, loaded.reader())
    assert state.applied_offset == stored.header.applied_offset
    loaded.close(clean=False)
    with timed("jobs: proven, as verify begins"):
        prove(file.path)
    with timed("jobs: the monitor's store begun"), Store.open(folder / "monitor") as store:
        store.start_from(read_content(file.path), 0)
    with timed("jobs: made rows of the archive"):
        rows = sum(batch.num_rows for batch in snapshot_rows(read_content(file.path), None))
    assert rows > 0


def main() -> None:
    """Print the figures."""
    for batches in map(int, sys.argv[1:] or [BATCHES]):
        print(f"{batches} live batches")
        with tempfile.TemporaryDirectory(prefix="diskless-benchmark-") as name:
            folder = Path(name)
            measure(folder, batches)
            raw_sqlite(folder, batches)


if __name__ == "__main__":
    main()
