"""`diskless monitor run` and `fetch`: the streaming job as a process, and the jars it needs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.objects import NamedStore, named_store_with_snapshots
from cli.options import SERVER_VARIABLE, FiniteRange, gateway_group_option, kafka_place, log_level_option
from cli.outcome import Exit, Failed
from cli.output import say
from cli.progress import doing
from cli.spark.session import find_engine, spark_options, store_place
from cli.spark.stopping import stop_signals
from cli.times import Duration

if TYPE_CHECKING:
    from cli.kafka.cluster import KafkaPlace
    from spark_jobs.monitor.checks import Check
    from spark_jobs.store.engine import StorePlace

CHECK_EVERY_MIN_S = 10.0


@click.command()
@kafka_place("--bootstrap-server", "--bootstrap-servers", "--kafka-bootstrap-server")
@named_store_with_snapshots
@store_place()
@click.option("--once", is_flag=True, help="Merge everything that is in the log now, then end.")
@click.option(
    "--trigger-interval",
    "trigger_interval_s",
    type=FiniteRange(0.05, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="A micro-batch at most this often: numbers are about as old. A longer interval saves processor time.",
)
@click.option(
    "--max-entries",
    type=click.IntRange(100, 10_000_000),
    default=10_000,
    show_default=True,
    help="At most this many entries in a micro-batch.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65_535), help="Serve Prometheus metrics here; 0 takes a free port.")
@click.option(
    "--verify-every",
    "verify_every_s",
    type=Duration(CHECK_EVERY_MIN_S),
    metavar="DURATION",
    help="Run `monitor verify` so often (1h), against --verify-server. [default: never]",
)
@click.option(
    "--verify-server",
    metavar="HOST:PORT[,..]",
    envvar=SERVER_VARIABLE,
    show_envvar=True,
    help="Coordinator nodes that --verify-every and --objects-every ask.",
)
@click.option(
    "--objects-every",
    "objects_every_s",
    type=Duration(CHECK_EVERY_MIN_S),
    metavar="DURATION",
    help="Run `restore report` so often (24h): does every live file of --verify-server have its object? [default: never]",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address to serve metrics on.")
@gateway_group_option("--gateway-group")
@spark_options
@log_level_option
def run(
    kafka: KafkaPlace,
    store: NamedStore,
    command_config: Path | None,
    command_properties: Sequence[str],
    folder: Path,
    place: StorePlace,
    database_url: str | None,
    database_password_file: Path | None,
    once: bool,
    trigger_interval_s: float,
    max_entries: int,
    metrics_port: int | None,
    verify_every_s: float | None,
    verify_server: str | None,
    objects_every_s: float | None,
    metrics_host: str,
    gateway_group: str,
    master: str | None,
    spark_properties: tuple[str, ...],
    log_level: str,
) -> None:
    """Follow the metadata topic with Spark, audit it, and keep its content in a database.

    Prints one line `ready` when it follows the log; logs go to standard error. SIGTERM or Ctrl-C stop it after the running
    micro-batch, with status 0: in a few seconds, on a busy machine up to half a minute, for Spark ends slowly. Started again, it goes
    on where it was, and nothing counts twice. Status 3 when the topic does
    not exist, or is not the one the database was built from; 1 when the query failed. A PostgreSQL that it loses it waits for.

    Where coordinators have deleted the beginning of a log that was never read, it begins with the newest good snapshot of the object
    store (--config, or --object-store-url); numbers are counted from there on.

    With --verify-every and --objects-every it runs these jobs, too, one at a time and each in a process of its own (about 1 GB
    more memory while `verify` lasts). Their outcome is on the dashboard and in metrics, their output in the folder.

    Examples: `diskless monitor run --bootstrap-server kafka:9092 --dir /var/lib/diskless-monitor --metrics-port 9194`,
    `diskless monitor run --config coordinator.properties --dir ./monitor --once`
    """
    from cli.spark.gateways import GatewayRacks
    from cli.spark.snapshots import arguments_of, snapshots_if_there
    from coordinator.app.process.logs import set_up_logging
    from coordinator.app.version import installed_version

    if once and (verify_every_s is not None or objects_every_s is not None):
        raise Failed("--once ends with the log: run `monitor verify` and `restore report` after it", Exit.USAGE)
    if objects_every_s is not None and not store.is_named:
        raise Failed("--objects-every needs the object store: pass --config with object.store.url, or --object-store-url", Exit.USAGE)
    given = _given(folder, database_url, database_password_file, command_config, command_properties) + arguments_of(store)
    log = ["--kafka-bootstrap-server", kafka.bootstrap_servers, "--metadata-topic", kafka.topic]
    checks = [
        *_check("verify", verify_every_s, verify_server, ["monitor", "verify", *log, *given]),
        *_check("objects", objects_every_s, verify_server, ["restore", "report", *given]),
    ]
    kafka.check()
    engine = find_engine(folder, master=master, spark_properties=spark_properties)
    set_up_logging(log_level)

    from spark_jobs.monitor.job import MonitorOptions, run_monitor

    options = MonitorOptions(
        bootstrap_servers=kafka.bootstrap_servers,
        topic=kafka.topic,
        properties=kafka.properties,
        folder=folder.absolute(),
        place=place.absolute() if isinstance(place, Path) else place,
        engine=engine,
        version=installed_version(),
        once=once,
        trigger_interval_s=trigger_interval_s,
        max_entries_per_batch=max_entries,
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        snapshots=snapshots_if_there(store),
        checks=checks,
        gateways=GatewayRacks(kafka, gateway_group),
    )
    with doing(f"merging {kafka.topic}") if once else nullcontext(), stop_signals() as stopping, _failures(folder):
        run_monitor(options, stopping, stopping.on_ready)


def _given(
    folder: Path,
    database_url: str | None,
    database_password_file: Path | None,
    command_config: Path | None,
    command_properties: Sequence[str],
) -> list[str]:
    """What was given to this command, as words for those that it runs."""
    words = ["--dir", str(folder.absolute())]
    words += [] if database_url is None else ["--store", database_url]
    words += [] if database_password_file is None else ["--store-password-file", str(database_password_file.absolute())]
    words += [] if command_config is None else ["--command-config", str(command_config)]
    return words + [word for one in command_properties for word in ("--command-property", one)]


def _check(name: str, every_s: float | None, nodes: str | None, command: Sequence[str]) -> list[Check]:
    """A command that compares the nodes' state with something else, if it is wanted. Raises `Failed`."""
    from cli.dev import die_with_parent
    from spark_jobs.monitor.checks import Check

    if every_s is None:
        return []
    if nodes is None:
        raise Failed(f"--{name}-every needs the coordinator nodes to compare with: pass --verify-server", Exit.USAGE)
    # The kernel ends it with this process.
    wrapper = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid())]
    line = [*wrapper, sys.executable, "-m", "cli.program", *command, "--bootstrap-server", nodes, "-o", "json"]
    return [Check(name=name, every_s=every_s, command=line, outcome=f"last_{name}")]


@contextmanager
def _failures(folder: Path) -> Iterator[None]:
    """Turn what can go wrong outside of the job into `Failed`."""
    from cli.spark.batch import spark_failed, topic_errors
    from spark_jobs.kafka_properties import UntranslatableError
    from spark_jobs.monitor.endpoint import MetricsPortError
    from spark_jobs.monitor.lock import MonitorInUseError
    from spark_jobs.monitor.watcher import LogReplacedError
    from spark_jobs.session import SparkStartError
    from spark_jobs.store.engine import STORE_ERRORS, is_lost
    from spark_jobs.streaming import QueryFailedError

    try:
        with topic_errors():
            yield
    except LogReplacedError as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except UntranslatableError as error:
        raise Failed(str(error), Exit.USAGE) from error
    except SparkStartError as error:
        raise spark_failed(error) from error
    except QueryFailedError as error:
        raise Failed(str(error), Exit.UNAVAILABLE if is_lost(error.cause) else Exit.FAILURE) from error
    except (MonitorInUseError, MetricsPortError) as error:
        raise Failed(str(error)) from error
    except STORE_ERRORS as error:
        raise Failed(f"the monitor's database cannot be used: {error}", Exit.UNAVAILABLE) from error
    except OSError as error:
        raise Failed(f"{folder}: {error.strerror}: {error.filename}") from error


@click.command()
def fetch() -> None:
    """Fetch the jars that Spark reads Kafka with, once per machine.

    Each jar is checked by sha256 at every use; a jar that is missing or damaged is fetched anew. With them in place a job starts
    without a network. Also keeps the classes a job loads (150 MB in the cache folder), so that jobs start in half the time.

    Example: `diskless monitor fetch`
    """
    from cli.spark.session import prepare_spark

    start_s = time.monotonic()
    jars = prepare_spark()
    for jar in jars:
        click.echo(str(jar))
    say(f"{len(jars)} jars are in place ({time.monotonic() - start_s:.1f} s)")
