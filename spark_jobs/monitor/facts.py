"""Writes into a monitor's database what comes neither from the log nor with a micro-batch: brokers, the job itself, and what
people say of findings.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from spark_jobs.monitor.report import BUSY_TIMEOUT_S, DATABASE
from spark_jobs.monitor.topic import TopicBroker
from spark_jobs.store.acknowledge import Choice, acknowledge, reopen


@contextmanager
def _transaction(folder: Path) -> Iterator[sqlite3.Connection]:
    # A connection of its own: the store's belongs to the thread that merges.
    with closing(sqlite3.connect(folder / DATABASE, timeout=BUSY_TIMEOUT_S, isolation_level="IMMEDIATE")) as connection, connection:
        yield connection


def record_brokers(folder: Path, brokers: Sequence[TopicBroker]) -> None:
    """Note the brokers and their racks; one that is gone keeps its row, for its files are still there."""
    with _transaction(folder) as connection:
        connection.executemany("INSERT OR REPLACE INTO broker (broker_id, rack, host) VALUES (?, ?, ?)", brokers)


def record_job(folder: Path, **values: object) -> None:
    """Note what the job says of itself."""
    with _transaction(folder) as connection:
        connection.executemany(
            "INSERT OR REPLACE INTO job (name, value) VALUES (?, ?)", [(key, str(value)) for key, value in values.items()]
        )


def acknowledge_findings(folder: Path, choice: Choice, *, who: str, reason: str, now_ms: int) -> int:
    """Acknowledge open findings; returns how many. Raises `AcknowledgeError`, and `sqlite3.Error` when it cannot be written."""
    with _transaction(folder) as connection:
        return acknowledge(connection, choice, who=who, reason=reason, now_ms=now_ms)


def reopen_findings(folder: Path, choice: Choice, *, who: str, reason: str, now_ms: int) -> int:
    """Take acknowledgements back; returns of how many findings. Raises as `acknowledge_findings`."""
    with _transaction(folder) as connection:
        return reopen(connection, choice, who=who, reason=reason, now_ms=now_ms)
