"""Fixtures of tests of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration_tests.service import Service
from integration_tests.tables.exported import TopicUnderExport


@pytest.fixture
def topic(one_node: Service, tmp_path: Path, unique_name: Callable[[str], str]) -> Iterator[TopicUnderExport]:
    made = TopicUnderExport(one_node, unique_name("orders"), f"delta:{tmp_path / 'table'}", tmp_path / "output.log")
    yield made
    made.end()
