"""An object store that is not the service's: writers are refused before anything is uploaded, and a node with one tells it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.outcome import Exit
from coordinator.adapters.objectstore import StoreFolderMissing, open_store
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from coordinator.kafka.timestamps import LATEST
from coordinator.store_mark import WrongStore
from integration_tests.service import Service
from integration_tests.waiting import wait_until
from records.record_batch import Record

REPOSITORY = Path(__file__).parents[1]


def diskless(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as people do."""
    command = [sys.executable, "-m", "cli.program", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=REPOSITORY, timeout=120, check=False)


async def test_a_client_with_another_store_is_refused_before_anything_is_written(
    one_node: Service, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    topic, records = unique_name("topic"), [Record(timestamp_ms=1, value=b"lost")]
    with pytest.raises(StoreFolderMissing, match="the folder does not exist"):
        open_store(f"file://{tmp_path}/typo")
    assert not (tmp_path / "typo").exists()
    async with DisklessClient(one_node.addresses, object_store=open_store(f"file://{tmp_path}")) as client:
        created = await client.admin.create_topic(topic, 1)
        with pytest.raises(WrongStore, match=f"file://{tmp_path} is not the object store of this service"):
            await client.write({(topic, 0): records})
        assert list(tmp_path.iterdir()) == []
        [end] = await client.list_offsets([(PartitionId(created.topic_id, 0), LATEST)])
        assert end.offset == 0
    async with DisklessClient(one_node.addresses, object_store=open_store(one_node.properties["object.store.url"])) as client:
        await client.write({(topic, 0): records})
        assert [record.value async for record in client.read(topic, 0)] == [b"lost"]


@pytest.mark.long
def test_commands_with_another_store_are_refused(one_node: Service, tmp_path: Path, unique_name: Callable[[str], str]) -> None:
    topic, other = unique_name("topic"), tmp_path / "other"
    other.mkdir()
    server = ("--bootstrap-server", one_node.addresses[0])
    assert diskless("topics", "create", topic, "--partitions", "1", *server).returncode == Exit.OK
    wal = tmp_path / "orders.wal"
    packed = diskless("files", "pack", "-o", wal, stdin=json.dumps({"topic": topic, "partition": 0, "value": "1"}))
    assert packed.returncode == Exit.OK, packed.stderr
    refused = diskless("files", "commit", wal, "--object-store-url", f"file://{other}", *server)
    assert refused.returncode == Exit.FAILURE
    assert f"file://{other} is not the object store of this service" in refused.stderr
    assert list(other.iterdir()) == []
    examined = diskless("doctor", "--object-store-url", f"file://{other}", *server, "-o", "json")
    [found] = [one for one in json.loads(examined.stdout) if one["check"] == "object store"]
    assert (found["health"], f"file://{other} is not the object store" in found["finding"]) == ("error", True)
    committed = diskless("files", "commit", wal, "--object-store-url", one_node.properties["object.store.url"], *server)
    assert committed.returncode == Exit.OK, committed.stderr


def test_a_node_with_another_store_is_not_ready_and_doctor_names_it(service: Service, tmp_path: Path) -> None:
    service.start(1)
    strange = service.add(2, object_store_url=f"file://{tmp_path}/typo")
    strange.start()
    told = "has no object services/"
    wait_until(lambda: told in str(strange.readiness()[1].get("object_store")), "the node to tell that it has another store")
    assert not strange.readiness()[0]
    assert service.nodes[1].readiness()[1]["object_store"] is None

    def is_named() -> bool:
        examined = diskless("doctor", "--bootstrap-server", service.addresses[0], "-o", "json")
        return any(one["finding"].startswith(f"node 2: file://{tmp_path}/typo {told}") for one in json.loads(examined.stdout))

    wait_until(is_named, "node 2 to be registered and named by doctor")
    marks = list((service.folder / "objects" / "services").iterdir())
    assert [json.loads(mark.read_text())["wal_prefixes"] for mark in marks] == [["wal/"]]
