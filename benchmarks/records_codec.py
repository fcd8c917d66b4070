"""Print the cost of encoding and decoding a `FileCommitted`, and the log bytes of a batch.

The workload: files of 10 to 1000 batches over 100 partitions (10 topics), sorted by partition; 30 % idempotent; sizes
log-uniform from 1 to 64 KiB; timestamps within 250 ms. Run: `python -m benchmarks.records_codec`. It prints, it never
judges. The first line says how fast this machine is right now: compare figures at the same speed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from records.codec import decode_entry, encode_entry
from records.committed_files.codec import CommittedBatch, FileCommitted, encode_files, read_files, table_of
from records.levels import LEVEL_LATEST

APPEND_TIME_MS = 1_760_000_000_000
IDEMPOTENT_SHARE = 0.3
FILES_TOGETHER = 20
SECONDS = 0.5
CALLS = 5


def make_file(generator: random.Random, num_batches: int, offset_max: int = 2_000_000_000) -> FileCommitted:
    """Return a file of the workload whose partitions' offsets are anywhere below a bound."""
    topics = sorted(generator.randbytes(16) for _ in range(10))
    batches: list[CommittedBatch] = []
    due: dict[tuple[int, int], int] = {}
    end = 0
    for topic, partition in sorted((generator.randrange(10), generator.randrange(10)) for _ in range(num_batches)):
        size = int(1024 * 64 ** generator.random())
        count = max(1, size // generator.randrange(100, 1200))
        base = due.get((topic, partition)) or generator.randrange(offset_max)
        due[topic, partition] = base + count
        producer = (-1, -1, -1)
        if generator.random() < IDEMPOTENT_SHARE:
            producer = (generator.randrange(1000, 1_000_000), generator.randrange(4), generator.randrange(2**31))
        time_ms = APPEND_TIME_MS - generator.randrange(250)
        batches.append(CommittedBatch(topics[topic], partition, 0, base, count, end, size, time_ms, 0, *producer))
        end += size
    return FileCommitted(
        object_key="wal/" + "".join(generator.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=26)),
        object_format=1,
        file_size=end,
        uploader_broker_id=generator.randrange(100),
        owner_ids=[0],
        created_ms=APPEND_TIME_MS - 300,
        append_time_ms=APPEND_TIME_MS,
        content_hash=generator.randbytes(16),
        batches=batches,
    )


def measure_us(call: Callable[[], object]) -> float:
    """Return the best time of a call in microseconds: other work on the machine is no cost of the call."""
    best = float("inf")
    stop = time.perf_counter() + SECONDS
    while time.perf_counter() < stop:
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - start) / CALLS)
    return best * 1e6


def main() -> None:
    """Print one line per file size."""
    print(f"an empty loop of 1000 steps: {measure_us(lambda: [None for _ in range(1000)]):.1f} us; best times in us")
    print(f"batches | bytes/batch | encode | decode | each of {FILES_TOGETHER} together: encode | decode | as objects: encode | decode")
    for num_batches in (1, 10, 30, 100, 300, 1000):
        file = make_file(random.Random(num_batches), num_batches)
        one, many = table_of([file]), table_of([file] * FILES_TOGETHER)
        entry = encode_entry([file])
        calls: list[tuple[int, int, Callable[[], object]]] = [
            (6, 1, lambda one=one: encode_files(one, LEVEL_LATEST)),  # type: ignore[misc]
            (6, 1, lambda entry=entry: read_files([entry])),  # type: ignore[misc]
            (25, FILES_TOGETHER, lambda many=many: encode_files(many, LEVEL_LATEST)),  # type: ignore[misc]
            (6, FILES_TOGETHER, lambda entry=entry: read_files([entry] * FILES_TOGETHER)),  # type: ignore[misc]
            (18, 1, lambda file=file: encode_entry([file])),  # type: ignore[misc]
            (6, 1, lambda entry=entry: decode_entry(entry)),  # type: ignore[misc]
        ]
        times = [f"{measure_us(call) / files:{width}.1f}" for width, files, call in calls]
        print(f"{num_batches:7d} | {len(entry) / num_batches:11.1f} | {' | '.join(times)}")


if __name__ == "__main__":
    main()
