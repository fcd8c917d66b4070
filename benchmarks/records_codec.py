"""Print what encoding and decoding a `FileCommitted` costs, and how many log bytes a batch takes.

The workload: files of 10 to 1000 batches over 100 partitions (10 topics), sorted by partition; 30 % idempotent; sizes
log-uniform from 1 to 64 KiB; timestamps within 250 ms. Run: `python -m benchmarks.records_codec`. It prints, it never
judges.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from itertools import groupby

import numpy as np

from records import codec, fast
from records.bulk_decode import decode_file_entries
from records.file_columns import expand
from records.general import decode_generally, encode_generally
from records.history import NEWEST
from records.model import FileCommitted

APPEND_TIME_MS = 1_760_000_000_000
IDEMPOTENT_SHARE = 0.3
BULK_FILES = 1000
ROUNDS = 9
ROUND_SECONDS = 0.03


def make_file(generator: random.Random, num_batches: int, offset_max: int = 2_000_000_000) -> FileCommitted:
    """Return a file of the workload whose partitions' offsets are anywhere below a bound."""
    topics = sorted(generator.randbytes(16) for _ in range(10))
    places = sorted((generator.randrange(10), generator.randrange(10)) for _ in range(num_batches))
    runs = [(place, len(list(batches))) for place, batches in groupby(places)]
    used = sorted({topic for (topic, _), _ in runs})
    sizes = [int(1024 * 64 ** generator.random()) for _ in places]
    idempotent = [index for index in range(num_batches) if generator.random() < IDEMPOTENT_SHARE]
    return FileCommitted(
        object_key="wal/" + "".join(generator.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=26)),
        object_format=1,
        file_size=sum(sizes),
        uploader_broker_id=generator.randrange(100),
        owner_ids=[0],
        created_ms=APPEND_TIME_MS - 300,
        append_time_ms=APPEND_TIME_MS,
        content_hash=generator.randbytes(16),
        topic_ids=[topics[topic] for topic in used],
        run_topic=[used.index(topic) for (topic, _), _ in runs],
        run_partition=[partition for (_, partition), _ in runs],
        run_length=[length for _, length in runs],
        run_base_offset=[generator.randrange(offset_max) for _ in runs],
        run_log_start=[],
        byte_gap=[],
        byte_size=sizes,
        record_count_minus_one=[max(0, size // generator.randrange(100, 1200) - 1) for size in sizes],
        timestamp_age=[generator.randrange(250) for _ in sizes],
        timestamp_type=[],
        producer_index=[index - before for before, index in zip([0, *idempotent], idempotent, strict=False)],
        producer_id=[generator.randrange(1000, 1_000_000) for _ in idempotent],
        producer_epoch=[generator.randrange(4) for _ in idempotent],
        base_sequence=[generator.randrange(2**31) for _ in idempotent],
    )


def measure_us(call: Callable[[], object]) -> float:
    """Return the median time of a call in microseconds."""
    times = 1
    while True:
        start = time.perf_counter()
        for _ in range(times):
            call()
        if time.perf_counter() - start > ROUND_SECONDS:
            break
        times *= 2
    medians = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(times):
            call()
        medians.append((time.perf_counter() - start) / times * 1e6)
    return statistics.median(medians)


def with_crossover(name: str, value: int, call: Callable[[], object]) -> float:
    """Return the time of a call in microseconds while a crossover of `records.fast` has another value."""
    kept = getattr(fast, name)
    setattr(fast, name, value)
    try:
        return measure_us(call)
    finally:
        setattr(fast, name, kept)


def measure_bulk_us(num_batches: int) -> float:
    """Return the time of decoding one of `BULK_FILES` files together, in microseconds."""
    generator = random.Random(num_batches)
    some = [codec.encode_entry([make_file(generator, num_batches)]) for _ in range(50)]
    values = [some[index % len(some)] for index in range(BULK_FILES)]
    sizes = np.array(list(map(len, values)), np.int64)
    data, ends = np.frombuffer(b"".join(values), np.uint8), sizes.cumsum()
    return measure_us(lambda: decode_file_entries(data, ends - sizes, ends)) / BULK_FILES


def main() -> None:
    """Print one line per file size, and one for decoding many files together."""
    print("medians in us; plain: no numpy, vector: numpy always, chosen: as shipped")
    print("batches | bytes/batch | encode plain vector chosen fastavro | decode plain vector chosen fastavro | expand")
    for num_batches in (10, 30, 60, 100, 200, 300, 1000):
        record = make_file(random.Random(num_batches), num_batches)
        entry = codec.encode_entry([record])
        never, always = 1 << 60, 1

        def encode(record: FileCommitted = record) -> object:
            return codec.encode_entry([record])

        def decode(entry: bytes = entry) -> object:
            return codec.decode_entry(entry)

        encodes = [with_crossover("NUMBERS_VECTOR_MIN", value, encode) for value in (never, always)]
        decodes = [with_crossover("COLUMN_BYTES_VECTOR_MIN", value, decode) for value in (never, always)]
        general_encode = measure_us(lambda record=record: encode_generally([record], NEWEST))  # type: ignore[misc]
        general_decode = measure_us(lambda entry=entry: decode_generally(entry))  # type: ignore[misc]
        expanded = measure_us(lambda record=record: expand(record))  # type: ignore[misc]
        print(
            f"{num_batches:7d} | {len(entry) / num_batches:11.1f} |"
            f" {encodes[0]:12.1f} {encodes[1]:6.1f} {measure_us(encode):6.1f} {general_encode:8.1f} |"
            f" {decodes[0]:12.1f} {decodes[1]:6.1f} {measure_us(decode):6.1f} {general_decode:8.1f} | {expanded:6.1f}"
        )
    print(f"batches | decode, {BULK_FILES} files together, us per file | million batches/s")
    for num_batches in (1, 10, 100, 1000):
        bulk = measure_bulk_us(num_batches)
        print(f"{num_batches:7d} | {bulk:38.1f} | {num_batches / bulk:17.2f}")


if __name__ == "__main__":
    main()
