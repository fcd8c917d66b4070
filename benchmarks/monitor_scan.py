"""The speed of the monitor's scan and of its store, without Spark and Kafka.

    python -m benchmarks.monitor_scan [--batches 1000000]

Prints, for files of 10, 100 and 1000 batches (50 user partitions, 30 % idempotent): the scan in batches per second of one
core, the merge of the whole as one micro-batch, and the merge of micro-batches that touch many user partitions. Times
are CPU seconds, so that a busy machine matters less.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from records.codec import encode_entry, encode_key
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.entry_key import EntryKey
from records.model import LeadershipClaimed, PartitionCreated
from spark_jobs.scan import SUMMARY_SCHEMA, scan_function
from spark_jobs.store.sink import Store

NOW_MS = 1_760_000_000_000
TERM = 77
LEVEL = 1
"""The schema level that is in force from the beginning: of later ones the scan has less to look at."""
ARROW_ROWS = 1000
TOPICS = [bytes([number + 1]) * 16 for number in range(5)]
PARTITIONS_PER_TOPIC = 10
IDEMPOTENT_SHARE = 0.3

INPUT_SCHEMA = pa.schema(
    [("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("timestamp_ms", pa.int64())]
)


class Log:
    """A healthy log of one partition of the metadata topic."""

    def __init__(self, kpart: int, topics: list[bytes], partitions_per_topic: int) -> None:
        self._kpart = kpart
        self._topics = topics
        self._per_topic = partitions_per_topic
        self._rng = np.random.default_rng(kpart)
        self._high = np.zeros(len(topics) * partitions_per_topic, np.int64)
        self._sequence = np.zeros(len(self._high), np.int64)
        self.entries: list[tuple[bytes, bytes, int]] = []
        claim = LeadershipClaimed(epoch=1, term=TERM, node_id=1, rack="", endpoints=[])
        self._add(encode_entry([claim], LEVEL))
        for topic_id in topics:
            created = PartitionCreated(
                topic_id=topic_id,
                name=f"t{topic_id[0]}-{topic_id[1]}",
                first_partition=0,
                num_partitions=partitions_per_topic,
                order_offset=1,
            )
            self._add(encode_entry([created], LEVEL))

    def _add(self, value: bytes) -> None:
        seq = len(self.entries)
        self.entries.append((encode_key(EntryKey(1, TERM, seq)), value, NOW_MS + seq // 3))

    def add_file(self, batches: int) -> None:
        """A file whose batches lie in random partitions, in order of partition."""
        self.add_file_of(np.sort(self._rng.integers(0, len(self._high), batches)))

    def add_file_of(self, where: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
        """A file with one batch for each of these partitions, which are sorted."""
        rng, batches = self._rng, len(where)
        counts, sizes = rng.integers(0, 100, batches), rng.integers(100, 60_000, batches)
        idempotent = rng.random(batches) < IDEMPOTENT_SHARE
        ages = rng.integers(0, 50, batches)
        number = len(self.entries)
        append_ms = NOW_MS + number // 3
        made = []
        end = 0
        for one, count, size, has_producer, age in zip(
            where.tolist(), (counts + 1).tolist(), sizes.tolist(), idempotent.tolist(), ages.tolist(), strict=True
        ):
            topic, partition = divmod(one, self._per_topic)
            producer = (7000 + one, 0, int(self._sequence[one])) if has_producer else (-1, -1, -1)
            made.append(
                CommittedBatch(self._topics[topic], partition, 0, int(self._high[one]), count, end, size, append_ms - age, 0, *producer)
            )
            end += size
            self._high[one] += count
            if has_producer:
                self._sequence[one] = (producer[2] + count) & 0x7FFFFFFF
        record = FileCommitted(
            object_key=f"wal/{self._kpart}/{number:026}", object_format=1, file_size=end, uploader_broker_id=number % 3,
            owner_ids=[self._kpart], created_ms=NOW_MS, append_time_ms=append_ms, content_hash=bytes(16), batches=made,
        )  # fmt: skip
        self._add(encode_entry([record], LEVEL))

    def batches(self, start: int = 0) -> list[pa.RecordBatch]:
        """Entries from an offset on, as Spark hands them over."""
        found = []
        for at in range(start, len(self.entries), ARROW_ROWS):
            keys, values, times = zip(*self.entries[at : at + ARROW_ROWS], strict=True)
            columns = ([self._kpart] * len(keys), range(at, at + len(keys)), keys, values, times)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, INPUT_SCHEMA, strict=True)]
            found.append(pa.RecordBatch.from_arrays(arrays, schema=INPUT_SCHEMA))
        return found


def measure(batches_per_file: int, batches: int) -> None:
    """Print scan and merge of a log of two partitions of the metadata topic."""
    logs = [Log(kpart, TOPICS, PARTITIONS_PER_TOPIC) for kpart in range(2)]
    for log in logs:
        for _ in range(batches // batches_per_file // len(logs)):
            log.add_file(batches_per_file)
    inputs = [batch for log in logs for batch in log.batches()]
    with TemporaryDirectory() as folder, Store.open(Path(folder)) as store:
        began_s = time.process_time()
        summary = pa.Table.from_batches(list(scan_function({})(iter(inputs))), SUMMARY_SCHEMA)
        scanned_s = time.process_time() - began_s
        began_s = time.process_time()
        store.merge(summary, store.heads(), {}, NOW_MS)
        merged_ms = (time.process_time() - began_s) * 1000
    rate = batches / scanned_s / 1e6
    mebibytes = summary.nbytes / (1 << 20)
    print(f"{batches_per_file:5} per file: scan {rate:5.2f} M batches/s per core, merge {merged_ms:6.0f} ms, summary {mebibytes:5.1f} MiB")


def measure_chains(partitions: int) -> None:
    """Print the merge of one batch for each of many user partitions, new and known ones."""
    topics = [number.to_bytes(2) + bytes([1]) * 14 for number in range(1, partitions // 1000 + 1)]
    log = Log(0, topics, 1000)
    for known in (False, True):
        start = len(log.entries) if known else 0
        for part in np.array_split(np.arange(partitions), partitions // 500):
            log.add_file_of(part)
        if not known:
            folder = TemporaryDirectory()
            store = Store.open(Path(folder.name))
        heads = store.heads()
        began_s = time.process_time()
        summary = pa.Table.from_batches(list(scan_function(heads)(iter(log.batches(start)))), SUMMARY_SCHEMA)
        scanned_s = time.process_time() - began_s
        began_s = time.process_time()
        store.merge(summary, heads, {}, NOW_MS)
        merged_s = time.process_time() - began_s
        word = "known" if known else "new"
        print(f"{partitions} {word} user partitions touched: scan {scanned_s:.2f} s, merge {merged_s:.2f} s")
    store.close()
    folder.cleanup()


def main(arguments: list[str]) -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    for batches_per_file in (10, 100, 1000):
        measure(batches_per_file, options.batches)
    for partitions in (1000, 10_000, 100_000):
        measure_chains(partitions)


if __name__ == "__main__":
    main(sys.argv[1:])
