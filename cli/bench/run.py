"""One benchmark of a service: shapes one after the other, several runs of each, medians and ratios.

The load comes from a process of its own. Beside every run the same number of bytes is produced raw with acks=all, so
that what the coordinator adds is a difference within one run of one machine.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import time
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cli.bench.generator import Load, Measured, Target, run_load
from cli.bench.raw import RawProduce, measure_produce, measure_sqlite
from cli.bench.workload import Shape
from coordinator.client.client import DisklessClient
from coordinator.core.batches import partition_key

SQLITE_ROWS = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure. `rate` in batches per second, 0 for saturation; `processes` are names and pids whose CPU is told."""

    servers: str
    kafka: str
    batches_per_file: Sequence[int]
    partitions: int
    idempotent_share: float
    connections: int
    depth: int
    rate: float
    runs: int
    warm_up_s: float
    window_s: float
    processes: dict[str, int]
    metrics_urls: Sequence[str] = ()


Row = dict[str, object]


def run_plan(plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """Measure everything; returns one row of medians per shape."""
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    targets = asyncio.run(_prepare(plan, topic))
    try:
        with (
            ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as load,
            ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as raw,
        ):
            rows = [_measure_shape(plan, n, targets, load, raw, say) for n in plan.batches_per_file]
            rows[0]["raw_sqlite_rows_per_s"] = round(raw.submit(measure_sqlite, SQLITE_ROWS).result())
            return rows
    finally:
        asyncio.run(_clean_up(plan, topic))


async def _prepare(plan: Plan, topic: str) -> list[Target]:
    """Create the topic and spread the connections over the coordinators that own it."""
    async with DisklessClient(plan.servers, client_id="diskless-bench") as client:
        created = await client.create_topic(topic, plan.partitions)
        described = await client.describe_topic(created.topic_id)
        cluster = await client.describe_coordinators()
    addresses = {c.coordinator_id: (c.host, c.port) for c in cluster.coordinators}
    owned: dict[int, list[bytes]] = {}
    for partition in described.partitions:
        owned.setdefault(partition.coordinator_id, []).append(partition_key(described.topic_id, partition.partition))
    owners = sorted(owned)
    return [
        Target(host=addresses[owner][0], port=addresses[owner][1], coordinator_id=owner, partition_keys=owned[owner])
        for owner in (owners[number % len(owners)] for number in range(max(plan.connections, len(owners))))
    ]


async def _clean_up(plan: Plan, topic: str) -> None:
    async with DisklessClient(plan.servers, client_id="diskless-bench") as client:
        await client.delete_topic(topic)


def _measure_shape(
    plan: Plan, n: int, targets: list[Target], load: ProcessPoolExecutor, raw: ProcessPoolExecutor, say: Callable[[str], None]
) -> Row:
    shape = Shape(batches_per_file=n, partitions=plan.partitions, idempotent_share=plan.idempotent_share)
    runs: list[Row] = []
    for number in range(1, plan.runs + 1):
        measured, cpu = _one_run(plan, shape, targets, load)
        entry_bytes = max(1, round(measured.entry_bytes_per_batch * n))
        baseline = _raw_run(plan, n, entry_bytes, raw)
        row = _row(plan, n, measured, cpu, baseline)
        latency = f"p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms"
        say(f"{n} batches per file, run {number} of {plan.runs}: {row['batches_per_s']:,} batches/s, {latency}")
        runs.append(row)
    return _medians(runs)


@dataclass(slots=True)
class _Run:
    load: Measured
    entry_bytes_per_batch: float


def _one_run(plan: Plan, shape: Shape, targets: list[Target], pool: ProcessPoolExecutor) -> tuple[_Run, dict[str, float]]:
    rate = plan.rate / shape.batches_per_file
    load = Load(shape=shape, targets=targets, depth=plan.depth, rate=rate, warm_up_s=plan.warm_up_s, window_s=plan.window_s)
    before, counts = {name: cpu_seconds(pid) for name, pid in plan.processes.items()}, _log_counts(plan)
    started = time.monotonic()
    measured = pool.submit(run_load, load).result()
    seconds = time.monotonic() - started
    cpu = {name: (cpu_seconds(pid) - before[name]) / seconds for name, pid in plan.processes.items()}
    after = _log_counts(plan)
    batches = after[1] - counts[1]
    return _Run(measured, (after[0] - counts[0]) / batches if batches else 15.0), cpu


def _raw_run(plan: Plan, n: int, entry_bytes: int, pool: ProcessPoolExecutor) -> RawProduce:
    topic = f"bench-raw-{uuid.uuid4().hex[:12]}"
    _create_raw_topic(plan.kafka, topic)
    try:
        in_flight = 10_000 if plan.rate else plan.connections * plan.depth
        return pool.submit(
            measure_produce,
            plan.kafka,
            topic,
            entry_bytes,
            rate=plan.rate / n,
            in_flight=in_flight,
            warm_up_s=min(1.0, plan.warm_up_s),
            window_s=min(3.0, plan.window_s),
        ).result()
    finally:
        _delete_raw_topic(plan.kafka, topic)


def _create_raw_topic(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(10)


def _delete_raw_topic(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(10)


def _row(plan: Plan, n: int, run: _Run, cpu: dict[str, float], raw: RawProduce) -> Row:
    load = run.load
    batches_per_s = load.batches / load.window_s
    row: Row = {
        "batches_per_file": n,
        "commits_per_s": round(load.requests / load.window_s),
        "batches_per_s": round(batches_per_s),
        "p50_ms": round(load.percentile_ms(0.5), 2),
        "p99_ms": round(load.percentile_ms(0.99), 2),
        "p999_ms": round(load.percentile_ms(0.999), 2),
        "raw_p50_ms": round(raw.percentile_ms(0.5), 2),
        "raw_p99_ms": round(raw.percentile_ms(0.99), 2),
        "added_p50_ms": round(load.percentile_ms(0.5) - raw.percentile_ms(0.5), 2),
        "commits_to_raw": round(load.requests / load.window_s / max(1e-9, raw.messages / raw.window_s), 2),
        "log_bytes_per_batch": round(run.entry_bytes_per_batch, 1),
        "errors": load.errors,
        "generator_cpu": round(load.cpu_s / load.window_s, 2),
    }
    for name, share in cpu.items():
        row[f"{name}_cpu"] = round(share, 2)
        row[f"{name}_us_per_batch"] = round(share / batches_per_s * 1e6, 2) if batches_per_s else 0.0
    return row


def _medians(runs: list[Row]) -> Row:
    return {
        key: value if key == "batches_per_file" else round(statistics.median(float(str(run[key])) for run in runs), 2)
        for key, value in runs[0].items()
    }


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _log_counts(plan: Plan) -> tuple[float, float]:
    """(bytes appended to the log, batches accepted) of all nodes, from their metrics."""
    appended = batches = 0.0
    for url in plan.metrics_urls:
        with urllib.request.urlopen(url, timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                name, _, value = line.rpartition(" ")
                if name.startswith("diskless_coordinator_appended_bytes_total{"):
                    appended += float(value)
                elif name.startswith("diskless_coordinator_batches_total{"):
                    batches += float(value)
    return appended, batches
