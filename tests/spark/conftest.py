"""The places where the store of a monitor may be: a folder, and a schema of a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

from spark_jobs.store.engine import StorePlace
from tests.spark.dashboard_store import StoreMaker
from tests.spark.postgres_server import PostgresServer, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server for all tests."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], StorePlace]:
    """Empty places of one kind, by name."""
    if request.param == "sqlite":
        return lambda name: tmp_path / name
    server: PostgresServer = request.getfixturevalue("postgres")
    return lru_cache(lambda _name: server.place())


@pytest.fixture
def place(places: Callable[[str], StorePlace]) -> StorePlace:
    """An empty place."""
    return places("monitor")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreMaker]:
    """The store of a monitor that has found nothing wrong."""
    made = StoreMaker(tmp_path)
    made.healthy()
    yield made
    made.close()
