"""The speed of the monitor: a backlog audited from cold, and a live load beside the broker.

    python -m benchmarks.monitor [--batches 5000000] [--per-file 100] [--rate 250000] [--seconds 60] [--idle 180] [--folder FOLDER]
        [--workers 1,2]

Starts a real broker, fills a topic with a made log, runs `diskless monitor run --once` on it from cold and checks its
totals; then writes at a rate while `diskless monitor run` follows, and prints how old the numbers were, the processor time
and the memory of all its processes together; then writes nothing for a while (--idle), and prints when the first file after it was seen.
Beside it, in the same minute, a plain loop of the machine's speed.
With --workers the backlog is read by standalone clusters of so many workers, of one core each, in turn, in micro-batches of 10 000 entries
for each worker, and nothing else is measured: the rate after the first micro-batch leaves out the start of executors.
Aims, on two quiet cores: the backlog in under 30 s, p99 under 3 s, under 0.7 cores, under 1.1 GB (pss), and the first file after three idle
minutes in 3 s.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.dev.kafka import KafkaCluster
from integration_tests.made_load import LogProducer
from integration_tests.made_log import MadeLog
from integration_tests.monitor_process import MonitorProcess
from integration_tests.spark_cluster.cluster import SparkCluster
from integration_tests.spark_cluster.environment import make_environment
from spark_jobs.monitor.report import open_report
from spark_jobs.settings import MAX_ENTRIES_PER_BATCH

KPARTS = 4
FILES_PER_CALL = 5_000
SAMPLE_EVERY_S = 0.05
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MB = 1 << 20
END_TIMEOUT_S = 600
WARM_UP_S = 10.0


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batches", type=int, default=5_000_000)
    parser.add_argument("--per-file", type=int, default=100)
    parser.add_argument("--rate", type=int, default=250_000, help="batches per second of the live part; 0 leaves it out")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--idle", type=float, default=180, help="seconds without a file behind the live part")
    parser.add_argument("--trigger-interval", default="1", help="of the live part, in seconds")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--workers", type=lambda text: [int(one) for one in text.split(",")], default=[], metavar="N,..")
    options = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f}; a plain Python loop of 10 M steps takes {_plain_loop_s():.2f} s")
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        with KafkaCluster(1, folder / "kafka") as kafka:
            if options.batches:
                log = _write_backlog(kafka.bootstrap, options.batches // options.per_file, options.per_file)
                for workers in options.workers:
                    _on_a_cluster(kafka.bootstrap, folder, log, workers)
                if not options.workers:
                    _backlog(kafka.bootstrap, folder, log)
            if options.rate and not options.workers:
                _live(kafka.bootstrap, folder, options)


def _plain_loop_s() -> float:
    start_s = time.perf_counter()
    for _ in range(10_000_000):
        pass
    return time.perf_counter() - start_s


def _write_backlog(bootstrap: str, files: int, per_file: int) -> MadeLog:
    producer, log = LogProducer(bootstrap, "backlog"), MadeLog.of(KPARTS, per_file)
    producer.create_topic(KPARTS)
    producer.write(log.beginning())
    start_s = time.monotonic()
    for done in range(0, files, FILES_PER_CALL):
        producer.write(log.files(min(FILES_PER_CALL, files - done)))
    producer.flush()
    batches = log.totals["batches"]
    print(f"backlog: {batches} batches in {files} files written in {time.monotonic() - start_s:.1f} s")
    return log


def _on_a_cluster(bootstrap: str, folder: Path, log: MadeLog, workers: int) -> None:
    own = folder / f"cluster-{workers}"
    own.mkdir()
    with SparkCluster(own, make_environment(own / "environment", "spark"), workers=workers) as cluster:
        properties = [f"--spark-property={key}={value}" for key, value in cluster.settings.items()]
        print(f"cluster of {workers} workers:")
        limit = str(MAX_ENTRIES_PER_BATCH * workers)
        _backlog(bootstrap, own, log, "--master", cluster.master, *properties, "--max-entries", limit)


def _backlog(bootstrap: str, folder: Path, log: MadeLog, *where: str) -> None:
    batches = log.totals["batches"]
    with MonitorProcess(bootstrap, "backlog", folder) as monitor:
        start_s = time.monotonic()
        monitor.start("--once", *where)
        usage = _watch(monitor, lambda: monitor.has_ended())
        took_s = time.monotonic() - start_s
        assert monitor.process.exit_status() == 0, monitor.said()
        wrong = {name: (value, monitor.total(name)) for name, value in log.totals.items() if monitor.total(name) != value}
        assert not wrong, f"expected, found: {wrong}"
        assert monitor.total("findings") == 0
        with open_report(monitor.folder) as report:
            rows = report.connection.execute("SELECT batches, scan_ms, merge_ms, merged_ms FROM micro_batch ORDER BY id").fetchall()
    print(f"  audited from cold in {took_s:.1f} s ({batches / took_s:,.0f} batches/s), totals exact, no findings; {usage}")
    if len(rows) > 1:
        warm = sum(row["batches"] for row in rows[1:]) / (rows[-1]["merged_ms"] - rows[0]["merged_ms"]) * 1000
        print(f"  after the first micro-batch: {warm:,.0f} batches/s")
    for row in rows:
        print(f"  micro-batch: {row['batches']} batches, scan {row['scan_ms']} ms, merge {row['merge_ms']} ms")


def _live(bootstrap: str, folder: Path, options: argparse.Namespace) -> None:
    rate, per_file, seconds = options.rate, options.per_file, options.seconds
    log = MadeLog.of(KPARTS, per_file, seed=2, now_ms=lambda: time.time_ns() // 1_000_000)
    producer = LogProducer(bootstrap, "live")
    producer.create_topic(KPARTS)
    producer.write(log.beginning())
    producer.flush()
    (folder / "live").mkdir()
    with MonitorProcess(bootstrap, "live", folder / "live") as monitor:
        monitor.start_ready("--trigger-interval", options.trigger_interval)
        ended = threading.Event()
        writer = threading.Thread(target=producer.write_at, args=(log, rate / per_file, ended.is_set))
        writer.start()
        monitor.wait_total("batches", 1, timeout_s=END_TIMEOUT_S)
        ended.wait(WARM_UP_S)
        before = log.totals["batches"]
        freshness = _Freshness(monitor)
        end_s = time.monotonic() + seconds
        usage = _watch(monitor, lambda: time.monotonic() > end_s, freshness.look)
        written = log.totals["batches"] - before
        behind = log.totals["batches"] - monitor.total("batches")
        ended.set()
        writer.join()
        monitor.wait_total("batches", log.totals["batches"], timeout_s=END_TIMEOUT_S)
        first_s = _after_idling(monitor, producer, log, options.idle)
        assert monitor.total("findings") == 0
        status = monitor.terminate(30)
    print(f"live: {written / seconds:,.0f} batches/s for {seconds:g} s, {behind} batches behind at the end, status {status}")
    print(f"  {freshness}")
    print(f"  {usage}")
    print(f"  the first file after {options.idle:g} idle seconds was seen {first_s:.2f} s after it was written")


def _after_idling(monitor: MonitorProcess, producer: LogProducer, log: MadeLog, idle_s: float) -> float:
    """Return how long the first file takes from its writing to the store."""
    time.sleep(idle_s)
    wanted, begun_s = log.totals["batches"] + 1, time.monotonic()
    producer.write(log.files(1))
    producer.flush()
    while monitor.total("batches") < wanted:
        time.sleep(SAMPLE_EVERY_S)
    return time.monotonic() - begun_s


class _Freshness:
    """The ages of entries when they could be read: for each merge, the age of the oldest entry in it and of the newest."""

    def __init__(self, monitor: MonitorProcess) -> None:
        self._monitor = monitor
        self._before = self._heads()
        self._newest_ms: list[float] = []
        self._all_ms: list[float] = []

    def _heads(self) -> Mapping[int, tuple[int, int]]:
        with open_report(self._monitor.folder) as report:
            rows = report.connection.execute("SELECT kpart, append_ms, merged_ms FROM head").fetchall()
        return {row["kpart"]: (row["append_ms"], row["merged_ms"]) for row in rows}

    def look(self) -> None:
        """Note the entries that were merged since the last look. Entries between two heads are taken as evenly spread in time."""
        seen_ms, heads = time.time() * 1000, self._heads()
        for kpart, (append_ms, _) in heads.items():
            before_ms = self._before.get(kpart, (append_ms, 0))[0]
            if append_ms != before_ms:
                self._newest_ms.append(seen_ms - append_ms)
                self._all_ms += [seen_ms - (before_ms + (append_ms - before_ms) * part / 20) for part in range(1, 21)]
        self._before = heads

    def __str__(self) -> str:
        return (
            f"age of an entry when it can be read: p50 {_percentile(self._all_ms, 50) / 1000:.2f} s, "
            f"p99 {_percentile(self._all_ms, 99) / 1000:.2f} s, max {max(self._all_ms, default=0) / 1000:.2f} s; "
            f"of the newest entry: p50 {_percentile(self._newest_ms, 50) / 1000:.2f} s"
        )


def _percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0


@dataclass(slots=True)
class _Usage:
    """Processor time and memory of a family of processes."""

    seconds: float = 0.0
    cpu_s: dict[int, float] = field(default_factory=dict)
    cpu_before_s: float = 0.0
    rss_max: int = 0
    pss_max: int = 0
    of_each: list[int] = field(default_factory=list)

    def add(self, pids: Sequence[int], *, with_memory: bool) -> None:
        """Look at the processes."""
        for pid in pids:
            used = _cpu_s(pid)
            if used is not None:
                self.cpu_s[pid] = used
        if with_memory:
            of_each = [_memory(pid, "Rss") for pid in pids]
            if sum(of_each) > self.rss_max:
                self.rss_max, self.of_each = sum(of_each), of_each
            self.pss_max = max(self.pss_max, sum(_memory(pid, "Pss") for pid in pids))

    def __str__(self) -> str:
        used = sum(self.cpu_s.values()) - self.cpu_before_s
        return (
            f"{used / max(self.seconds, 0.001):.2f} cores ({used:.1f} s in {self.seconds:.1f} s), memory of all processes together: "
            f"rss {self.rss_max / MB:.0f} MB, pss {self.pss_max / MB:.0f} MB at most "
            f"(rss of each then: {', '.join(f'{size / MB:.0f}' for size in self.of_each)})"
        )


def _watch(monitor: MonitorProcess, is_over: Callable[[], bool], look: Callable[[], None] = lambda: None) -> _Usage:
    """Watch a monitor's processes until `is_over()`; their use before that does not count."""
    usage, start_s, family_due_s = _Usage(), time.monotonic(), 0.0
    usage.add(list(monitor.family()), with_memory=False)
    usage.cpu_before_s = sum(usage.cpu_s.values())
    pids: list[int] = []
    while not is_over():
        if time.monotonic() >= family_due_s:
            pids, family_due_s = list(monitor.family()), time.monotonic() + 1
            usage.add(pids, with_memory=True)
            usage.seconds = time.monotonic() - start_s
        look()
        time.sleep(SAMPLE_EVERY_S)
    usage.seconds = time.monotonic() - start_s
    usage.add(pids, with_memory=False)
    return usage


def _cpu_s(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _memory(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


if __name__ == "__main__":
    main()
