"""The same commits by a control plane in PostgreSQL and by the coordinator, in one run on this machine.

    python -m benchmarks.postgres_peer [--synchronous-commit off] [--runs N] [--window S] [--json FILE]

The peer is what is usually built: tables of logs, files and batches, and one stored procedure per commit
(`postgres_peer.sql`), here in its best case: plain batches only (the coordinator's load is 30 % idempotent), set-based,
pgbench with prepared statements on a Unix socket, and of several numbers of clients the one with the greatest throughput.
Latencies at light load are of the same open-loop rate for both. Its commits wait for the disk, as they must if what was
acknowledged is to survive the end of its processes; entries in Kafka survive that in the page cache, and the loss of a
machine by their replicas. With `--synchronous-commit off` it loses what it acknowledged last.
Needs PostgreSQL 13 or newer with pgbench (`apt-get install postgresql`); its cluster lives in a temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from uuid import UUID

from benchmarks.bed import Row, broker, metrics_urls, own_process, say, service, table, write_json
from benchmarks.standard import SATURATING_DEPTH, Bed, Standard, load_of, problems, warm_up
from cli.bench.counters import log_counts, settled_log_counts
from cli.bench.generator import run_load
from cli.bench.percentile import percentile_ms
from cli.bench.targets import create_targets, delete_topic

PARTITIONS, TOPICS = 100, 10
SIZES = (10, 100, 1000)
LIGHT_BATCHES_PER_S = 2_000
"""A load that the peer carries too."""
CLIENTS = (1, 2, 4, 8)
SCRIPTS = 8
DATABASE = "postgres"
SETTINGS = {
    "shared_buffers": "2GB",
    "max_wal_size": "8GB",
    "listen_addresses": "''",
    "autovacuum_naptime": "10s",
}
PLACES = (Path("/usr/lib/postgresql"), Path("/usr/pgsql"), Path("/opt/homebrew/opt/postgresql"))


class NoPostgresError(Exception):
    """PostgreSQL cannot be run here; the text says why and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A running PostgreSQL with the tables and the procedure."""

    programs: Path
    folder: Path

    def run(self, program: str, *arguments: str) -> str:
        """Run one of its programs against it; returns what it printed."""
        return _run([str(self.programs / program), "-h", str(self.folder), *arguments])

    def bytes_per_batch(self) -> float:
        """The bytes of all stored data, indexes included."""
        return self._number(
            "SELECT sum(pg_total_relation_size(oid))::float / (SELECT count(*) FROM batches) FROM pg_class"
            " WHERE relname IN ('batches', 'files', 'logs')"
        )

    def unplaced_records(self) -> float:
        """Offsets that were given out and belong to no batch, or to two: 0 if the peer is right."""
        records = "SELECT sum(last_offset - base_offset + 1) FROM batches"
        return self._number(f"SELECT sum(high_watermark) - ({records}) FROM logs")

    def _number(self, query: str) -> float:
        return float(self.run("psql", "-X", "-A", "-t", "-c", query, DATABASE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pgbench:
    """The result of pgbench: commits per second, and the latency of each."""

    files_per_s: float
    latencies_s: Sequence[float]

    def percentile_ms(self, share: float) -> float:
        """A percentile of the latencies, in milliseconds."""
        return percentile_ms(self.latencies_s, share)


def _as_owner(command: Sequence[str]) -> list[str]:
    """The command as a user who is not root, since PostgreSQL refuses root."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else list(command)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(_as_owner(command), capture_output=True, text=True, check=False, cwd="/")
    if done.returncode != 0:
        raise NoPostgresError(f"`{' '.join(command[:2])} ...` ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def find_programs() -> Path:
    """The folder of initdb and pgbench. Raises `NoPostgresError`."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted((bin for place in PLACES for bin in place.glob("*/bin")), reverse=True)
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "pg_ctl", "psql", "pgbench")):
            return folder
    raise NoPostgresError("there is no PostgreSQL with pgbench on this machine: apt-get install postgresql")


@contextmanager
def peer(programs: Path, synchronous_commit: str) -> Iterator[Peer]:
    """A PostgreSQL of its own, reachable by a Unix socket in its folder; ended and deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="diskless-peer-") as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        data = folder / "data"
        _run([str(programs / "initdb"), "-D", str(data), "-A", "trust", "-E", "UTF8", "--locale=C"])
        settings = {**SETTINGS, "synchronous_commit": synchronous_commit}
        options = " ".join([f"-k {folder}", *(f"-c {key}={value}" for key, value in settings.items())])
        _run([str(programs / "pg_ctl"), "-D", str(data), "-l", str(folder / "log"), "-o", options, "-w", "start"])
        try:
            running = Peer(programs=programs, folder=folder)
            running.run("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", Path(__file__).with_suffix(".sql").read_text(), DATABASE)
            rows = ", ".join(f"('{topic}', {partition})" for topic, partition in partitions())
            running.run("psql", "-X", "-q", "-c", f"INSERT INTO logs (topic_id, partition) VALUES {rows}", DATABASE)
            yield running
        finally:
            _run([str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop"])


def partitions() -> list[tuple[UUID, int]]:
    """The user partitions."""
    rng = random.Random(1)
    topics = [UUID(bytes=rng.randbytes(16)) for _ in range(TOPICS)]
    return [(topic, number) for topic in topics for number in range(PARTITIONS // TOPICS)]


def script(batches: int, rng: random.Random) -> str:
    """A commit of one file for pgbench, with the load's distribution of sizes; its key is new every time."""
    places = sorted(rng.choices(partitions(), k=batches))
    sizes = [int(1024 * 64 ** rng.random()) for _ in places]
    columns: Sequence[tuple[str, Sequence[object]]] = (
        ("uuid", [topic for topic, _ in places]),
        ("integer", [number for _, number in places]),
        ("bigint", list(accumulate(sizes[:-1], initial=0))),
        ("integer", sizes),
        ("integer", [max(1, size // rng.randrange(100, 1200)) for size in sizes]),
        ("bigint", [1_760_000_000_000 + rng.randrange(250) for _ in places]),
    )
    arrays = ", ".join(f"'{{{','.join(map(str, values))}}}'::{kind}[]" for kind, values in columns)
    return (
        "\\set mark random(0, 9000000000000000000)\n"
        f"SELECT commit_file('wal/' || (:mark)::bigint::text || '-' || (:client_id)::bigint::text, {sum(sizes)}, {arrays});\n"
    )


def run_pgbench(running: Peer, batches: int, *, clients: int, window_s: int, files_per_s: float = 0.0) -> Pgbench:
    """Commit files for some seconds; with a rate as an open loop, latencies counted from when a commit was due."""
    rng = random.Random(batches)
    with tempfile.TemporaryDirectory(prefix="diskless-pgbench-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        scripts = []
        for number in range(SCRIPTS):
            path = folder / f"{number}.sql"
            path.write_text(script(batches, rng), encoding="ascii")
            scripts += ["-f", str(path)]
        how = ["-n", "-M", "prepared", "-c", str(clients), "-j", "1", "-T", str(window_s), *scripts]
        if files_per_s:
            how += ["-R", f"{files_per_s:g}"]
        running.run("pgbench", *how, "-l", f"--log-prefix={folder / 'commits'}", DATABASE)
        took_us = [int(line.split()[2]) for log in folder.glob("commits.*") for line in log.read_text(encoding="ascii").splitlines()]
    return Pgbench(files_per_s=len(took_us) / window_s, latencies_s=[us / 1e6 for us in took_us])


def measure_peer(running: Peer, batches: int, runs: int, window_s: float) -> Row:
    """Saturation with the best number of clients, then light load; medians."""
    seconds = max(1, round(window_s))
    by_clients = {n: run_pgbench(running, batches, clients=n, window_s=seconds).files_per_s for n in CLIENTS}
    clients = max(by_clients, key=lambda n: by_clients[n])
    saturated = [run_pgbench(running, batches, clients=clients, window_s=seconds) for _ in range(runs)]
    rate = LIGHT_BATCHES_PER_S / batches
    light = [run_pgbench(running, batches, clients=max(CLIENTS), window_s=seconds, files_per_s=rate) for _ in range(runs)]
    return {
        "files of": batches,
        "peer batches/s": statistics.median(run.files_per_s for run in saturated) * batches,
        "peer clients": clients,
        "peer p50_ms": statistics.median(run.percentile_ms(0.5) for run in light),
        "peer p99_ms": statistics.median(run.percentile_ms(0.99) for run in light),
    }


def measure_ours(bed: Bed, batches: int, runs: int) -> Row:
    """The same by the coordinator, with the shapes of `benchmarks.standard`."""
    address = bed.service.nodes[1].address
    saturation = Standard(name="saturation", batches=batches, partitions=PARTITIONS, depth=SATURATING_DEPTH.get(batches, 8))
    light = Standard(name="light", batches=batches, partitions=PARTITIONS, files_per_s=LIGHT_BATCHES_PER_S / batches)
    topic = f"peer-{batches}"
    targets = asyncio.run(create_targets(address, topic, PARTITIONS, saturation.connections))
    urls = metrics_urls(bed.service)
    try:
        before = log_counts(urls)
        saturated = [bed.load.submit(run_load, load_of(bed, saturation, targets)).result() for _ in range(runs)]
        log_bytes = settled_log_counts(urls).bytes_per_batch_since(before)
        lightly = [bed.load.submit(run_load, load_of(bed, light, targets)).result() for _ in range(runs)]
    finally:
        asyncio.run(delete_topic(address, topic))
    return {
        "batches/s": statistics.median(run.batches / run.window_s for run in saturated),
        "p50_ms": statistics.median(run.percentile_ms(0.5) for run in lightly),
        "p99_ms": statistics.median(run.percentile_ms(0.99) for run in lightly),
        "log bytes/batch": log_bytes,
        "errors": sum(problems(run) for run in (*saturated, *lightly)),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--synchronous-commit", choices=("on", "off"), default="on", help="whether PostgreSQL's commits wait for the disk")
    parser.add_argument("--runs", type=int, default=3, help="runs of each shape, whose medians are shown")
    parser.add_argument("--window", type=float, default=4.0, help="seconds measured in each run")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    try:
        programs = find_programs()
    except NoPostgresError as error:
        parser.error(str(error))
    rows: list[Row] = []
    with peer(programs, options.synchronous_commit) as running:
        for batches in SIZES:
            rows.append(measure_peer(running, batches, options.runs, options.window))
            say(f"PostgreSQL, files of {batches}: {rows[-1]['peer batches/s']:,.0f} batches/s")
        stored, unplaced = running.bytes_per_batch(), running.unplaced_records()
    with broker() as kafka, service(kafka) as started, own_process() as load, own_process() as raw:
        bed = Bed(kafka=kafka, service=started, load=load, raw=raw, window_s=options.window)
        warm_up(bed)
        for row, batches in zip(rows, SIZES, strict=True):
            row |= measure_ours(bed, batches, options.runs)
            row["times as fast"] = float(str(row["batches/s"])) / float(str(row["peer batches/s"]))
            say(f"coordinator, files of {batches}: {row['batches/s']:,.0f} batches/s")
    columns = (
        "files of", "batches/s", "peer batches/s", "times as fast", "peer clients", "p50_ms", "peer p50_ms", "p99_ms", "peer p99_ms",
        "log bytes/batch", "errors",
    )  # fmt: skip
    say(f"\n{table(rows, columns)}\n\nlatencies at {LIGHT_BATCHES_PER_S:,} batches/s; PostgreSQL stores {stored:.0f} bytes a batch")
    if unplaced:
        say(f"the peer is wrong: {unplaced:.0f} offsets belong to no batch or to two")
    write_json(options.json, {"shapes": rows, "peer_bytes_per_batch": stored})


if __name__ == "__main__":
    main()
