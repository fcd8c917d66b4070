"""The page about exports is run as it is written."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from integration_tests.service import Service
from records.record_batch import Record

PAGE = Path(__file__).parents[2] / "docs/tables-export.md"


async def write_orders(service: Service, url: str) -> None:
    async with DisklessClient(service.addresses, object_store=open_store(url)) as client:
        await client.admin.create_topic("orders", 2)
        records = [Record(value=b"a"), Record(value=b"b")]
        await client.write({("orders", partition): records for partition in range(2)})


def test_the_page_works_as_it_is_written(one_node: Service, tmp_path: Path) -> None:
    url = one_node.properties["object.store.url"]
    asyncio.run(write_orders(one_node, url))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "DISKLESS_BOOTSTRAP_SERVER": ",".join(one_node.addresses),
        "DISKLESS_OBJECT_STORE_URL": url,
    }
    blocks = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["bash", "python", "bash", "bash"]
    said = []
    for kind, text in blocks:
        command = ["bash", "-ec", text] if kind == "bash" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    status, queried = said[0], said[1]
    assert "HOURS LEFT" in status
    assert re.search(r"│ +1 │ +2 │ +1 │\n└", queried), queried
