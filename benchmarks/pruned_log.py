"""A log that is pruned behind snapshots under load: its size, and the cost of snapshots for the commits beside them.

    python -m benchmarks.pruned_log [--seconds S] [--rate BATCHES] [--between-mb N] [--json FILE]

A real broker (which looks for what it may delete every ten seconds) and a coordinator process with one metadata partition; files of 100
batches over 100 partitions at a fixed rate, twice: with `snapshots.enable=false`, then with a snapshot considered when the log has grown by
so many megabytes. Every window of ten seconds is a row: p50 and p99 of commits, the coordinator's CPU in cores (event loop, all else), what
the log holds on the broker's disk, the entries between its start and its end, and the snapshots taken so far with the size of the newest.
The last lines compare the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

from benchmarks.bed import Row, own_process, say, service, table, write_json
from benchmarks.process_cost import thread_cpu
from cli.bench.generator import Load, run_load
from cli.bench.targets import create_targets
from cli.bench.workload import Shape
from cli.dev.kafka import KafkaCluster
from integration_tests.service import Service

WINDOW_S = 10.0
BATCHES_A_FILE = 100
PARTITIONS = 100
CONNECTIONS = 16
OFTEN_CLEANED = {"log.retention.check.interval.ms": "10000", "log.segment.delete.delay.ms": "1000"}


def disk_bytes(kafka: KafkaCluster, topic: str) -> int:
    """The bytes of the only partition of a topic on the broker's disk, its indexes left out."""
    return sum(file.stat().st_size for file in kafka.node(1).folder.rglob(f"{topic}-0/*.log"))


def log_range(running: Service) -> tuple[int, int]:
    """The first offset of the metadata partition, and the one behind its last."""
    consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "looks only"})
    try:
        start, end = consumer.get_watermark_offsets(TopicPartition(running.topic, 0), timeout=10)
    finally:
        consumer.close()
    return start, end


def measure(kafka: KafkaCluster, *, seconds: float, rate: float, properties: dict[str, str]) -> list[Row]:
    """One run; returns its windows."""
    rows: list[Row] = []
    with service(kafka, **properties) as running, own_process() as load:
        node = running.nodes[1]
        targets = asyncio.run(create_targets(node.address, "pruned", PARTITIONS, CONNECTIONS))
        shape = Shape(batches_per_file=BATCHES_A_FILE, partitions=PARTITIONS)
        for _ in range(max(2, round(seconds / WINDOW_S))):
            before = thread_cpu(node.pid)
            wanted = Load(shape=shape, targets=targets, window_s=WINDOW_S, rate=rate / BATCHES_A_FILE, warm_up_s=1.0)
            measured = load.submit(run_load, wanted).result()
            cpu = thread_cpu(node.pid).since(before)
            start, end = log_range(running)
            row: Row = {"batches_per_s": measured.batches / measured.window_s}
            row["p50_ms"], row["p99_ms"] = measured.percentile_ms(0.5), measured.percentile_ms(0.99)
            row["loop_cores"], row["other_cores"] = cpu.main_s / (WINDOW_S + 1), cpu.others_s / (WINDOW_S + 1)
            row["disk_mb"], row["entries"] = disk_bytes(kafka, running.topic) / 1e6, end - start
            row["snapshots"] = node.log_text().count("snapshot taken")
            row["snapshot_mb"] = newest_snapshot_bytes(running) / 1e6
            rows.append(row)
            say(table([row], list(row)) if len(rows) == 1 else table([row], list(row)).splitlines()[-1])
    return rows


def newest_snapshot_bytes(running: Service) -> int:
    """The size of the newest snapshot in the object store; 0 when there is none."""
    found = sorted((running.folder / "objects" / "snapshots").rglob("*.checkpoint"))
    return found[-1].stat().st_size if found else 0


def compare(without: Sequence[Row], with_snapshots: Sequence[Row]) -> str:
    """The medians of both runs, the first window of each left out."""
    lines = []
    for name in ("p50_ms", "p99_ms", "loop_cores", "other_cores"):
        one, other = (statistics.median(float(str(row[name])) for row in rows[1:]) for rows in (without, with_snapshots))
        lines.append(f"{name}: {one:.3f} without, {other:.3f} with snapshots, {other / one if one else float('nan'):.2f} times")
    largest = max(float(str(row["disk_mb"])) for row in with_snapshots)
    end = float(str(without[-1]["disk_mb"]))
    lines.append(f"the log on the broker's disk: at most {largest:.1f} MB with snapshots, {end:.1f} MB at the end without")
    return "\n".join(lines)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--rate", type=float, default=20_000.0)
    parser.add_argument("--between-mb", type=float, default=20.0)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    often = {"metadata_log_max_record_bytes_between_snapshots": str(round(arguments.between_mb * 2**20))}
    with KafkaCluster(1, profile="bench", properties=OFTEN_CLEANED) as kafka:
        without = measure(kafka, seconds=arguments.seconds, rate=arguments.rate, properties={"snapshots_enable": "false"})
        with_snapshots = measure(kafka, seconds=arguments.seconds, rate=arguments.rate, properties=often)
    say(compare(without, with_snapshots))
    if arguments.json:
        write_json(arguments.json, {"without": without, "with": with_snapshots})


if __name__ == "__main__":
    main()
