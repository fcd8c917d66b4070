"""Spark for commands that end by themselves: a session in a scratch folder of its own, and errors as `Failed`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cli.ending import keep_details
from cli.outcome import Exit, Failed
from cli.output import say
from cli.progress import doing
from cli.spark.session import find_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cli.kafka.cluster import KafkaPlace
    from spark_jobs.batch_read import LogPlace
    from spark_jobs.monitor.topic import TopicWatch
    from spark_jobs.session import SparkStartError
    from spark_jobs.store.engine import StorePlace

TRIES_MAX = 3
"""Attempts to read a log whose beginning is deleted meanwhile: that happens once for each snapshot, after 20 MiB of entries or more."""

T = TypeVar("T")


@contextmanager
def batch_session(name: str, master: str | None, spark_properties: tuple[str, ...]) -> Iterator[SparkSession]:
    """Start Spark and end it with the block. A running monitor is not disturbed: its scratch folder is another one."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as scratch, spark_errors(), ExitStack() as running:
        with doing("starting Spark"):
            engine = find_engine(Path(scratch), master=master, spark_properties=spark_properties)
            from spark_jobs.session import open_spark

            spark = running.enter_context(open_spark(name, engine))
        yield spark.session


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise errors of Spark as `Failed`."""
    from spark_jobs.session import SparkStartError, find_spark

    try:
        find_spark()
    except SparkStartError as error:
        raise Failed(str(error)) from error
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from spark_jobs.causes import essence
    from spark_jobs.kafka_properties import UntranslatableError

    try:
        yield
    except SparkStartError as error:
        raise spark_failed(error) from error
    except UntranslatableError as error:
        raise Failed(str(error), Exit.USAGE) from error
    except (Py4JError, PySparkException) as error:
        raise Failed(f"Spark: {essence(str(error))}; its whole text: {keep_details(error)}") from error


def spark_failed(error: SparkStartError) -> Failed:
    """Tell in one line why Spark did not start; what its JVM printed is kept in a file."""
    return Failed(f"{error}; what it printed: {keep_details(error)}" if hasattr(error, "__notes__") else str(error))


def log_place(place: KafkaPlace) -> LogPlace:
    """The metadata topic as jobs read it. Raises `Failed` when no broker can be there."""
    from spark_jobs.batch_read import LogPlace

    place.check()
    return LogPlace(bootstrap_servers=place.bootstrap_servers, topic=place.topic, properties=place.properties)


@contextmanager
def topic_watch(place: KafkaPlace) -> Iterator[TopicWatch]:
    """Questions about the metadata topic; what Kafka says becomes `Failed`."""
    from spark_jobs.monitor.topic import TopicWatch

    with topic_errors(), TopicWatch(place.bootstrap_servers, place.topic, place.properties) as watch:
        yield watch


def while_pruned(watch: TopicWatch, partitions: int, work: Callable[[Mapping[int, int], bool], T]) -> T:
    """Do a work that reads the log, given where the partitions begin; again when their beginnings were deleted while it read.

    The work learns whether it is repeated. Raises what it raises, and what Kafka says.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    log_starts = watch.starts(range(partitions))
    for tries in range(1, TRIES_MAX + 1):
        entries = sum(watch.ends(range(partitions)).values()) - sum(log_starts.values())
        try:
            with doing(f"reading {entries:,} entries of {watch.topic}"):
                return work(log_starts, tries > 1)
        except (Py4JError, PySparkException):
            moved = watch.starts(range(partitions))
            if moved == log_starts or tries == TRIES_MAX:
                raise
            say("the beginning of the log was deleted, up to a snapshot, while it was read; it is read again")
            log_starts = moved
    raise AssertionError("not reached")


@contextmanager
def topic_errors() -> Iterator[None]:
    """Raise errors of Kafka about the metadata topic as `Failed`."""
    from confluent_kafka import KafkaException

    from spark_jobs.monitor.topic import KafkaRefusedError, KafkaUnavailableError, TopicMissingError

    try:
        yield
    except TopicMissingError as error:
        raise Failed(f"{error}; name it with --metadata-topic, or create it with `diskless init`", Exit.NOT_FOUND) from error
    except KafkaRefusedError as error:
        raise Failed(f"Kafka: {error}") from error
    except KafkaUnavailableError as error:
        raise Failed(f"Kafka: {error}; check the address and that the brokers run, then retry", Exit.UNAVAILABLE) from error
    except KafkaException as error:
        raise Failed(f"Kafka client: {error}", Exit.USAGE) from error


def note_result(place: StorePlace, name: str, text: str) -> None:
    """Keep the outcome of a job in a monitor's database, where the dashboard looks. Raises `Failed`."""
    from spark_jobs.monitor.facts import record_job
    from spark_jobs.monitor.report import NoMonitorError, open_report
    from spark_jobs.store.engine import STORE_ERRORS

    try:
        with open_report(place):
            pass
        record_job(place, **{name: text})
    except NoMonitorError as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except STORE_ERRORS as error:
        raise Failed(f"the monitor's database in {place}: {error}") from error
