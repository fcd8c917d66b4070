"""The time of a restart by its phases, for numbers of metadata partitions.

    python -m benchmarks.restart [--partitions N ...] [--rounds N] [--json FILE]

A node leads all metadata partitions and has committed files to each, so that every state database is proven against an entry of its
log. It is stopped (SIGTERM) and started again; the lines of its log tell when it reached what. Figures are seconds since the process
was started, medians of the rounds; `worst` is the slowest round's `all leading`:

- `listening`: Python runs and has loaded the modules
- `first loaded`: Kafka has described the topic, and the first state database is open, read and proven
- `all loaded`: so are all others, and the node joins the group
- `assigned`: the group has assigned the partitions
- `first leading`, `all leading`: the first claim, and every claim, is in force
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime

from benchmarks.bed import Row, broker, own_process, say, service, table, wait_for, write_json
from benchmarks.scaling_parts import light, run, wait_written
from cli.bench.targets import create_targets
from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import KafkaCluster

PARTITIONS = (1, 8, 32)
PHASES = ("listening", "first loaded", "all loaded", "assigned", "first leading", "all leading")
LINE = re.compile(r"^(\S+Z) \w+ \S+ (listening|replica loaded|assignment partitions=\d|replica state .* after=leading)", re.MULTILINE)
CONNECTIONS = 32
USER_PARTITIONS = 320


def phases(log: str, started_s: float) -> list[float]:
    """Seconds from the start of a process to the end of each of its phases, by its log."""
    at: dict[str, list[float]] = {}
    for text, what in LINE.findall(log):
        at.setdefault(what.split("=")[0], []).append(datetime.fromisoformat(text).timestamp() - started_s)
    loaded, leading = at["replica loaded"], at["replica state partition"]
    return [at["listening"][0], loaded[0], loaded[-1], at["assignment partitions"][0], leading[0], leading[-1]]


def restart(node: CoordinatorProcess, partitions: int) -> list[float]:
    """Stop a node and start it again, until it leads everything."""
    node.terminate(60)
    started_s = time.time()  # the clock of the log's lines
    node.start()
    wait_for(lambda: node.log_text().count(" after=leading ") >= partitions, "leadership of all partitions")
    return phases(node.log_text(), started_s)


def measure(kafka: KafkaCluster, pool: ProcessPoolExecutor, partitions: int, rounds: int) -> Row:
    """Restarts of a node of so many metadata partitions."""
    with service(kafka, metadata_partitions=partitions) as running:
        node = running.nodes[1]
        targets = asyncio.run(create_targets(node.address, "restart", USER_PARTITIONS, CONNECTIONS))
        run([node], pool, light(targets))
        seen = []
        for _ in range(rounds):
            wait_written([node])
            seen.append(restart(node, partitions))
    medians = dict(zip(PHASES, map(statistics.median, zip(*seen, strict=True)), strict=True))
    return {"metadata partitions": partitions, **medians, "worst": max(one[-1] for one in seen)}


def main() -> None:
    """Print a row for each number of metadata partitions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, nargs="+", default=PARTITIONS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the figures for programs")
    options = parser.parse_args()
    with broker() as kafka, own_process() as pool:
        rows = [measure(kafka, pool, partitions, options.rounds) for partitions in options.partitions]
    say(table(rows, tuple(rows[0])))
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
