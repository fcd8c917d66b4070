"""Commits through SASL_SSL beside plain text: the same load on two listeners of one coordinator, in turn, on this machine.

    python -m benchmarks.secured_commits [--batches 100] [--runs 5] [--window S] [--mechanism SCRAM-SHA-512] [--json FILE]

Each run loads the plain listener, then the secured ones; figures are medians over the runs, `to_plain` the median of each run's own ratio
of throughputs. CPU microseconds are per file: the coordinator's event loop, its other threads, the load. The load is on the same
machine and encrypts as well.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks.bed import Row, broker, own_process, say, service, table, write_json
from benchmarks.process_cost import thread_cpu
from cli.bench.generator import Load, Target, run_load
from cli.bench.targets import create_targets
from cli.bench.workload import Shape
from cli.dev.ports import lease_ports
from coordinator.security.users_file import credentials_of, write_users
from simulation.fakes.certificates import Authority

PLAIN = "PLAINTEXT"
LISTENERS = (PLAIN, "SASL_PLAINTEXT", "SSL", "SASL_SSL")
USER, PASSWORD = "benchmark", "secret"
CONNECTIONS = 16
DEPTH = {10: 32, 100: 8, 1000: 8}
AIM = 0.75
FIRST_LOAD_S = 10.0
COLUMNS = ("listener", "batches_per_s", "min", "max", "to_plain", "p50_ms", "p99_ms", "loop_us", "others_us", "generator_us", "errors")


def properties_of(listener: str, authority: Authority, mechanism: str) -> Mapping[str, str]:
    """The settings of a client for a listener."""
    login = {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    tls = {"ssl.truststore.location": str(authority.ca_file)}
    return {"security.protocol": listener, **(login if "SASL" in listener else {}), **(tls if "SSL" in listener else {})}


def measure(process: ProcessPoolExecutor, load: Load, pid: int) -> Row:
    """One run on one listener."""
    before = thread_cpu(pid)
    measured = process.submit(run_load, load).result()
    used = thread_cpu(pid).since(before)
    files = max(1, measured.requests) * (load.warm_up_s + load.window_s) / measured.window_s
    return {
        "batches_per_s": measured.batches / measured.window_s,
        "p50_ms": measured.percentile_ms(0.5),
        "p99_ms": measured.percentile_ms(0.99),
        "loop_us": used.main_s / files * 1e6,
        "others_us": used.others_s / files * 1e6,
        "generator_us": measured.cpu_s / max(1, measured.requests) * 1e6,
        "errors": measured.errors + measured.duplicates,
    }


def summary(listener: str, runs: Sequence[Row], plain: Sequence[Row]) -> Row:
    """Medians over the runs."""
    rates = [float(run["batches_per_s"]) for run in runs]
    row: Row = {name: statistics.median(float(run[name]) for run in runs) for name in runs[0]}
    row |= {"listener": listener, "min": min(rates), "max": max(rates)}
    row["to_plain"] = statistics.median(rate / float(other["batches_per_s"]) for rate, other in zip(rates, plain, strict=True))
    return row


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=100, help="batches of a file (100)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--window", type=float, default=4.0, help="seconds that a run measures (4)")
    parser.add_argument("--mechanism", default="SCRAM-SHA-512")
    parser.add_argument("--json", help="write the figures to a file")
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="diskless-benchmark-")))
        authority = Authority(folder)
        users = folder / "users"
        write_users(users, {USER: credentials_of(PASSWORD)})
        leases = lease_ports(len(LISTENERS))
        places = {listener: f"127.0.0.1:{lease.port}" for listener, lease in zip(LISTENERS, leases, strict=True)}
        for lease in leases:
            stack.callback(lease.close)
        settings = {
            "listeners": ",".join(f"{listener}://{place}" for listener, place in places.items()),
            "ssl_keystore_location": str(authority.issue("node")),
            "users_file": str(users),
            "sasl_enabled_mechanisms": options.mechanism,
            "authorizer": "acls",
            "super_users": f"User:{USER};User:ANONYMOUS",
        }
        running = stack.enter_context(service(stack.enter_context(broker()), **settings))
        process = stack.enter_context(own_process())
        shape = Shape(batches_per_file=options.batches, partitions=100)
        loads = {}
        made: Sequence[Target] = asyncio.run(create_targets(places[PLAIN], "commits", 100, CONNECTIONS))
        for listener, place in places.items():
            properties, port = properties_of(listener, authority, options.mechanism), int(place.rpartition(":")[2])
            targets = [replace(one, port=port, properties=properties) for one in made]
            loads[listener] = Load(
                shape=shape, targets=targets, depth=DEPTH.get(options.batches, 8), warm_up_s=0.8, window_s=options.window
            )
        pid = running.nodes[1].pid
        say("the broker compiles its code")
        process.submit(run_load, Load(shape=shape, targets=loads[PLAIN].targets, depth=8, window_s=FIRST_LOAD_S)).result()
        runs: dict[str, list[Row]] = {listener: [] for listener in LISTENERS}
        for number in range(options.runs):
            # Each run in another order: the machine may be warmer or cooler for the first listener.
            for listener in LISTENERS[number % len(LISTENERS) :] + LISTENERS[: number % len(LISTENERS)]:
                runs[listener].append(measure(process, loads[listener], pid))
            say(f"run {number + 1} of {options.runs}")
        rows = [summary(listener, runs[listener], runs[PLAIN]) for listener in LISTENERS]
        say(table(rows, COLUMNS))
        share = float(rows[-1]["to_plain"])
        say(f"SASL_SSL has {share:.0%} of the throughput of plain text; at least {AIM:.0%}: {'yes' if share >= AIM else 'NO'}")
        write_json(options.json, {"batches": options.batches, "runs": runs, "rows": rows})


if __name__ == "__main__":
    main()
