"""Print the cost of writing a state database, its size, and the speed of reading it back.

The workload: files of 100 batches over 100 partitions, as bursts (a flush holds many files) or as a trickle (a flush
holds few, so that every partition gets a batch or two). Beside the figures stand those of SQLite alone in the same run:
inserting one lean row per batch with the same pragmas. Run: `python -m benchmarks.state_database [batches]`. It prints,
it never judges.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from coordinator.adapters.sqlite import StateDatabase, StateReader
from coordinator.adapters.sqlite.schema import PAGE_BYTES, fetch
from coordinator.core.files.logged import LoggedFiles
from coordinator.core.state.packing import Packer
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.stored_rows import Header
from records.codec import encode_entry
from records.committed_files.codec import CommittedBatch, FileCommitted, table_of
from records.committed_files.lines import BatchVerdict
from records.model import PartitionCreated

PARTITIONS = 100
FILE_BATCHES = 100
START_MS = 1_760_000_000_000
RECORDS_PER_BATCH = 20
CLUSTER_ID = "benchmark"
TOPIC_ID = b"t" * 16
LEAN_ROW = "CREATE TABLE batch (partition, last, byte_offset, size, file, timestamp, PRIMARY KEY (partition, last)) WITHOUT ROWID"


def make_file(number: int, rng: random.Random, next_offset: list[int]) -> FileCommitted:
    """One batch for every partition."""
    append_time_ms, end = START_MS + number * 5, 0
    batches = []
    for partition in range(FILE_BATCHES):
        size, count = rng.randrange(1000, 60_000), 1 + rng.randrange(RECORDS_PER_BATCH)
        timestamp_ms = append_time_ms - rng.randrange(250)
        batches.append(
            CommittedBatch(
                topic_id=TOPIC_ID,
                partition=partition,
                verdict=BatchVerdict.ACCEPTED,
                base_offset=next_offset[partition],
                record_count=count,
                byte_offset=end,
                byte_size=size,
                timestamp_ms=timestamp_ms,
                timestamp_type=0,
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                log_start=0,
                detail=0,
            )
        )
        next_offset[partition] += count
        end += size
    return FileCommitted(
        object_key=f"wal/01K{number:023d}", object_format=1, file_size=end, uploader_broker_id=1, owner_ids=[0],
        created_ms=append_time_ms - 250, append_time_ms=append_time_ms, content_hash=rng.randbytes(16), batches=batches,
    )  # fmt: skip


def header(state: ShardState) -> Header:
    """A header with the state's applied offset."""
    return Header(
        cluster_id=CLUSTER_ID, topic_id=TOPIC_ID, metadata_partition=0, applied_offset=state.applied_offset, epoch=1, term=1, seq=1,
        leader_node_id=1, leader_endpoints="", log_time_ms=state.hot.log_time_ms, last_entry_hash=bytes(16), digest=b"",
    )  # fmt: skip


def fill(database: StateDatabase, batches: int, files_per_flush: int) -> tuple[ShardState, float, float]:
    """Write so many batches; returns the state and the seconds spent in packing and in writing."""
    rng = random.Random(1)
    next_offset = [0] * PARTITIONS
    state, packer = ShardState(cold=database.reader()), Packer()
    created = PartitionCreated(topic_id=TOPIC_ID, name="t", first_partition=0, num_partitions=PARTITIONS, order_offset=0)
    state.apply_entry([created], 0)
    packing = writing = 0.0
    for number in range(batches // FILE_BATCHES):
        record = make_file(number, rng, next_offset)
        files = LoggedFiles(table_of([record]), [encode_entry([record])])
        files.offsets[0] = number + 1
        state.apply_files(files, 0, 1)
        if (number + 1) % files_per_flush == 0:
            freeze = state.freeze(header(state))
            start = time.perf_counter()
            flush = packer.pack(freeze)
            packed = time.perf_counter()
            database.write(flush)
            writing += time.perf_counter() - packed
            packing += packed - start
            state.written()
    return state, packing, writing


def lean_rows_us(path: Path, batches: int, per_transaction: int) -> float:
    """Microseconds per row of inserting one lean row per batch with executemany."""
    connection = apsw.Connection(str(path))
    for pragma in (f"page_size = {PAGE_BYTES}", "journal_mode = wal", "synchronous = OFF"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute(LEAN_ROW)
    rows = [(n % PARTITIONS, n * 10, n * 100, 100, n // FILE_BATCHES, START_MS + n) for n in range(batches)]
    start = time.perf_counter()
    for at in range(0, batches, per_transaction):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)", rows[at : at + per_transaction])
        connection.execute("COMMIT")
    seconds = time.perf_counter() - start
    connection.close()
    return seconds / batches * 1e6


def measure_us(call: Callable[[], object], rounds: int = 7, times: int = 2000) -> float:
    """Median microseconds of a call."""
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            call()
        taken.append((time.perf_counter() - start) / times * 1e6)
    return statistics.median(taken)


def print_lookups(state: ShardState, reader: StateReader) -> None:
    """Random lookups over all written rows."""
    rng = random.Random(2)
    files = state.applied_offset
    high_watermark = state.hot.partitions.high_watermark.cells
    last_ms = START_MS + files * 5

    def place() -> tuple[int, int]:
        row = rng.randrange(PARTITIONS)
        return row, rng.randrange(high_watermark[row])

    for row in range(PARTITIONS):
        reader.run_covering(row, 0)
    print(f"  random numbers alone      {measure_us(place):6.2f} us (contained in all that follow)")
    print(f"  run_covering              {measure_us(lambda: reader.run_covering(*place())):6.2f} us")
    print(f"  run_reaching (timestamp)  {measure_us(lambda: reader.run_reaching(place()[0], 0, rng.randrange(START_MS, last_ms))):6.2f} us")
    print(f"  max_run                   {measure_us(lambda: reader.max_run(*place())):6.2f} us")
    print(f"  file_name                 {measure_us(lambda: reader.file_name(rng.randrange(1, files))):6.2f} us")
    print(f"  file_by_key               {measure_us(lambda: reader.file_by_key(f'wal/01K{rng.randrange(files):023d}')):6.2f} us")


def print_size(path: Path, batches: int) -> None:
    """Bytes per live batch, by table."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = fetch(connection, "SELECT name, sum(pgsize) FROM dbstat GROUP BY name HAVING sum(pgsize) > 100000 ORDER BY 2 DESC")
    runs = fetch(connection, "SELECT count(*) FROM run")[0][0]
    connection.close()
    print(f"  {path.stat().st_size / batches:6.1f} bytes per batch in {runs} runs:", ", ".join(f"{n} {b / batches:.1f}" for n, b in rows))


def busy_write_seconds(folder: Path, files: int) -> tuple[float, float]:
    """Seconds of one flush while the other thread is idle, and while it computes."""
    taken = []
    for is_busy in (False, True):
        database = StateDatabase(folder / f"busy{is_busy}", cluster_id=CLUSTER_ID, topic_id=TOPIC_ID, metadata_partition=0)
        database.open()
        stop = threading.Event()

        def spin(stop: threading.Event = stop) -> None:
            while not stop.is_set():
                sum(range(1000))

        thread = threading.Thread(target=spin)
        if is_busy:
            thread.start()
        try:
            _, _, seconds = fill(database, files * FILE_BATCHES, files)
        finally:
            stop.set()
        if is_busy:
            thread.join()
        taken.append(seconds)
        database.close(clean=False)
    return taken[0], taken[1]


def main() -> None:
    """Print the figures of every shape."""
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, files_per_flush, share in (
            ("bursts, 1000 files per flush", 1000, 1),
            ("100 files per flush", 100, 1),
            ("trickle, 2 files per flush", 2, 5),
        ):
            count = batches // share
            lean = lean_rows_us(folder / f"lean{files_per_flush}", count, files_per_flush * FILE_BATCHES)
            database = StateDatabase(folder / f"state{files_per_flush}", cluster_id=CLUSTER_ID, topic_id=TOPIC_ID, metadata_partition=0)
            database.open()
            state, packing, writing = fill(database, count, files_per_flush)
            write_us = writing / count * 1e6
            print(f"{title}: {count} batches")
            print(f"  write {write_us:.2f} us per batch, packing and digest {packing / count * 1e6:.2f} us")
            print(f"  one lean row per batch in SQLite alone {lean:.2f} us: {lean / write_us:.1f} times as long")
            print_lookups(state, database.reader())
            start = time.perf_counter()
            database.close(clean=True)
            print(f"  clean close {time.perf_counter() - start:.2f} s")
            print_size(database.path, count)
            start = time.perf_counter()
            database.open()
            stored = database.load()
            assert stored is not None
            ShardState.restore(stored, database.reader())
            print(f"  open, load and restore {time.perf_counter() - start:.2f} s")
            database.close(clean=False)
        idle, busy = busy_write_seconds(folder, 500)
        print(f"one flush of 500 files: {idle:.3f} s alone, {busy:.3f} s while another thread computes")


if __name__ == "__main__":
    main()
