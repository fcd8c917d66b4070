"""The programs of README.md, run as they are printed against a node and a broker: written, read from an offset, followed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.dev.process import start_child
from integration_tests.service import Service
from integration_tests.waiting import wait_until

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the programs of the README; the first line of each names its file."""
    printed = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert [name for name, _ in printed] == ["write_orders.py", "follow_orders.py"]
    for name, text in printed:
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_programs_of_the_readme_write_read_and_follow(one_node: Service, programs: Path) -> None:
    where = [",".join(one_node.addresses), one_node.properties["object.store.url"]]

    def write() -> list[str]:
        command = [sys.executable, str(programs / "write_orders.py"), *where]
        ended = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.splitlines()

    first = write()
    assert [line.partition(" in ")[0] for line in first] == [f"orders-{partition}: offsets 0 to 2" for partition in range(3)]
    [key] = {line.partition(" in ")[2] for line in first}
    assert (one_node.folder / "objects" / key).is_file()

    log = programs / "follow.log"
    arguments = [sys.executable, str(programs / "follow_orders.py"), *where, "1", "1"]
    follower = start_child(arguments, marker=str(programs), log=log, environment=ENVIRONMENT)
    try:
        wait_until(lambda: log.read_text() == "1 order 1\n2 order 2\n", "the records from offset 1 on")
        assert [line.partition(" in ")[0] for line in write()] == [f"orders-{partition}: offsets 3 to 5" for partition in range(3)]
        whole = "".join(f"{offset} order {offset % 3}\n" for offset in range(1, 6))
        wait_until(lambda: log.read_text() == whole, "the records that were written meanwhile")
        assert follower.is_running()
    finally:
        follower.kill()
