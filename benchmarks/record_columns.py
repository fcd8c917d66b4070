"""Print what decoding records costs: as Arrow's columns of a table, and as the records of the Python client.

Keys of 8 bytes, and values of which half the bytes are chance, in batches of 64 KiB; each round decodes 32 MiB of them in one thread, their
checksums and decompression included. MB/s are those of keys and values. `before` is what a record cost in the interpreter on a machine like
those of the other figures. Run: `python -m benchmarks.record_columns [--rounds 5]`. It prints, it never judges.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence

from coordinator.client.records.wal_objects import BatchOf
from coordinator.protocol.find_batches import BatchLocation
from records.columns import decode_records
from records.compression import Compression
from records.record_batch import Record, encode_batch, parse_header
from tables.reading.arrow import record_batches
from tables.reading.fetching import FetchedBatch
from tables.reading.span import COLUMNS, ReadCounts, ReadOptions, Span

BATCH_BYTES, ROUND_BYTES = 64 * 1024, 32 * 1024 * 1024
BEFORE_US = 6.4
SPAN = Span(topic="orders", topic_id=bytes(16), partition=0, from_offset=0, to_offset=1 << 40)


def fetched(value_bytes: int, codec: Compression) -> Sequence[FetchedBatch]:
    """Batches as the store gives them, each with bytes of its own."""
    chance = random.Random(value_bytes)
    found: list[FetchedBatch] = []
    count, base = BATCH_BYTES // (value_bytes + 8), 0
    for _ in range(ROUND_BYTES // BATCH_BYTES):
        values = [chance.randbytes(value_bytes // 2).hex().encode() for _ in range(count)]
        records = [Record(timestamp_ms=1_760_000_000_000 + n, key=b"key%05d" % n, value=value) for n, value in enumerate(values)]
        data = encode_batch(records, compression=codec)
        location = BatchLocation(1, "wal/1", 2, 0, len(data), base, base + count - 1, 0, 0, 0)
        found.append(FetchedBatch(SPAN, BatchOf("orders", 0, location), memoryview(data), base))
        base += count
    return found


def as_columns(batches: Sequence[FetchedBatch], names: Sequence[str]) -> int:
    """Decode batches to Arrow; returns the rows."""
    options = ReadOptions(columns=tuple(names))
    return sum(one.num_rows for one in record_batches(batches, options, ReadCounts()))


def as_records(batches: Sequence[FetchedBatch]) -> int:
    """Decode batches to objects; returns how many."""
    return sum(len(decode_records(one.data, parse_header(one.data))) for one in batches)


def best_ns(decode: Callable[[], int], rounds: int) -> float:
    """Nanoseconds for a record, in the best of some rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        count = decode()
        times.append((time.perf_counter_ns() - start) / count)
    return min(times)


def main() -> None:
    """Print one line per size and codec."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record_columns", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print("value | codec | key, value: ns/record  MB/s | all columns: ns/record  MB/s | records: ns/record | before: ns/record")
    for value_bytes in (100, 1024):
        for codec in (Compression.NONE, Compression.ZSTD, Compression.LZ4):
            batches = fetched(value_bytes, codec)
            two = best_ns(lambda batches=batches: as_columns(batches, ("key", "value")), rounds)  # type: ignore[misc]
            whole = best_ns(lambda batches=batches: as_columns(batches, COLUMNS), rounds)  # type: ignore[misc]
            records = best_ns(lambda batches=batches: as_records(batches), rounds)  # type: ignore[misc]
            two_mb, whole_mb = (1000 * (value_bytes + 8) / ns for ns in (two, whole))
            figures = f"{two:9.0f} {two_mb:9.0f} | {whole:9.0f} {whole_mb:9.0f} | {records:9.0f} | {1000 * BEFORE_US:9.0f}"
            print(f"{value_bytes:5} | {codec.name.lower():5} | {figures}", flush=True)


if __name__ == "__main__":
    main()
