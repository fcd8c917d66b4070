"""One benchmark of a service: shapes one after the other, several runs of each, medians and ratios.

The load comes from a process of its own. Beside every run the same number of bytes is produced raw with acks=all, so
that what the coordinator adds is a difference within one run of one machine.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from cli.bench.counters import cpu_seconds, log_counts, settled_log_counts
from cli.bench.failure import MeasuringFailed
from cli.bench.generator import Load, Measured, Target, run_load
from cli.bench.raw import RawProduce, measure_produce, measure_sqlite, raw_topic
from cli.bench.targets import create_targets, delete_topic
from cli.bench.workload import Shape
from coordinator.client.errors import ServiceError
from coordinator.client.routing.login import LoginRejected
from coordinator.printable import quoted
from coordinator.protocol.wire import MalformedMessage

SQLITE_ROWS = 300_000
AFTER_FAILURE_MS = 10_000
"""How long a service that failed has to delete the topic."""
ENTRY_BYTES_PER_BATCH = 15.0
"""Assumed for raw produces when the nodes' metrics are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a run. `rate` in batches per second, 0 for saturation; `processes` are names and pids whose CPU is reported.

    The two kinds of properties secure connections to nodes and to Kafka.
    """

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
    node_properties: Mapping[str, str] = field(default_factory=dict)
    kafka_properties: Mapping[str, str] = field(default_factory=dict)


Row = dict[str, object]


def run_plan(plan: Plan, say: Callable[[str], None]) -> list[Row]:
    """Measure everything; returns one row of medians per shape. Raises MeasuringFailed, ServiceError."""
    log_counts(plan.metrics_urls)  # a wrong address is told before anything is made
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    targets = asyncio.run(create_targets(plan.servers, topic, plan.partitions, plan.connections, plan.node_properties))
    try:
        with (
            ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as load,
            ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as raw,
        ):
            rows = [_measure_shape(plan, n, targets, load, raw, say) for n in plan.batches_per_file]
            rows[0]["raw_sqlite_rows_per_s"] = round(raw.submit(measure_sqlite, SQLITE_ROWS).result())
    except MeasuringFailed:
        # The node that failed may be the last one: report at once why it ends, before consequences hide it.
        try:
            asyncio.run(delete_topic(plan.servers, topic, plan.node_properties, timeout_ms=AFTER_FAILURE_MS))
        except ServiceError:
            say(f"the topic {topic} could not be deleted; `diskless topics delete {quoted(topic)}` does")
        raise
    except BaseException:
        asyncio.run(delete_topic(plan.servers, topic, plan.node_properties))
        raise
    asyncio.run(delete_topic(plan.servers, topic, plan.node_properties))
    return rows


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
    before, counts = {name: cpu_seconds(pid) for name, pid in plan.processes.items()}, log_counts(plan.metrics_urls)
    started = time.monotonic()
    try:
        measured = pool.submit(run_load, load).result()
    except (OSError, LoginRejected, MalformedMessage) as error:
        raise MeasuringFailed(f"the load cannot go on: {error}; `diskless coordinator status` shows which nodes are there") from error
    seconds = time.monotonic() - started
    cpu = {name: (cpu_seconds(pid) - before[name]) / seconds for name, pid in plan.processes.items()}
    return _Run(measured, settled_log_counts(plan.metrics_urls).bytes_per_batch_since(counts) or ENTRY_BYTES_PER_BATCH), cpu


def _raw_run(plan: Plan, n: int, entry_bytes: int, pool: ProcessPoolExecutor) -> RawProduce:
    in_flight = 10_000 if plan.rate else plan.connections * plan.depth
    with raw_topic(plan.kafka, plan.kafka_properties) as topic:
        return pool.submit(
            measure_produce,
            plan.kafka,
            topic,
            entry_bytes,
            rate=plan.rate / n,
            in_flight=in_flight,
            warm_up_s=min(1.0, plan.warm_up_s),
            window_s=min(3.0, plan.window_s),
            properties=dict(plan.kafka_properties),
        ).result()


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
