"""Versions of Kafka's own requests are imported when they are used, and all before a server serves."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coordinator.operations.discovery import API_VERSIONS, METADATA
from coordinator.operations.kafka_versions import KafkaVersions

CLIENT = """
import sys
import coordinator.client.client
print(sorted(name for name in sys.modules if name.startswith("kio.schema.metadata.v") and name.count(".") == 3))
from coordinator.operations.table import ApiTable
ApiTable()
print(sorted(name for name in sys.modules if name.startswith("kio.schema.metadata.v") and name.count(".") == 3))
"""


def test_a_client_imports_a_version_when_it_speaks_it_and_a_server_all() -> None:
    done = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, check=True, timeout=120)
    client, server = done.stdout.splitlines()
    assert client == "[]"
    assert server == str(sorted(f"kio.schema.metadata.v{version}" for version in METADATA.versions))


def test_versions_are_a_mapping_of_what_there_is() -> None:
    assert list(METADATA.versions) == [9, 10, 11, 12]
    assert len(API_VERSIONS.versions) == 5
    assert METADATA.versions[9] is METADATA.versions[9]
    assert METADATA.versions.get(13) is None
    assert 8 not in METADATA.versions
    with pytest.raises(KeyError):
        METADATA.versions[13]
    with pytest.raises(ModuleNotFoundError):
        KafkaVersions("METADATA", 900, 900)[900]
