"""Deleting the objects of files without batches: objects a second beside raw deletes, and its cost for commits.

    python -m benchmarks.file_deletion [--files N] [--rate FILES] [--s3] [--json FILE]

A real broker, a coordinator process with one metadata partition, a store in a local folder or behind the S3 gateway `versitygw` (--s3). The
same number of objects is deleted with the store alone first, as many calls at a time as a node makes. Then so many files are committed,
their objects made, and their topic deleted without commits. The same again with commits at a fixed rate, which are measured while nothing
is deleted, from the deletion of the topic on until the last object is gone, and afterwards again. The last rows are the medians of the
windows of each kind: those of one run compare, those of different hours do not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from benchmarks.bed import Row, broker, own_process, say, service, table, wait_for, write_json
from benchmarks.process_cost import thread_cpu
from cli.bench.generator import Load, run_load
from cli.bench.targets import create_targets, delete_topic
from cli.bench.workload import Shape
from cli.dev.coordinator import CoordinatorProcess
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.object_store import ObjectStore
from coordinator.runtime.files.objects import CALLS_AT_ONCE_MAX, KEYS_PER_CALL_MAX
from integration_tests.s3 import BUCKET, RealS3

PARTITIONS = 100
SHAPE = Shape(batches_per_file=10, partitions=PARTITIONS)
CONNECTIONS = 16
ALONE = "commits alone"
BESIDE = "commits beside deletions"
DATA = b"a file"
WINDOW_S = 5.0
WINDOWS_ALONE = 3
"""The windows of commits alone before the deletions; there are as many behind them."""
FILL_RATE = 2_000.0
LOOK_EVERY_S = 0.25
# The keys of the load tell their time to the second.
AGES = {"file_commit_max_age_ms": "5000", "clock_skew_max_ms": "500", "file_delete_grace_ms": "2000", "snapshots_enable": "false"}


class Place(NamedTuple):
    """A store, and the folder that has its objects as files."""

    folder: Path
    url: str
    options: Mapping[str, str]

    def open(self) -> ObjectStore:
        return open_store(self.url, self.options)

    @property
    def properties(self) -> dict[str, str]:
        """Those of a service that uses it, underscores for dots."""
        return {"object_store_url": self.url} | {f"object_store_option_{name}": value for name, value in self.options.items()}


@contextmanager
def local_folder() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="diskless-objects-") as folder:
        yield Place(Path(folder), f"file://{folder}", {})


@contextmanager
def s3_gateway() -> Iterator[Place]:
    """Raises FileNotFoundError without `versitygw`."""
    program = shutil.which("versitygw")
    if program is None:
        raise FileNotFoundError('versitygw is not installed; see README, "Tests", or run without --s3')
    with tempfile.TemporaryDirectory(prefix="diskless-objects-") as folder, RealS3(program, Path(folder)) as gateway:
        yield Place(Path(folder) / "objects" / BUCKET, f"s3://{BUCKET}", gateway.options())


def make(folder: Path, keys: Sequence[str]) -> None:
    """Make objects as the store has them in its folder."""
    for parent in {(folder / key).parent for key in keys}:
        parent.mkdir(parents=True, exist_ok=True)
    for key in keys:
        (folder / key).write_bytes(DATA)


async def delete_raw(store: ObjectStore, keys: Sequence[str]) -> float:
    """Delete objects with the store alone; returns the seconds."""
    limit = asyncio.Semaphore(CALLS_AT_ONCE_MAX)

    async def delete(some: Sequence[str]) -> None:
        async with limit:
            deleted = await store.delete_many(some)
        if deleted.error is not None:
            raise deleted.error

    begun = time.perf_counter()
    await asyncio.gather(*(delete(keys[first : first + KEYS_PER_CALL_MAX]) for first in range(0, len(keys), KEYS_PER_CALL_MAX)))
    return time.perf_counter() - begun


async def keys_of_files(servers: Sequence[str]) -> list[str]:
    """The keys of all files that the service knows."""
    async with DisklessClient(servers, client_id="benchmark") as client:
        return [file.object_key async for file in client.admin.list_files(page_size=10_000)]


class Emptying:
    """Watches a folder whose objects are being deleted, and looks rarely: going through many names disturbs the measurement."""

    def __init__(self, folder: Path, at_first: int) -> None:
        self._folder = folder
        self.at_first = at_first
        self.first_s = self.last_s = 0.0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _left(self) -> int:
        time.sleep(LOOK_EVERY_S)
        try:
            with os.scandir(self._folder) as names:
                return sum(1 for _ in names)
        except FileNotFoundError:
            return 0  # the gateway removes a folder with its last object

    def _watch(self) -> None:
        wait_for(lambda: self._left() < self.at_first, "the first object to go")
        self.first_s = time.perf_counter()
        wait_for(lambda: self._left() == 0, "the last object to go", 1_800)
        self.last_s = time.perf_counter()

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    @property
    def seconds(self) -> float:
        """From the first object that went to the last."""
        self._thread.join()
        return self.last_s - self.first_s


class Doomed(NamedTuple):
    """A topic whose files have objects: `wal` is their folder, with so many in it."""

    name: str
    wal: Path
    objects: int


def make_doomed(node: CoordinatorProcess, objects: Path, pool: ProcessPoolExecutor, name: str, files: int) -> Doomed:
    """Commit so many files of a topic and make their objects."""
    targets = asyncio.run(create_targets(node.address, name, PARTITIONS, CONNECTIONS))
    before = set(asyncio.run(keys_of_files([node.address])))
    fill = Load(shape=SHAPE, targets=targets, window_s=files / FILL_RATE, rate=FILL_RATE, warm_up_s=0.0)
    pool.submit(run_load, fill).result()
    made = [key for key in asyncio.run(keys_of_files([node.address])) if key not in before]
    make(objects, made)
    return Doomed(name, (objects / made[0]).parent, len(made))


def delete(node: CoordinatorProcess, doomed: Doomed) -> Emptying:
    """Delete a topic and watch its objects go."""
    emptying = Emptying(doomed.wal, doomed.objects)
    asyncio.run(delete_topic(node.address, doomed.name))
    return emptying


def measure(place: Place, files: int, rate: float) -> list[Row]:
    """See the module's text; a row for each kind of deletion, and one for each window of commits."""
    objects = place.folder
    keys = [f"wal/{number}" for number in range(files)]
    make(objects, keys)
    rows: list[Row] = [{"what": "raw deletes", "objects_per_s": files / asyncio.run(delete_raw(place.open(), keys))}]
    with broker() as kafka, service(kafka, **AGES, **place.properties) as running, own_process() as pool:
        node = running.nodes[1]
        first = make_doomed(node, objects, pool, "first", files)
        rows.append({"what": "deletions without commits", "objects_per_s": first.objects / delete(node, first).seconds})
        doomed = make_doomed(node, objects, pool, "doomed", files)
        kept = asyncio.run(create_targets(node.address, "kept", PARTITIONS, CONNECTIONS))

        def commits(what: str) -> Row:
            before = thread_cpu(node.pid)
            wanted = Load(shape=SHAPE, targets=kept, window_s=WINDOW_S, rate=rate, warm_up_s=1.0)
            measured = pool.submit(run_load, wanted).result()
            cpu = thread_cpu(node.pid).since(before)
            return {
                "what": what,
                "files_per_s": measured.requests / measured.window_s,
                "p50_ms": measured.percentile_ms(0.5),
                "p99_ms": measured.percentile_ms(0.99),
                "loop_cores": cpu.main_s / (WINDOW_S + 1),
                "other_cores": cpu.others_s / (WINDOW_S + 1),
            }

        alone = [commits(ALONE) for _ in range(WINDOWS_ALONE)]
        emptying, beside = delete(node, doomed), []
        while not emptying.is_over:
            beside.append(commits(BESIDE))
        rows += [*alone, *beside, {"what": "deletions beside commits", "objects_per_s": doomed.objects / emptying.seconds}]
        after = [commits(ALONE) for _ in range(WINDOWS_ALONE)]
    return [*rows, *after, medians(f"median of {ALONE}", alone + after), medians(f"median of {BESIDE}", beside)]


def medians(what: str, windows: Sequence[Row]) -> Row:
    """The medians of the figures of some windows."""
    names = [name for name in windows[0] if name != "what"]
    return {"what": what} | {name: statistics.median(cast(float, window[name]) for window in windows) for name in names}


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with s3_gateway() if arguments.s3 else local_folder() as place:
        rows = measure(place, arguments.files, arguments.rate)
    say(table(rows, ("what", "objects_per_s", "files_per_s", "p50_ms", "p99_ms", "loop_cores", "other_cores")))
    write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
