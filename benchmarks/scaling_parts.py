"""The measurements of every dimension of `benchmarks.scaling`: CPU per batch, stalls of the event loop, recovery, slopes."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from benchmarks.bed import Row, say, table, wait_for
from benchmarks.process_cost import resident_bytes, thread_cpu
from benchmarks.wire import Wire
from cli.bench.generator import Load, Measured, Target, run_load
from cli.bench.workload import Shape
from cli.dev.coordinator import CoordinatorProcess
from coordinator.protocol.messages import DescribeCoordinatorsRequest
from integration_tests.service import Service

FILES_PER_S = 200.0
BATCHES_PER_FILE = 100
WARM_UP_S = 1.0
WINDOW_S = 2.0
FILES_IN_FLIGHT = 128
TEMPLATES = 4
STALL_LOOK_S = 0.005
LEADING_TIMEOUT_S = 180.0
SETTLED_S = 3.0
MB = 1 << 20


@dataclass(slots=True)
class Stall:
    """The longest round trip of a small request while something else went on."""

    longest_s: float = 0.0


@contextmanager
def stalls(address: str) -> Iterator[Stall]:
    """Ask a node for next to nothing all the while."""
    seen, stopped = Stall(), threading.Event()

    def ask() -> None:
        with Wire(address) as wire:
            while not stopped.wait(STALL_LOOK_S):
                seen.longest_s = max(seen.longest_s, wire.call(DescribeCoordinatorsRequest(coordinator_ids=(0,))).seconds)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield seen
    finally:
        stopped.set()
        thread.join()


@dataclass(slots=True, kw_only=True)
class Cost:
    """One load: the figures of its client, and CPU microseconds per batch of the nodes."""

    measured: Measured
    loop_us: list[float] = field(default_factory=list)
    others_us: list[float] = field(default_factory=list)


def run(nodes: Sequence[CoordinatorProcess], pool: ProcessPoolExecutor, load: Load) -> Cost:
    """Run a load and take the nodes' CPU, warm-up included in both."""
    before = [thread_cpu(node.pid) for node in nodes]
    batches = sum(node.metric("batches_total") for node in nodes)
    cost = Cost(measured=pool.submit(run_load, load).result())
    if cost.measured.errors:
        raise AssertionError(f"{cost.measured.errors} batches were refused")
    us = 1e6 / (sum(node.metric("batches_total") for node in nodes) - batches)
    for node, earlier in zip(nodes, before, strict=True):
        used = thread_cpu(node.pid).since(earlier)
        cost.loop_us.append(used.main_s * us)
        cost.others_us.append(used.others_s * us)
    return cost


def light(targets: Sequence[Target]) -> Load:
    """The load of 20 000 batches/s."""
    shape = Shape(batches_per_file=BATCHES_PER_FILE, partitions=0)
    return Load(shape=shape, targets=targets, rate=FILES_PER_S, warm_up_s=WARM_UP_S, window_s=WINDOW_S, templates=TEMPLATES)


def saturating(targets: Sequence[Target]) -> Load:
    """The load that saturates: 128 files in flight, or one on each connection."""
    return replace(light(targets), rate=0.0, depth=max(1, FILES_IN_FLIGHT // len(targets)))


def wait_written(nodes: Sequence[CoordinatorProcess]) -> None:
    """Wait until the state databases of all nodes have all applied entries."""
    wait_for(lambda: all(n.metric("log_end_offset") == n.metric("state_applied_offset") for n in nodes), "the state databases")


def wait_even(nodes: Sequence[CoordinatorProcess], partitions: int) -> None:
    """Wait until all metadata partitions are led, by all nodes alike within one, and no leader has moved for some seconds."""
    since_s = time.perf_counter()
    before: list[object] = []

    def is_settled() -> bool:
        nonlocal since_s, before
        led = [node.readiness()[1].get("leading", []) for node in nodes]
        if led != before:
            since_s, before = time.perf_counter(), led
        sizes = [len(one) for one in led]  # type: ignore[arg-type]
        is_even = sum(sizes) == partitions and max(sizes) - min(sizes) <= 1
        return is_even and time.perf_counter() - since_s > SETTLED_S

    wait_for(is_settled, "the leaders to be even", look_every_s=0.1)


def seconds_until_leading(node: CoordinatorProcess, running: Service) -> float:
    """Start a node and wait until it, and with it the service, leads everything."""
    started = time.perf_counter()
    node.start()
    node.wait_ready(LEADING_TIMEOUT_S)
    running.wait_shared(LEADING_TIMEOUT_S)
    return time.perf_counter() - started


def recovery(node: CoordinatorProcess, running: Service) -> Row:
    """Restart a node with its state databases, and without them; it leads before they are written again (`written_s` later)."""
    wait_written([node])
    end = node.metric("log_end_offset")
    node.terminate(60)
    restart_s = seconds_until_leading(node, running)
    restarted_mb = resident_bytes(node.pid) / MB
    node.terminate(60)
    shutil.rmtree(node.data_folder)
    replay_s = seconds_until_leading(node, running)
    if node.metric("log_end_offset") < end:
        raise AssertionError(f"the log ended at {end:.0f}, the node that replayed it is at {node.metric('log_end_offset'):.0f}")
    started = time.perf_counter()
    wait_written([node])
    return {"restart_s": restart_s, "restarted_mb": restarted_mb, "replay_s": replay_s, "written_s": time.perf_counter() - started}


def slope_row(rows: Sequence[Row], unit: int, name: str) -> Row:
    """The growth of every figure with `unit` more of the first column, by least squares."""
    first = next(iter(rows[0]))
    xs = [float(str(row[first])) for row in rows]
    mean_x = sum(xs) / len(xs)
    spread = sum((x - mean_x) ** 2 for x in xs)
    line: Row = {first: f"slope per {name}"}
    for key in list(rows[0])[1:]:
        ys = [float(str(row[key])) for row in rows]
        mean_y = sum(ys) / len(ys)
        rise = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
        line[key] = rise / spread * unit if spread else float("nan")
    return line


def show(title: str, rows: Sequence[Row], unit: int, name: str) -> None:
    """Print a dimension; with a `unit` of 0 without slopes."""
    shown = [*rows, slope_row(rows, unit, name)] if unit and len(rows) > 1 else rows
    say(f"\n### {title}\n\n{table(shown, tuple(rows[0]))}\n")
