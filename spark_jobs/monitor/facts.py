"""Writes into a monitor's database what comes neither from the log nor with a micro-batch: brokers, the number of partitions, the job
itself, and what people say of findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from spark_jobs.monitor.topic import TopicBroker
from spark_jobs.store.acknowledge import Choice, acknowledge, reopen
from spark_jobs.store.engine import READER_WAIT_S, StoreConnection, StorePlace, open_writer
from spark_jobs.store.statements import upsert

_BROKER = upsert("broker", "broker_id", "broker_id", "rack", "host")
_JOB = upsert("job", "name", "name", "value")


@contextmanager
def _transaction(place: StorePlace) -> Iterator[StoreConnection]:
    # A connection of its own: the store's belongs to the thread that merges.
    with closing(open_writer(place, READER_WAIT_S)) as connection, connection.writing():
        yield connection


def record_brokers(place: StorePlace, brokers: Sequence[TopicBroker]) -> None:
    """Note the brokers and their racks; one that is gone keeps its row, for its files are still there."""
    with _transaction(place) as connection:
        connection.executemany(_BROKER, brokers)


def record_partitions(place: StorePlace, partitions: int) -> None:
    """Note how many partitions the log has."""
    with _transaction(place) as connection:
        connection.execute("UPDATE log SET partitions = ?", (partitions,))


def record_job(place: StorePlace, **values: object) -> None:
    """Note what the job says of itself."""
    with _transaction(place) as connection:
        connection.executemany(_JOB, [(key, str(value)) for key, value in values.items()])


def acknowledge_findings(place: StorePlace, choice: Choice, *, who: str, reason: str, now_ms: int) -> int:
    """Acknowledge open findings; returns how many. Raises `AcknowledgeError`, and one of `STORE_ERRORS` when it cannot be written."""
    with _transaction(place) as connection:
        return acknowledge(connection, choice, who=who, reason=reason, now_ms=now_ms)


def reopen_findings(place: StorePlace, choice: Choice, *, who: str, reason: str, now_ms: int) -> int:
    """Take acknowledgements back; returns of how many findings. Raises as `acknowledge_findings`."""
    with _transaction(place) as connection:
        return reopen(connection, choice, who=who, reason=reason, now_ms=now_ms)
