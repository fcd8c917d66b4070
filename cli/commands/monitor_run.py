"""`diskless monitor run` and `fetch`: the streaming job as a process, and the jars it needs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import rich_click as click

from cli.options import FiniteRange, config_option, kafka_options, kafka_server_option, log_level_option, topic_option
from cli.outcome import Exit, Failed
from cli.output import say
from cli.spark import find_engine, folder_option, spark_options
from cli.stopping import stop_signals


@click.command()
@kafka_server_option("--bootstrap-server", "--bootstrap-servers", "--kafka-bootstrap-server", name="bootstrap_server")
@config_option
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
    help="A micro-batch at most this often: numbers are about as old. More saves processor time.",
)
@click.option(
    "--max-entries",
    type=click.IntRange(100, 10_000_000),
    default=10_000,
    show_default=True,
    help="At most this many entries in a micro-batch.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65_535), help="Serve Prometheus metrics here; 0 takes a free port.")
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address to serve metrics on.")
@spark_options
@log_level_option
def run(
    bootstrap_server: str | None,
    config_file: Path | None,
    command_config: Path | None,
    command_properties: Sequence[str],
    topic: str | None,
    folder: Path,
    once: bool,
    trigger_interval_s: float,
    max_entries: int,
    metrics_port: int | None,
    metrics_host: str,
    master: str | None,
    spark_properties: tuple[str, ...],
    log_level: str,
) -> None:
    """Follow the metadata topic with Spark, audit it, and keep what it says in a folder.

    Prints one line `ready` when it follows the log; logs go to standard error. SIGTERM or Ctrl-C stop it after the running
    micro-batch, with status 0; started again, it goes on where it was, and nothing counts twice. Status 3 when the topic does
    not exist, or is not the one the folder was built from; 1 when the query failed.

    Examples: `diskless monitor run --bootstrap-server kafka:9092 --dir /var/lib/diskless-monitor --metrics-port 9194`,
    `diskless monitor run --config coordinator.properties --dir ./monitor --once`
    """
    from cli.kafka import find_kafka_place
    from cli.main import installed_version
    from coordinator.app.logs import set_up_logging

    place = find_kafka_place(bootstrap_server, config_file, topic, command_config, command_properties)
    engine = find_engine(folder, master=master, spark_properties=spark_properties)
    set_up_logging(log_level)

    from spark_jobs.monitor.job import MonitorOptions, run_monitor

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
    )
    with stop_signals() as stopping, _failures(folder):
        run_monitor(options, stopping, stopping.on_ready)


@contextmanager
def _failures(folder: Path) -> Iterator[None]:
    """Turn what can go wrong outside of the job into `Failed`."""
    from confluent_kafka import KafkaException

    from cli.kafka import plain
    from spark_jobs.kafka_properties import UntranslatableError
    from spark_jobs.monitor.endpoint import MetricsPortError
    from spark_jobs.monitor.lock import FolderInUseError
    from spark_jobs.monitor.topic import KafkaUnavailableError, TopicMissingError
    from spark_jobs.monitor.watcher import LogReplacedError
    from spark_jobs.session import SparkStartError
    from spark_jobs.streaming import QueryFailedError

    try:
        yield
    except TopicMissingError as error:
        raise Failed(f"{error}; name it with --topic, or create it with `diskless init`", Exit.NOT_FOUND) from error
    except LogReplacedError as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except KafkaUnavailableError as error:
        raise Failed(f"Kafka: {error}; check the address and that the brokers run, then retry", Exit.UNAVAILABLE) from error
    except UntranslatableError as error:
        raise Failed(str(error), Exit.USAGE) from error
    except KafkaException as error:
        raise Failed(f"Kafka client: {plain(error)}", Exit.USAGE) from error
    except (FolderInUseError, QueryFailedError, MetricsPortError, SparkStartError) as error:
        raise Failed(str(error)) from error
    except OSError as error:
        raise Failed(f"{folder}: {error.strerror}: {error.filename}") from error


@click.command()
def fetch() -> None:
    """Fetch the jars that Spark reads Kafka with, once per machine.

    Each is checked by sha256 at every use; one that is missing or damaged is fetched anew. With them in place a job starts
    without a network. Also keeps the classes a job loads (150 MB in the cache folder), so that jobs start in half the time.

    Example: `diskless monitor fetch`
    """
    from cli.spark import prepare_spark

    start_s = time.monotonic()
    jars = prepare_spark()
    for jar in jars:
        click.echo(str(jar))
    say(f"{len(jars)} jars are in place ({time.monotonic() - start_s:.1f} s)")
