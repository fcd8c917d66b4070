"""The standard shapes: a real broker, a coordinator process, the load in a process of its own, all on this machine.

    python -m benchmarks.standard [--shape NAME ...] [--runs N] [--window S] [--speed S] [--profile] [--json FILE]

Files of 10, 100 and 1000 batches over 100 partitions at saturation and at 20 000 batches/s; batches x partitions
100x1 to 1600x1 at saturation; 3, 6 and 24 brokers that commit 4 files of 100 batches a second each. 30 % of the batches
are idempotent. After every run the bytes of the same log entries are produced raw with acks=all, at the same rate or, at
saturation, with as many in flight, and plain rows are inserted into raw SQLite: `to_sqlite` are batches per row of it, which a
slow machine does not blur, and `file_loop_us` is the event loop's CPU per file at the speed of the machine the aims were set
for, which inserts 545 000 rows/s. Figures are medians over the runs of a shape; its smallest and greatest throughput
stand beside. CPU microseconds per batch are of the whole load, its warm-up included. Every shape has a service of its own, so
that the files of the one before, which leave the state for a minute more, do not count. Shapes with an aim begin when the broker
has compiled what they need; `compiling` are the cores its compiler still took in the runs, `stolen` the share of the machine that
its host gave to others. `--profile` looks at one more run of each shape. `--speed` is for a machine slower than that one: rates, and
milliseconds to be reached, in proportion.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.bed import Row, broker, metrics_urls, own_process, say, service, table, write_json
from benchmarks.loop_profile import LoopProfile, NoProfilerError, find_profiler
from benchmarks.process_cost import thread_cpu
from benchmarks.warmth import disturbance, wait_until_idle
from cli.bench.counters import log_counts, settled_log_counts
from cli.bench.generator import Load, Measured, Target, run_load
from cli.bench.raw import RawProduce, measure_produce, measure_sqlite, raw_topic
from cli.bench.targets import create_targets
from cli.bench.workload import Shape
from cli.dev.kafka import KafkaCluster
from integration_tests.service import Service

SATURATING_DEPTH = {10: 32}
"""Commits in flight on each of 16 connections: as many as throughput still rises with. Of larger files 8 do."""
FIRST_LOAD_S = 10.0
WARM_LOAD_S = 3.0
WARM_LOADS_MAX = 10
COMPILING_CORES_MAX = 0.05
"""The use of the broker's compiler, in cores, below which its code counts as compiled."""
WARM_UP_S = 0.8
RAW_WARM_UP_S = 0.8
RAW_WINDOW_S = 1.2
"""Warm-up and window of raw produce: a new idempotent producer needs half a second until it sends its first message."""
REQUESTS_MIN = 60
WINDOW_FACTOR_MAX = 3.0
OTHER_RUNS_MAX = 3
IN_FLIGHT_OPEN_LOOP = 10_000
SQLITE_ROWS = 300_000
SQLITE_ROWS_PER_S = 545_000
"""Rows per second of raw SQLite on the machine that the aims were set for, when it did nothing else."""
FUNCTIONS_SHOWN = 14

LATENCIES = (("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999))


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The aims of a shape: batches per raw SQLite row at least; log bytes per batch, loop CPU per file and milliseconds at most.

    0 or infinite: no aim.
    """

    to_sqlite: float = 0.0
    file_loop_us: float = float("inf")
    bytes_per_batch: float = float("inf")
    p50_ms: float = float("inf")
    p99_ms: float = float("inf")
    added_p50_ms: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standard:
    """One shape. `files_per_s` 0 is saturation: `depth` commits in flight on each connection."""

    name: str
    batches: int
    partitions: int
    files_per_s: float = 0.0
    connections: int = 16
    depth: int = 8
    aim: Aim | None = None

    def window_s(self, wanted_s: float) -> float:
        """Seconds to measure: more than wanted where few files come."""
        if not self.files_per_s:
            return wanted_s
        return max(wanted_s, min(REQUESTS_MIN / self.files_per_s, wanted_s * WINDOW_FACTOR_MAX))


def at_speed(shape: Standard, speed: float) -> Standard:
    """The shape for a machine of this share of the speed that its aim was set for: queues are then as long as they are there."""
    aim = shape.aim and replace(
        shape.aim,
        p50_ms=shape.aim.p50_ms / speed,
        p99_ms=shape.aim.p99_ms / speed,
        added_p50_ms=shape.aim.added_p50_ms / speed,
    )
    return replace(shape, files_per_s=shape.files_per_s * speed, aim=aim)


def standard_shapes() -> list[Standard]:
    """The shapes, in the order of the table."""
    saturation = {
        10: Aim(to_sqlite=0.6, bytes_per_batch=32, file_loop_us=25),
        100: Aim(to_sqlite=1.8, bytes_per_batch=16),
        1000: Aim(to_sqlite=3.0, bytes_per_batch=9),
    }
    light = {10: Aim(p50_ms=1, p99_ms=10), 100: Aim(p50_ms=1.5, p99_ms=4, added_p50_ms=0.6), 1000: Aim(p50_ms=3, p99_ms=8)}
    shapes = [
        Standard(name=f"{n}x100", batches=n, partitions=100, depth=SATURATING_DEPTH.get(n, 8), aim=aim) for n, aim in saturation.items()
    ]
    shapes += [Standard(name=f"{n}x100@20000", batches=n, partitions=100, files_per_s=20_000 / n, aim=aim) for n, aim in light.items()]
    shapes += [Standard(name=f"{n}x{p}", batches=n, partitions=p) for n, p in ((100, 1), (320, 5), (640, 2), (800, 2), (1600, 1))]
    shapes += [Standard(name=f"{n}-brokers", batches=100, partitions=100, files_per_s=4.0 * n, connections=n, depth=1) for n in (3, 6, 24)]
    return shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """The processes of the runs."""

    kafka: KafkaCluster
    service: Service
    load: ProcessPoolExecutor
    raw: ProcessPoolExecutor
    window_s: float

    @property
    def pid(self) -> int:
        """The process id of the coordinator."""
        return self.service.nodes[1].pid

    @property
    def broker_pid(self) -> int:
        """The process id of the broker."""
        return self.kafka.node(1).pid or 0

    def run_load(self, load: Load) -> Measured:
        """Run a load in its process."""
        return self.load.submit(run_load, load).result()

    def wait_until_idle(self) -> None:
        """Let broker and coordinator finish the work that a run leaves behind, so that the next one does not pay for it."""
        if not wait_until_idle([self.pid, self.broker_pid]):
            say("broker and coordinator do not come to rest: what they do disturbs the next run")


def measure(bed: Bed, shape: Standard, targets: Sequence[Target]) -> Row:
    """One run and the raw produce beside it."""
    bed.wait_until_idle()
    urls, broker_pid = metrics_urls(bed.service), bed.broker_pid
    counts, coordinator, kafka = log_counts(urls), thread_cpu(bed.pid), thread_cpu(broker_pid)
    start = disturbance(broker_pid)
    measured = bed.run_load(load_of(bed, shape, targets))
    end = disturbance(broker_pid)
    after = settled_log_counts(urls)
    coordinator, kafka = thread_cpu(bed.pid).since(coordinator), thread_cpu(broker_pid).since(kafka)
    bytes_per_batch, batches = after.bytes_per_batch_since(counts), after.batches - counts.batches
    raw = measure_raw(bed, shape, round(bytes_per_batch * shape.batches))
    row: Row = {"batches_per_s": measured.batches / measured.window_s, "requests": measured.requests}
    row |= {name: measured.percentile_ms(share) for name, share in LATENCIES}
    row |= {f"raw_{name}": raw.percentile_ms(share) for name, share in LATENCIES[:2]}
    row["added_p50_ms"] = measured.percentile_ms(0.5) - raw.percentile_ms(0.5)
    row["to_raw"] = measured.requests / measured.window_s / (raw.messages / raw.window_s) if raw.messages else float("nan")
    row["bytes_per_batch"] = bytes_per_batch
    us = 1e6 / batches if batches else float("nan")
    row["loop_us"], row["others_us"], row["broker_us"] = coordinator.main_s * us, coordinator.others_s * us, kafka.total_s * us
    row["clients_us"] = coordinator.clients_s * us
    sqlite_rows_per_s = bed.raw.submit(measure_sqlite, SQLITE_ROWS).result()
    row["sqlite_rows_per_s"], row["to_sqlite"] = sqlite_rows_per_s, measured.batches / measured.window_s / sqlite_rows_per_s
    row["file_loop_us"] = coordinator.main_s * us * shape.batches * sqlite_rows_per_s / SQLITE_ROWS_PER_S
    row["generator_us"] = measured.cpu_s / measured.batches * 1e6 if measured.batches else float("nan")
    row["compiling"], row["stolen"] = end.compiler_cores_since(start), end.stolen_share_since(start)
    row["errors"] = problems(measured)
    return row


def warm_up(bed: Bed) -> None:
    """Load for some seconds without looking: a broker that was just started compiles its code first."""
    targets = asyncio.run(create_targets(bed.service.nodes[1].address, "warm-up", 100, 16))
    bed.run_load(Load(shape=Shape(batches_per_file=10, partitions=100), targets=targets, window_s=FIRST_LOAD_S))


def warm_shape(bed: Bed, shape: Standard, targets: Sequence[Target]) -> None:
    """Load a shape until the broker has compiled the code for it."""
    compiling = 0.0
    for _ in range(WARM_LOADS_MAX):
        start = disturbance(bed.broker_pid)
        bed.run_load(replace(load_of(bed, shape, targets), window_s=WARM_LOAD_S))
        compiling = disturbance(bed.broker_pid).compiler_cores_since(start)
        if compiling < COMPILING_CORES_MAX:
            return
    say(f"{shape.name}: the broker still compiles ({compiling:.2f} cores) after {WARM_LOADS_MAX} loads")


def load_of(bed: Bed, shape: Standard, targets: Sequence[Target]) -> Load:
    """The load of one run."""
    return Load(
        shape=Shape(batches_per_file=shape.batches, partitions=shape.partitions),
        targets=targets,
        depth=shape.depth,
        rate=shape.files_per_s,
        warm_up_s=WARM_UP_S,
        window_s=shape.window_s(bed.window_s),
    )


def measure_raw(bed: Bed, shape: Standard, entry_bytes: int) -> RawProduce:
    """Produce the bytes of the same entries raw."""
    in_flight = IN_FLIGHT_OPEN_LOOP if shape.files_per_s else shape.connections * shape.depth
    window_s = min(RAW_WINDOW_S, bed.window_s) * shape.window_s(bed.window_s) / bed.window_s
    with raw_topic(bed.kafka.bootstrap) as topic:
        how = partial(measure_produce, rate=shape.files_per_s, in_flight=in_flight, warm_up_s=RAW_WARM_UP_S, window_s=window_s)
        return bed.raw.submit(how, bed.kafka.bootstrap, topic, max(1, entry_bytes)).result()


def problems(measured: Measured) -> int:
    """Batches that were refused, or taken for duplicates."""
    return measured.errors + measured.duplicates


def median_row(shape: Standard, runs: Sequence[Row]) -> Row:
    """One line of the table."""
    row: Row = {"shape": shape.name, "runs": len(runs)}
    throughput = [float(str(run["batches_per_s"])) for run in runs]
    for key in runs[0]:
        row[key] = statistics.median(float(str(run[key])) for run in runs)
    row |= {"batches_per_s": round(statistics.median(throughput)), "min": round(min(throughput)), "max": round(max(throughput))}
    row["errors"] = sum(int(str(run["errors"])) for run in runs)
    row["requests"] = sum(int(str(run["requests"])) for run in runs)
    return row


def measure_shape(bed: Bed, shape: Standard, runs: int, profile: bool) -> Row:
    """All runs of a shape, on a topic of its own."""
    address, topic = bed.service.nodes[1].address, f"standard-{shape.name.replace('@', '-')}"
    targets = asyncio.run(create_targets(address, topic, shape.partitions, shape.connections))
    if shape.aim is not None:
        warm_shape(bed, shape, targets)
    row = median_row(shape, [measure(bed, shape, targets) for _ in range(runs)])
    what = f"{row['batches_per_s']:,} batches/s, p50 {row['p50_ms']:.2f} ms, p99 {row['p99_ms']:.2f} ms"
    say(f"{shape.name}: {what}, {row['loop_us']:.2f} us of the event loop per batch")
    if profile:
        print_profile(bed, shape, targets, float(str(row["loop_us"])))
    return row


def print_profile(bed: Bed, shape: Standard, targets: Sequence[Target], loop_us: float) -> None:
    """Run once more and print the event loop's time by function; the run itself is not in the table."""
    load = load_of(bed, shape, targets)
    running = bed.load.submit(run_load, load)
    shares = LoopProfile(bed.pid, load.warm_up_s + load.window_s).shares()
    running.result()
    rows: list[Row] = [
        {"function": one.function, "alone %": one.alone * 100, "alone us": one.alone * loop_us, "inclusive %": one.inclusive * 100}
        for one in shares[:FUNCTIONS_SHOWN]
    ]
    say(f"\n{shape.name}, event loop by time alone (us per batch):\n{table(rows, ('function', 'alone %', 'alone us', 'inclusive %'))}")
    rows = [
        {"function": one.function, "inclusive %": one.inclusive * 100, "inclusive us": one.inclusive * loop_us, "alone %": one.alone * 100}
        for one in sorted(shares, key=lambda one: -one.inclusive)[: FUNCTIONS_SHOWN * 2]
    ]
    say(f"\nby time with what is called:\n{table(rows, ('function', 'inclusive %', 'inclusive us', 'alone %'))}\n")


def aims_table(shapes: Sequence[Standard], rows: Sequence[Row]) -> str:
    """The aims, beside the measured figures."""
    lines: list[Row] = []
    for shape, row in zip(shapes, rows, strict=True):
        if shape.aim is None:
            continue
        aim = shape.aim
        for key, limit, is_floor in (
            ("to_sqlite", aim.to_sqlite, True),
            ("file_loop_us", aim.file_loop_us, False),
            ("bytes_per_batch", aim.bytes_per_batch, False),
            ("p50_ms", aim.p50_ms, False),
            ("p99_ms", aim.p99_ms, False),
            ("added_p50_ms", aim.added_p50_ms, False),
        ):
            if limit in (0.0, float("inf")):
                continue
            seen = float(str(row[key]))
            is_reached = seen >= limit if is_floor else seen <= limit
            aimed = f"{'>=' if is_floor else '<='} {limit:g}"
            lines.append({"shape": shape.name, "figure": key, "aim": aimed, "seen": seen, "reached": "yes" if is_reached else "NO"})
    return table(lines, ("shape", "figure", "aim", "seen", "reached")) if lines else ""


COLUMNS = (
    "shape",
    "batches_per_s",
    "min",
    "max",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "raw_p50_ms",
    "added_p50_ms",
    "to_raw",
    "sqlite_rows_per_s",
    "to_sqlite",
    "file_loop_us",
    "bytes_per_batch",
    "loop_us",
    "others_us",
    "clients_us",
    "broker_us",
    "generator_us",
    "compiling",
    "stolen",
    "requests",
    "errors",
)


def main() -> None:
    """Measure and print."""
    known = {shape.name: shape for shape in standard_shapes()}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=sorted(known), help="only these (repeatable)")
    parser.add_argument("--runs", type=int, default=5, help=f"runs of the shapes with an aim; the others at most {OTHER_RUNS_MAX}")
    parser.add_argument("--window", type=float, default=2.0, help="seconds measured in each run")
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        help="of this machine: rates and aims in proportion (1: 545 000 rows/s of raw SQLite; above 0)",
    )
    parser.add_argument("--profile", action="store_true", help="say where the event loop's time goes (needs py-spy)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    if options.speed <= 0:
        parser.error(f"--speed {options.speed:g}: it must be above 0")
    wanted = [known[name] for name in options.shape] if options.shape else list(known.values())
    shapes = [at_speed(shape, options.speed) for shape in wanted]
    if options.profile:
        try:
            find_profiler()
        except NoProfilerError as error:
            parser.error(str(error))
    rows = []
    with broker() as kafka, own_process() as load, own_process() as raw:
        for shape in shapes:
            runs = options.runs if shape.aim is not None else min(options.runs, OTHER_RUNS_MAX)
            with service(kafka) as running:
                bed = Bed(kafka=kafka, service=running, load=load, raw=raw, window_s=options.window)
                if not rows:
                    warm_up(bed)
                rows.append(measure_shape(bed, shape, runs, options.profile))
    say(f"\n{table(rows, COLUMNS)}\n\n{aims_table(shapes, rows)}")
    write_json(options.json, {"shapes": rows})


if __name__ == "__main__":
    main()
