"""`diskless bench`: how fast a service commits, beside what raw Kafka and raw SQLite do on the same machine."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from cli.node_security import node_properties, node_security, read_client_properties, without_nodes
from cli.options import FiniteRange, kafka_options, output_option
from cli.outcome import Exit, Failed
from cli.output import print_rows, say

COLUMNS = (
    "batches_per_file",
    "commits_per_s",
    "batches_per_s",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "raw_p50_ms",
    "added_p50_ms",
    "commits_to_raw",
    "log_bytes_per_batch",
    "coordinator_cpu",
    "coordinator_us_per_batch",
    "broker_cpu",
    "generator_cpu",
    "errors",
)

BATCHES_MAX = 10_000
"""Batches per file: more make requests near the size that nodes read (socket.request.max.bytes) and take minutes to make."""


def _shapes(_context: click.Context, _parameter: click.Parameter, text: str) -> list[int]:
    try:
        shapes = [int(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a list of numbers like 10,100,1000") from None
    for shape in shapes:
        if not 1 <= shape <= BATCHES_MAX:
            raise click.BadParameter(f"{shape} batches per file; 1 to {BATCHES_MAX} can be measured")
    return shapes


@click.command()
@click.option("--bootstrap-server", help="Nodes of a running service; without it a broker and one coordinator are started for the run.")
@click.option("--kafka-bootstrap-server", help="The Kafka of that service, for the raw figures.")
@click.option("--metrics-url", "metrics_urls", multiple=True, help="/metrics of its nodes, for log bytes per batch (repeatable).")
@click.option(
    "--batches-per-file", default="10,100,1000", show_default=True, callback=_shapes, help="Shapes of files, one after the other."
)
@click.option("--partitions", default=100, show_default=True, type=click.IntRange(1, 100_000), help="User partitions of the load.")
@click.option("--idempotent-share", default=0.3, show_default=True, type=FiniteRange(0, 1), help="Share of idempotent batches.")
@click.option("--rate", default=0.0, show_default=True, type=FiniteRange(0), help="Batches per second; 0 measures saturation.")
@click.option("--connections", default=16, show_default=True, type=click.IntRange(1, 1024), help="Connections of the load.")
@click.option(
    "--depth", default=8, show_default=True, type=click.IntRange(1, 1024), help="Commits in flight per connection, at saturation."
)
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 100), help="Runs per shape; medians are shown.")
@click.option("--warm-up", "warm_up_s", default=3.0, show_default=True, type=FiniteRange(0), help="Seconds before each window.")
@click.option("--window", "window_s", default=5.0, show_default=True, type=FiniteRange(0.5), help="Seconds that are measured.")
@kafka_options
@output_option
def bench(
    bootstrap_server: str | None,
    kafka_bootstrap_server: str | None,
    metrics_urls: tuple[str, ...],
    batches_per_file: list[int],
    partitions: int,
    idempotent_share: float,
    rate: float,
    connections: int,
    depth: int,
    runs: int,
    warm_up_s: float,
    window_s: float,
    command_config: Path | None,
    command_properties: tuple[str, ...],
    output: str,
) -> None:
    """Commit files as fast as the service takes them (or at a rate) and show throughput and latency.

    Beside each run the bytes of the same log entries are produced raw with acks=all: `added_p50_ms` is what the
    coordinator adds to Kafka, `commits_to_raw` the share of raw produces per second it reaches.

    A broker that was just started compiles its code for up to a minute, on cores that others need: where latencies count,
    let it work first (`--warm-up 30`).

    Example: `diskless bench --batches-per-file 100 --rate 20000`
    """
    from cli.bench.failure import MeasuringFailed
    from cli.bench.run import Plan, run_plan
    from cli.service import status_of
    from coordinator.client.errors import ServiceError

    if bootstrap_server and not kafka_bootstrap_server:
        raise click.UsageError("--bootstrap-server needs --kafka-bootstrap-server too: the raw figures come from the same Kafka")
    if bootstrap_server and kafka_bootstrap_server:
        kafka_properties = without_nodes(read_client_properties(command_config, command_properties))
        _check(bootstrap_server, kafka_bootstrap_server, kafka_properties)
    elif command_config is not None or command_properties:
        raise click.UsageError("client properties are for a running service: they need --bootstrap-server")
    else:
        kafka_properties = {}
    with _service(bootstrap_server, kafka_bootstrap_server, metrics_urls) as (servers, kafka, urls, processes):
        plan = Plan(
            servers=servers,
            kafka=kafka,
            batches_per_file=batches_per_file,
            partitions=partitions,
            idempotent_share=idempotent_share,
            connections=connections,
            depth=depth,
            rate=rate,
            runs=runs,
            warm_up_s=warm_up_s,
            window_s=window_s,
            processes=processes,
            metrics_urls=urls,
            node_properties=node_properties(),
            kafka_properties=kafka_properties,
        )
        try:
            rows = run_plan(plan, say)
        except ServiceError as error:
            raise Failed(str(error), status_of(error)) from error
        except MeasuringFailed as error:
            raise Failed(str(error), Exit.UNAVAILABLE) from error
    print_rows(rows, output, [column for column in COLUMNS if column in rows[0]])
    if output == "table":
        say(f"raw SQLite, one plain row per batch: {rows[0]['raw_sqlite_rows_per_s']:,} rows/s")


def _check(bootstrap_server: str, kafka_bootstrap_server: str, kafka_properties: Mapping[str, str]) -> None:
    """Raise `Failed` when an address cannot be what it was given as."""
    from cli.addresses import check_brokers, check_nodes
    from coordinator.client.routing.addresses import parse_servers

    try:
        servers = parse_servers(bootstrap_server)
    except ValueError as error:
        raise click.UsageError(f"--bootstrap-server: {error}") from error
    asyncio.run(check_nodes(servers, security=node_security()))
    check_brokers(kafka_bootstrap_server, kafka_properties)


@contextmanager
def _service(
    servers: str | None, kafka: str | None, metrics_urls: tuple[str, ...]
) -> Iterator[tuple[str, str, tuple[str, ...], dict[str, int]]]:
    """The service to measure: a given one, or a broker and one coordinator of our own."""
    if servers and kafka:
        yield servers, kafka, metrics_urls, {}
        return
    from cli.dev.coordinator import CoordinatorProcess
    from cli.dev.kafka import KafkaCluster, find_runtime
    from cli.dev.up import EXPECTED_ERRORS

    try:
        say("looking for Kafka's program, which is fetched once per machine")
        runtime = find_runtime()
        say("starting a broker and a coordinator for the run")
        with (
            tempfile.TemporaryDirectory(prefix="diskless-bench-") as folder,
            KafkaCluster(1, profile="bench", runtime=runtime) as broker,
        ):
            properties = {"diskless.metadata.topic.num.partitions": "1"}
            node = CoordinatorProcess(1, bootstrap=broker.bootstrap, folder=Path(folder), properties=properties)
            try:
                node.start()
                node.wait_ready()
                processes = {"coordinator": node.pid, "broker": broker.node(1).pid or 0}
                yield node.address, broker.bootstrap, (f"{node.http}/metrics",), processes
            finally:
                node.close()
    except EXPECTED_ERRORS as error:
        raise Failed(str(error)) from error
