"""Print the cost of the proof of a state database at a start, and the cost of the hashes of rows in a write and in a read.

The database holds files of 100 batches over 100 partitions, written in bursts of 100 files. A start is opened and loaded several
times; "without the proof" reads what a start would need otherwise: the hot rows and the object keys. CPU seconds stand beside those
of the clock, because other work on the machine counts for the latter. Run: `python -m benchmarks.restart_proof [batches]`. It
prints, it never judges.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.state_database import CLUSTER_ID, PARTITIONS, TOPIC_ID, fill, measure_us
from coordinator.adapters.sqlite import StateDatabase
from coordinator.adapters.sqlite.proofs import run_proof
from coordinator.adapters.sqlite.schema import connect_reader, fetch
from coordinator.adapters.sqlite.stored import CHECK, select_all
from coordinator.core.state.replica_state import ShardState

ROUNDS = 5
KEYS = "SELECT object_key FROM file"


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Medians of seconds by the clock and of the CPU."""
    taken = []
    for _ in range(ROUNDS):
        clock, cpu = time.perf_counter(), time.process_time()
        call()
        taken.append((time.perf_counter() - clock, time.process_time() - cpu))
    return statistics.median(one for one, _ in taken), statistics.median(one for _, one in taken)


def read_unproven(path: Path) -> None:
    """Read the rows that a start needs when it proves nothing."""
    connection = connect_reader(path)
    for table in ("partition", "producer", "topic"):
        fetch(connection, select_all(table))
    set(map(hash, (row[0] for row in connection.execute(KEYS))))
    connection.close()


def main() -> None:
    """Print the figures."""
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        database = StateDatabase(Path(folder) / "state", cluster_id=CLUSTER_ID, topic_id=TOPIC_ID, metadata_partition=0)
        database.open()
        state, packing, writing = fill(database, batches, 100)
        print(f"{batches} batches: packing {packing / batches * 1e6:.2f} us a batch, writing {writing / batches * 1e6:.2f}")
        database.close()
        database.open()
        reader, high_watermark = database.reader(), state.hot.partitions.high_watermark.cells
        run = reader.run_covering(0, high_watermark[0] // 2)
        assert run is not None
        of_run = measure_us(lambda: reader.run_covering(0, high_watermark[0] // 2))
        print(f"read of a run {of_run:.1f} us, of which its hash {measure_us(lambda: run_proof(1, run)):.1f} ({len(run.data)} bytes)")
        for what, call in (
            ("start without the proof", lambda: read_unproven(database.path)),
            ("structure (integrity_check)", lambda: fetch(connect_reader(database.path), CHECK)),
            ("load with the proof, structure included", database.load),
        ):
            clock, cpu = seconds(call)
            print(f"{what:42s} {clock:6.3f} s, CPU {cpu:6.3f} s")
        stored = database.load()
        assert stored is not None
        start = time.perf_counter()
        ShardState.restore(stored, reader)
        print(f"{'restore of the state':42s} {time.perf_counter() - start:6.3f} s ({PARTITIONS} partitions)")
        database.close(clean=False)


if __name__ == "__main__":
    main()
