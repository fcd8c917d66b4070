"""Fixtures of tests of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.dev.kafka import BrokerRuntime
from cli.spark.batch import batch_session
from integration_tests.gateway.world import World
from integration_tests.service import Service
from integration_tests.tables.exported import TopicUnderExport
from integration_tests.tables.sides import Sides


@pytest.fixture
def topic(one_node: Service, tmp_path: Path, unique_name: Callable[[str], str]) -> Iterator[TopicUnderExport]:
    made = TopicUnderExport(one_node, unique_name("orders"), f"delta:{tmp_path / 'table'}", tmp_path / "output.log")
    yield made
    made.end()


@pytest.fixture(scope="module")
def sides(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """A topic of Kafka and a diskless one, side by side."""
    with World(tmp_path_factory.mktemp("world"), broker_runtime) as world, batch_session("source", None, ()) as spark:
        world.start(1001)
        yield Sides(world, spark)
