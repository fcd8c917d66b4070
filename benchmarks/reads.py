"""Reads from one coordinator with a million live batches: FindBatches and ListOffsets, at 1, 10 and 632 partitions.

    python -m benchmarks.reads [--batches N] [--runs N] [--window S] [--read WHAT ...] [--json FILE]

Files of 1000 batches over 632 partitions are committed until there are enough, then everything is written to the state
database, which is what the reads look into. FindBatches asks at random offsets, for one batch of each partition or for a
consumer's default of 1 MiB; ListOffsets asks for random times of the hour that the batches span. Each is asked with one
request under way (latency) and with 16 (the service's CPU). CPU is that of the event loop, per partition that was asked
for; ListOffsets is a strict read, whose proof of leadership (an entry in Kafka) is included. Raw SQLite: one indexed
look-up through apsw in a table of as many plain rows, with the settings of the state database.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, takewhile
from pathlib import Path

import apsw
import numpy as np

from benchmarks.bed import Row, broker, own_process, say, service, table, wait_for, write_json
from benchmarks.process_cost import thread_cpu
from benchmarks.wire import Wire, plain_body
from cli.bench.raw import fill_sqlite, open_sqlite
from cli.bench.targets import create_targets
from cli.dev.coordinator import CoordinatorProcess
from coordinator.adapters.sqlite.schema import fetch
from coordinator.client.records.ulid import new_ulid
from coordinator.kafka.batches import split_partition_key
from coordinator.protocol.api_keys import ApiKey
from coordinator.protocol.codec import decode
from coordinator.protocol.commit_file import BATCH, CommitFileBody, decode_commit_response, encode_commit_file
from coordinator.protocol.messages import (
    FindBatchesPartition,
    FindBatchesRequest,
    FindBatchesResponse,
    FindBatchesTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

PARTITIONS = 632
BATCHES_PER_FILE = 1000
FILES_IN_FLIGHT = 8
SPAN_MS = 3_600_000
DISORDER_MS = 250
ASKED = (1, 10, 632)
IN_FLIGHT = (1, 16)
PARTITIONS_IN_FLIGHT_MAX = 2_000
REQUESTS_MADE = 200
CHECK_EVERY = 50
FETCH_BYTES = 50 << 20
PARTITION_FETCH_BYTES = 1 << 20
LOOKUPS = 20_000
READS = FIND_ONE, FIND_MANY, LIST = "find, 1 batch", "find, 1 MiB", "list by time"
FIND_AIM_US = 200.0
LIST_AIM_US = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The committed batches: the topic, the end of each partition, the time of the first batch."""

    topic_id: bytes
    ends: list[int]
    start_ms: int


def made_files(partition_keys: Sequence[bytes], batches: int) -> tuple[Filled, Iterator[tuple[int, int, bytes]]]:
    """Commits of files, the oldest batches first, and the committed batches once all of them are taken."""
    rng = np.random.default_rng(1)
    start_ms = time.time_ns() // 1_000_000 - SPAN_MS
    files = batches // BATCHES_PER_FILE
    keys = np.array(partition_keys, "V20")
    filled = Filled(topic_id=split_partition_key(partition_keys[0])[0], ends=[0] * len(keys), start_ms=start_ms)

    def made() -> Iterator[tuple[int, int, bytes]]:
        ends = np.zeros(len(keys), np.int64)
        for number in range(files):
            places = np.sort(rng.integers(len(keys), size=BATCHES_PER_FILE))
            counts = rng.integers(1, 100, size=BATCHES_PER_FILE)
            np.add.at(ends, places, counts)
            sizes = (1024 * 64 ** rng.random(BATCHES_PER_FILE)).astype(np.int64)
            rows = np.zeros(BATCHES_PER_FILE, BATCH)
            rows["magic"], rows["topic_partition"], rows["last_offset"] = 2, keys[places], counts - 1
            rows["byte_offset"], rows["size"] = sizes.cumsum() - sizes, sizes
            rows["max_timestamp"] = start_ms + number * SPAN_MS // files - rng.integers(DISORDER_MS, size=BATCHES_PER_FILE)
            for name in ("producer_id", "producer_epoch", "base_sequence", "last_sequence"):
                rows[name] = -1
            file = CommitFileBody(f"wal/{new_ulid(time.time_ns() // 1_000_000, rng.bytes(10))}", 1, int(sizes.sum()), [0], rows)
            yield int(ApiKey.COMMIT_FILE), 0, encode_commit_file(file)
        filled.ends[:] = ends.tolist()

    return filled, made()


def fill(node: CoordinatorProcess, partition_keys: Sequence[bytes], batches: int) -> Filled:
    """Commit files; returns when all of it is in the state database."""
    filled, files = made_files(partition_keys, batches)
    with Wire(node.address) as wire:
        for answered in wire.exchange(files, FILES_IN_FLIGHT):
            errors = decode_commit_response(answered.body).results["error_code"]
            if errors.any():
                raise AssertionError(f"a batch was refused with error {errors[errors != 0][0]}")
    wait_for(lambda: node.metric("state_applied_offset") >= batches // BATCHES_PER_FILE, "the state database to have every file")
    return filled


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One line of the table: the kind of request, the number of partitions in each, and of requests under way."""

    what: str
    partitions: int
    in_flight: int

    def request(self, filled: Filled, rng: random.Random) -> tuple[int, int, bytes]:
        """A request at random offsets, or times, of random partitions."""
        places = rng.sample(range(len(filled.ends)), self.partitions)
        if self.what == LIST:
            times = [(place, filled.start_ms + rng.randrange(SPAN_MS)) for place in places]
            queries = tuple(ListOffsetsPartition(partition_index=place, timestamp=at_ms) for place, at_ms in times)
            return plain_body(ListOffsetsRequest(topics=(ListOffsetsTopic(topic_id=filled.topic_id, partitions=queries),)))
        offsets = [(place, rng.randrange(filled.ends[place])) for place in places]
        points = tuple(
            FindBatchesPartition(partition_index=place, offset=offset, max_partition_fetch_bytes=PARTITION_FETCH_BYTES)
            for place, offset in offsets
        )
        topic = FindBatchesTopic(topic_id=filled.topic_id, partitions=points)
        batches_max = 1 if self.what == FIND_ONE else 0
        return plain_body(FindBatchesRequest(fetch_max_bytes=FETCH_BYTES, max_batches_per_partition=batches_max, topics=(topic,)))

    def results(self, body: bytes) -> int:
        """The number of batches, or offsets, in an answer. Fails for an element with an error."""
        if self.what == LIST:
            listed = [one for topic in decode(ListOffsetsResponse, body).topics for one in topic.partitions]
            errors, results = {one.error_code for one in listed}, sum(one.offset >= 0 for one in listed)
        else:
            found = [one for topic in decode(FindBatchesResponse, body).topics for one in topic.partitions]
            errors, results = {one.error_code for one in found}, sum(len(one.batches) for one in found)
        if errors != {0}:
            raise AssertionError(f"{self.what} was answered with the errors {sorted(errors - {0})}")
        return results


def kinds() -> list[Kind]:
    """The kinds of reads that are measured."""
    return [
        Kind(what=what, partitions=partitions, in_flight=in_flight)
        for what in READS
        for partitions in ASKED
        for in_flight in IN_FLIGHT
        if in_flight == 1 or partitions * in_flight <= PARTITIONS_IN_FLIGHT_MAX
    ]


@dataclass(slots=True, kw_only=True)
class ReadRun:
    """One window of one kind of read; `results` are those of the `checked` answers."""

    requests: int = 0
    results: int = 0
    checked: int = 0
    loop_us_per_request: float = 0.0
    latencies_s: array[float] = field(default_factory=lambda: array("d"))

    def percentile_ms(self, share: float) -> float:
        """A percentile of the latencies."""
        ordered = sorted(self.latencies_s)
        return ordered[int((len(ordered) - 1) * share)] * 1000


def measure_reads(address: str, pid: int, filled: Filled, kind: Kind, seed: int, window_s: float) -> ReadRun:
    """Ask for `window_s` seconds; requests are made beforehand and repeated, some of the answers are looked into."""
    rng = random.Random(seed)
    made = [kind.request(filled, rng) for _ in range(REQUESTS_MADE)]
    run = ReadRun()
    kept: list[bytes] = []
    with Wire(address) as wire:
        kept += [answered.body for answered in wire.exchange(made[: kind.in_flight * 2], kind.in_flight)]
        before = thread_cpu(pid)
        until = time.perf_counter() + window_s
        repeated = takewhile(lambda _: time.perf_counter() < until, cycle(made))
        for answered in wire.exchange(repeated, kind.in_flight):
            run.requests += 1
            run.latencies_s.append(answered.seconds)
            if run.requests % CHECK_EVERY == 0:
                kept.append(answered.body)
        run.loop_us_per_request = thread_cpu(pid).since(before).main_s / run.requests * 1e6
    run.results, run.checked = sum(kind.results(body) for body in kept), len(kept)
    return run


def measure(node: CoordinatorProcess, filled: Filled, wanted: Sequence[Kind], runs: int, window_s: float) -> list[Row]:
    """These reads; every run takes each kind in turn, so that a disturbance does not hit one kind alone."""
    done: dict[Kind, list[ReadRun]] = {kind: [] for kind in wanted}
    with Wire(node.address) as wire:
        # The first look at a partition loads the index of its runs, once in the life of a process.
        everything = Kind(what=FIND_ONE, partitions=PARTITIONS, in_flight=1)
        for answered in wire.exchange([everything.request(filled, random.Random(0))], 1):
            everything.results(answered.body)
    with own_process() as client:
        for number in range(runs):
            for kind, made in done.items():
                made.append(client.submit(measure_reads, node.address, node.pid, filled, kind, number, window_s).result())
            say(f"run {number + 1} of {runs}")
    return [read_row(kind, made) for kind, made in done.items()]


def read_row(kind: Kind, runs: Sequence[ReadRun]) -> Row:
    """One line of the table: medians over the runs."""
    loop_us = statistics.median(run.loop_us_per_request for run in runs)
    return {
        "read": kind.what,
        "partitions": kind.partitions,
        "in flight": kind.in_flight,
        "us/partition": loop_us / kind.partitions,
        "us/request": loop_us,
        "p50_ms": statistics.median(run.percentile_ms(0.5) for run in runs),
        "p99_ms": statistics.median(run.percentile_ms(0.99) for run in runs),
        "results/partition": sum(run.results for run in runs) / sum(run.checked for run in runs) / kind.partitions,
        "requests": sum(run.requests for run in runs),
    }


def raw_rows(batches: int) -> list[Row]:
    """Indexed look-ups in plain rows: the first batch at or after an offset, and the first at or after a time."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        database = open_sqlite(Path(folder) / "raw.db")
        fill_sqlite(database, batches, PARTITIONS)
        database.execute("CREATE INDEX batch_by_time ON batch(partition, timestamp)")
        per_partition = batches // PARTITIONS
        by_offset = "SELECT * FROM batch WHERE partition = ? AND base <= ? ORDER BY base DESC LIMIT 1"
        by_time = "SELECT base, timestamp FROM batch WHERE partition = ? AND timestamp >= ? ORDER BY timestamp LIMIT 1"
        first_ms = int(fetch(database, "SELECT min(timestamp) FROM batch")[0][0])
        for what, sql, first, span in (
            ("raw SQLite, by offset", by_offset, 0, per_partition * 10),
            ("raw SQLite, by time", by_time, first_ms, per_partition * PARTITIONS - PARTITIONS),
        ):
            rows.append(raw_row(database, what, sql, first, span))
        database.close()
    return rows


def raw_row(database: apsw.Connection, what: str, sql: str, first: int, span: int) -> Row:
    """Time look-ups of one kind in this thread."""
    rng = random.Random(3)
    asked = [(rng.randrange(PARTITIONS), first + rng.randrange(span)) for _ in range(LOOKUPS)]
    latencies = array("d")
    cpu_s = time.thread_time()
    for one in asked:
        started = time.perf_counter()
        if not database.execute(sql, one).fetchall():
            raise AssertionError(f"{what}: nothing found for {one}")
        latencies.append(time.perf_counter() - started)
    cpu_us = (time.thread_time() - cpu_s) / LOOKUPS * 1e6
    ordered = sorted(latencies)
    p50, p99 = ordered[len(ordered) // 2] * 1000, ordered[int(len(ordered) * 0.99)] * 1000
    return {"read": what, "partitions": 1, "in flight": 1, "us/partition": cpu_us, "us/request": cpu_us, "p50_ms": p50, "p99_ms": p99}


def aims(rows: Sequence[Row]) -> str:
    """The aim for the cost of a partition, beside the measured cost."""
    lines: list[Row] = []
    for row in rows:
        aim = {FIND_ONE: FIND_AIM_US, FIND_MANY: FIND_AIM_US, LIST: LIST_AIM_US}.get(str(row["read"]))
        if aim is not None:
            is_reached = float(str(row["us/partition"])) <= aim
            lines.append({**row, "aim": f"<= {aim:g}", "reached": "yes" if is_reached else "NO"})
    return table(lines, ("read", "partitions", "in flight", "us/partition", "aim", "reached"))


COLUMNS = ("read", "partitions", "in flight", "us/partition", "us/request", "p50_ms", "p99_ms", "results/partition", "requests")


def main() -> None:
    """Fill, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--window", type=float, default=1.0, help="seconds for each kind of read in each run")
    parser.add_argument("--read", action="append", choices=READS, help="only this one (may be repeated)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    with broker() as kafka, service(kafka) as running:
        node = running.nodes[1]
        [target] = asyncio.run(create_targets(node.address, "reads", PARTITIONS, 1))
        started = time.perf_counter()
        filled = fill(node, target.partition_keys, options.batches)
        say(f"{options.batches:,} batches committed and written in {time.perf_counter() - started:.1f} s")
        wanted = [kind for kind in kinds() if kind.what in (options.read or READS)]
        rows = measure(node, filled, wanted, options.runs, options.window)
    rows += raw_rows(options.batches)
    say(f"\n{table(rows, COLUMNS)}\n\n{aims(rows)}")
    write_json(options.json, {"batches": options.batches, "reads": rows})


if __name__ == "__main__":
    main()
