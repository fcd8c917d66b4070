"""The common parts of benchmarks of a whole service: a real broker, coordinator processes beside it, a process for the load.

Owns starting and ending of them; `cli.bench` owns load, raw figures and counters.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from cli.dev.kafka import KafkaCluster
from integration_tests.service import Service

LOOK_EVERY_S = 0.01
WAIT_TIMEOUT_S = 180.0

Row = dict[str, object]


@contextmanager
def broker() -> Iterator[KafkaCluster]:
    """A Kafka of one broker with the sizes of a real one."""
    with KafkaCluster(1, profile="bench") as kafka:
        yield kafka


@contextmanager
def service(kafka: KafkaCluster, *, nodes: int = 1, metadata_partitions: int = 1, **properties: str) -> Iterator[Service]:
    """A service of its own metadata topic, every partition led; ended afterwards. Property names with underscores for dots."""
    dotted: Mapping[str, str] = {key.replace("_", "."): value for key, value in properties.items()}
    with tempfile.TemporaryDirectory(prefix="diskless-benchmark-") as folder:
        made = Service(kafka.bootstrap, Path(folder), partitions=metadata_partitions, properties=dotted)
        try:
            for node_id in range(1, nodes + 1):
                made.add(node_id).start()
            made.wait_shared(WAIT_TIMEOUT_S)
            yield made
        finally:
            made.stop()


@contextmanager
def own_process() -> Iterator[ProcessPoolExecutor]:
    """A process for load or raw figures, started and warm, so that it does not share an interpreter with anything."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(int).result()
        yield pool


def metrics_urls(running: Service) -> list[str]:
    """/metrics of every node."""
    return [f"{node.http}/metrics" for node in running.nodes.values()]


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = WAIT_TIMEOUT_S, look_every_s: float = LOOK_EVERY_S) -> None:
    """Return as soon as the condition holds. Raises TimeoutError, whose text names the condition by `what`."""
    deadline = time.perf_counter() + timeout_s
    while not condition():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(look_every_s)


# ---- printing


def text_of(value: object) -> str:
    """A figure as people read it: thousands separated, as many decimals as its size deserves."""
    if isinstance(value, float):
        if value != value:
            return "-"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """A table in markdown, aligned so that it reads as text too; a cell that a row does not have is `-`."""
    lines = [list(columns), *([text_of(row.get(column, "-")) for column in columns] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    texts = [[line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))] for line in lines]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (texts[0], rule, *texts[1:]))


def say(text: str) -> None:
    """Print at once: a person may be watching."""
    print(text, flush=True)


def write_json(path: str | None, document: object) -> None:
    """Write the figures for programs, when a file is named."""
    if path is not None:
        Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
