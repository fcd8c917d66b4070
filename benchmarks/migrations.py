"""Initialising classic partitions: the time for all of them, one request each as drivers send them, and the cost for other commits.

    python -m benchmarks.migrations [--partitions N] [--at-once N] [--rate FILES] [--json FILE]

A real broker, a coordinator process with one metadata partition. Commits are measured at a fixed rate: alone, while the partitions of a
pending topic are initialised, each with the last five batches of one producer, and alone again. All rows are of one run, so the
latencies compare.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import threading
import time
from collections.abc import Sequence

from benchmarks.bed import Row, broker, own_process, say, service, table, wait_for, write_json
from cli.bench.generator import Load, run_load
from cli.bench.targets import create_targets
from cli.bench.workload import Shape
from coordinator.client.client import DisklessClient
from coordinator.client.model import SeededBatch, SeededProducer
from records.levels import LEVEL_LATEST

BATCHES_A_FILE = 10
PARTITIONS = 100
CONNECTIONS = 16
WINDOW_S = 3.0
WINDOWS_ALONE = 4
ALONE, BESIDE = "commits alone", "commits beside initialisations"
AIM_S, AIM_TIMES = 60.0, 1.5
B0 = 1_000


async def initialise(servers: Sequence[str], partitions: int, at_once: int) -> float:
    """Initialise all partitions of a new pending topic, each by a request of its own; returns the seconds without the creation."""
    producer = SeededProducer(7, 0, tuple(SeededBatch(10 * n, 10 * n + 9, 900 + 10 * n, 909 + 10 * n, -1) for n in range(5)))
    limit = asyncio.Semaphore(at_once)
    async with DisklessClient(servers, client_id="benchmark", api_timeout_ms=120_000) as client:
        topic = await client.admin.create_topic("classic", partitions, classic_pending=True)

        async def one(partition: int) -> None:
            async with limit:
                await client.admin.init_diskless_log(
                    topic.topic_id, partition, start_offset=B0, prefix_start=0, leader_epoch=1, producers=[producer]
                )

        begun = time.perf_counter()
        await asyncio.gather(*map(one, range(partitions)))
        return time.perf_counter() - begun


class Initialising:
    """Initialises partitions in a thread of its own; `seconds` once that is over."""

    def __init__(self, servers: Sequence[str], partitions: int, at_once: int) -> None:
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, args=(servers, partitions, at_once))
        self._thread.start()

    def _run(self, servers: Sequence[str], partitions: int, at_once: int) -> None:
        self.seconds = asyncio.run(initialise(servers, partitions, at_once))

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()


def measure(partitions: int, at_once: int, rate: float) -> list[Row]:
    """See the module's text."""
    with broker() as kafka, service(kafka) as running, own_process() as pool:
        node = running.nodes[1]
        level = f"schema level in force level={LEVEL_LATEST}"
        wait_for(lambda: level in node.log_text(), "the newest schema level")
        targets = asyncio.run(create_targets(node.address, "kept", PARTITIONS, CONNECTIONS))
        shape = Shape(batches_per_file=BATCHES_A_FILE, partitions=PARTITIONS)

        def commits(what: str) -> Row:
            wanted = Load(shape=shape, targets=targets, window_s=WINDOW_S, rate=rate, warm_up_s=0.5)
            measured = pool.submit(run_load, wanted).result()
            return {"what": what, "p50_ms": measured.percentile_ms(0.5), "p99_ms": measured.percentile_ms(0.99)}

        rows = [commits(ALONE) for _ in range(WINDOWS_ALONE)]
        work = Initialising([node.address], partitions, at_once)
        while not work.is_over:
            rows.append(commits(BESIDE))
        rows += [commits(ALONE) for _ in range(WINDOWS_ALONE)]
        return [{"what": "initialisations", "seconds": work.seconds, "per_s": partitions / work.seconds}, *rows]


def medians(rows: Sequence[Row]) -> list[Row]:
    """One row for each kind of window."""
    found: list[Row] = [rows[0]]
    for what in (ALONE, BESIDE):
        own = [row for row in rows if row["what"] == what]
        found.append({"what": what, **{name: statistics.median(float(str(row[name])) for row in own) for name in ("p50_ms", "p99_ms")}})
    return found


def main() -> None:
    """Print the figures and the aims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000, help="pending partitions (10000)")
    parser.add_argument("--at-once", type=int, default=4, help="requests under way together (4)")
    parser.add_argument("--rate", type=float, default=200.0, help="files a second beside them (200)")
    parser.add_argument("--json", help="write the figures to this file")
    arguments = parser.parse_args()
    found = medians(measure(arguments.partitions, arguments.at_once, arguments.rate))
    say(table(found, ["what", "seconds", "per_s", "p50_ms", "p99_ms"]))
    done, alone, beside = found
    times = float(str(beside["p99_ms"])) / float(str(alone["p99_ms"]))
    say(f"all within {AIM_S:g} s: {'yes' if float(str(done['seconds'])) < AIM_S else 'NO'}")
    say(f"p99 of others beside them: {times:.2f} times ({AIM_TIMES:g} at most: {'yes' if times <= AIM_TIMES else 'NO'})")
    write_json(arguments.json, found)


if __name__ == "__main__":
    main()
