"""`diskless monitor run` and `fetch`: the streaming job as a process, and the jars it needs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.objects import snapshots_prefix_option, store_options
from cli.options import SERVER_VARIABLE, FiniteRange, kafka_options, kafka_server_option, log_level_option, topic_option
from cli.outcome import Exit, Failed
from cli.output import say
from cli.spark.durations import Duration
from cli.spark.session import find_engine, folder_option, spark_options
from cli.spark.stopping import stop_signals

if TYPE_CHECKING:
    from spark_jobs.monitor.checks import Check

CHECK_EVERY_MIN_S = 10.0


@click.command()
@kafka_server_option("--bootstrap-server", "--bootstrap-servers", "--kafka-bootstrap-server", name="bootstrap_server")
@store_options
@snapshots_prefix_option
@kafka_options
@topic_option
@folder_option
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
    help="Coordinator nodes that --verify-every compares the log with.",
)
@click.option(
    "--orphans-every",
    "orphans_every_s",
    type=Duration(CHECK_EVERY_MIN_S),
    metavar="DURATION",
    help="Run `monitor orphans` so often (24h), on the object store of --config. [default: never]",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address to serve metrics on.")
@spark_options
@log_level_option
def run(
    bootstrap_server: str | None,
    store_url: str | None,
    store_options: Sequence[str],
    config_file: Path | None,
    snapshots_prefix: str | None,
    command_config: Path | None,
    command_properties: Sequence[str],
    topic: str | None,
    folder: Path,
    once: bool,
    trigger_interval_s: float,
    max_entries: int,
    metrics_port: int | None,
    verify_every_s: float | None,
    verify_server: str | None,
    orphans_every_s: float | None,
    metrics_host: str,
    master: str | None,
    spark_properties: tuple[str, ...],
    log_level: str,
) -> None:
    """Follow the metadata topic with Spark, audit it, and keep its content in a folder.

    Prints one line `ready` when it follows the log; logs go to standard error. SIGTERM or Ctrl-C stop it after the running
    micro-batch, with status 0: in a few seconds, on a busy machine up to half a minute, for Spark ends slowly. Started again, it goes
    on where it was, and nothing counts twice. Status 3 when the topic does
    not exist, or is not the one the folder was built from; 1 when the query failed.

    Where coordinators have deleted the beginning of a log that was never read, it begins with the newest good snapshot of the object
    store (--config, or --object-store-url); numbers are counted from there on.

    With --verify-every and --orphans-every it runs these jobs, too, one at a time and each in a process of its own (about 1 GB
    more memory while it lasts). Their outcome is on the dashboard and in metrics, their output in the folder.

    Examples: `diskless monitor run --bootstrap-server kafka:9092 --dir /var/lib/diskless-monitor --metrics-port 9194`,
    `diskless monitor run --config coordinator.properties --dir ./monitor --once`
    """
    from cli.kafka.cluster import find_kafka_place
    from coordinator.app.process.logs import set_up_logging
    from coordinator.app.version import installed_version

    place = find_kafka_place(bootstrap_server, config_file, topic, command_config, command_properties)
    if once and (verify_every_s is not None or orphans_every_s is not None):
        raise Failed("--once ends with the log: run `monitor verify` and `monitor orphans` after it", Exit.USAGE)
    where = ["--kafka-bootstrap-server", place.bootstrap_servers, "--topic", place.topic, "--dir", str(folder.absolute())]
    where += [] if config_file is None else ["--config", str(config_file)]
    where += [] if command_config is None else ["--command-config", str(command_config)]
    where += [word for one in command_properties for word in ("--command-property", one)]
    where += [] if store_url is None else ["--object-store-url", store_url]
    where += [word for one in store_options for word in ("--object-store-option", one)]
    where += [] if snapshots_prefix is None else ["--snapshots-prefix", snapshots_prefix]
    checks = [
        *_verify_check(verify_every_s, verify_server, where),
        *_orphans_check(orphans_every_s, where, has_store=store_url is not None or config_file is not None),
    ]
    place.check()
    engine = find_engine(folder, master=master, spark_properties=spark_properties)
    set_up_logging(log_level)

    from cli.spark.snapshots import SnapshotStore
    from spark_jobs.monitor.job import MonitorOptions, run_monitor

    snapshots = SnapshotStore(url=store_url, options=store_options, config_file=config_file, prefix=snapshots_prefix)
    options = MonitorOptions(
        bootstrap_servers=place.bootstrap_servers,
        topic=place.topic,
        properties=place.properties,
        folder=folder.absolute(),
        engine=engine,
        version=installed_version(),
        once=once,
        trigger_interval_s=trigger_interval_s,
        max_entries_per_batch=max_entries,
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        snapshots=snapshots.open_if_there(),
        checks=checks,
    )
    with stop_signals() as stopping, _failures(folder):
        run_monitor(options, stopping, stopping.on_ready)


def _verify_check(every_s: float | None, nodes: str | None, where: Sequence[str]) -> list[Check]:
    """The job that compares log and replicas, if it is wanted. Raises `Failed`."""
    from spark_jobs.monitor.checks import Check

    if every_s is None:
        return []
    if nodes is None:
        raise Failed("--verify-every needs the coordinator nodes to compare with: pass --verify-server", Exit.USAGE)
    command = _command("verify", "--bootstrap-server", nodes, *where)
    return [Check(name="verify", every_s=every_s, command=command, outcome="last_verify")]


def _orphans_check(every_s: float | None, where: Sequence[str], *, has_store: bool) -> list[Check]:
    """The job that compares log and object store, if it is wanted. Raises `Failed`."""
    from spark_jobs.monitor.checks import Check

    if every_s is None:
        return []
    if not has_store:
        raise Failed("--orphans-every needs the object store: pass --config with object.store.url, or --object-store-url", Exit.USAGE)
    return [Check(name="orphans", every_s=every_s, command=_command("orphans", *where), outcome="last_orphans")]


def _command(job: str, *words: str) -> list[str]:
    """A command line of this program that the kernel ends with this process."""
    from cli.dev import die_with_parent

    wrapper = [sys.executable, "-I", "-S", str(die_with_parent.__file__), str(os.getpid())]
    return [*wrapper, sys.executable, "-m", "cli.program", "monitor", job, *words, "-o", "json"]


@contextmanager
def _failures(folder: Path) -> Iterator[None]:
    """Turn what can go wrong outside of the job into `Failed`."""
    from cli.spark.batch import spark_failed, topic_errors
    from spark_jobs.kafka_properties import UntranslatableError
    from spark_jobs.monitor.endpoint import MetricsPortError
    from spark_jobs.monitor.lock import MonitorFolderInUseError
    from spark_jobs.monitor.watcher import LogReplacedError
    from spark_jobs.session import SparkStartError
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
    except (MonitorFolderInUseError, QueryFailedError, MetricsPortError) as error:
        raise Failed(str(error)) from error
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
