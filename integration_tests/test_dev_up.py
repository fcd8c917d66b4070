"""`diskless dev up` as a user runs it: a child process, what it prints, what it does when things die, and that nothing stays."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.dev.kafka import BrokerRuntime
from cli.dev.process import started_at
from cli.dev.running import LOCK_FILE
from cli.java.cache import cache_folder
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from coordinator.kafka.timestamps import LATEST
from integration_tests.honest_client import RECORDS, Topic, commit_request
from integration_tests.kafka_scripts import write_scripts
from integration_tests.waiting import wait_until

REPOSITORY = Path(__file__).parent.parent
START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 90

pytestmark = pytest.mark.timeout(600)  # a whole service, Spark included, and a dozen commands at once


class Up:
    """One running command."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.out, self.messages = folder / "out.txt", folder / "err.txt"
        command = [sys.executable, "-m", "cli.program", "dev", "up", *options]
        with self.out.open("wb") as out, self.messages.open("wb") as messages:
            self.process = subprocess.Popen(command, stdout=out, stderr=messages, cwd=REPOSITORY, stdin=subprocess.DEVNULL)

    def wait_ready(self) -> str:
        """Return what it printed."""
        wait_until(lambda: "stops everything" in self.out.read_text() or self.ended(), "the guide", START_TIMEOUT_S)
        assert not self.ended(), self.messages.read_text()
        return self.out.read_text()

    def wait_said(self, text: str) -> None:
        wait_until(lambda: text in self.messages.read_text(), f"{text!r} among the messages")

    def ended(self) -> bool:
        return self.process.poll() is not None

    def children(self) -> dict[int, str]:
        """The processes it runs, by pid, with the time they started."""
        answer = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True, timeout=60)
        pairs = [tuple(map(int, line.split())) for line in answer.stdout.splitlines()]
        mine = [pid for pid, parent in pairs if parent == self.process.pid]
        return {pid: started for pid in mine if (started := started_at(pid)) is not None}

    def close(self) -> None:
        if not self.ended():
            self.process.kill()
            self.process.wait(STOP_TIMEOUT_S)


@pytest.fixture
def started(data_folder: Path, broker_runtime: BrokerRuntime) -> Iterator[list[Up]]:
    """Every command that was started is ended."""
    all_of_them: list[Up] = []
    yield all_of_them
    for up in all_of_them:
        up.close()


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment with Kafka's scripts, in which `diskless` is this repository's."""
    write_scripts(tmp_path / "bin", REPOSITORY)
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cli.program", *words], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=STOP_TIMEOUT_S
    )


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def assert_nothing_left(children: dict[int, str], ports: list[int], pid: int) -> None:
    assert {child for child, started in children.items() if started_at(child) == started} == set()
    assert [port for port in ports if not is_free(port)] == []
    assert list((cache_folder() / "dev-up").glob(f"{pid}.*")) == []
    assert [child for child in children if (cache_folder() / "running" / f"{child}.json").exists()] == []


def assert_clients_work(commands: list[str], shell: dict[str, str]) -> None:
    """One after the other, as printed: the records that were written are read in the group, which has no lag then."""
    assert len(commands) == 8
    if shutil.which("kcat") is None:
        commands = [
            line.replace("kcat -b", "kafka-console-producer.sh --bootstrap-server").replace("-P -t", "--topic") for line in commands[:-1]
        ]
    script = "set -e\n" + "\n".join(commands)
    shown = subprocess.run(["bash", "-c", script], env=shell, capture_output=True, text=True, check=False, timeout=START_TIMEOUT_S)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert {str(number) for number in range(1, 21)} <= set(shown.stdout.splitlines())
    lags = re.findall(r"^readers +first +\d+ +\d+ +\d+ +(\d+)", shown.stdout, re.MULTILINE)
    assert lags == ["0", "0", "0"], shown.stdout


def test_the_printed_commands_work_a_killed_node_comes_back_and_down_ends_it_all(
    started: list[Up], data_folder: Path, shell: dict[str, str]
) -> None:
    folder = data_folder / "service"
    up = Up(data_folder, "--folder", str(folder), "--restart-after", "1")
    started.append(up)
    text = up.wait_ready()
    addresses = re.findall(r"node \d+ +(127\.0\.0\.1:\d+) +http://127\.0\.0\.1:(\d+) +pid (\d+)", text)
    kafka = re.search(r"Kafka +127\.0\.0\.1:(\d+)", text)
    assert len(addresses) == 2
    assert kafka is not None
    ports = [int(kafka[1])] + [int(port) for address, http, _ in addresses for port in (address.rpartition(":")[2], http)]

    # Every command as it stands, in one shell as a user's, side by side; those about a kill and endless ones apart.
    commands = [line.removeprefix("  $ ") for line in text.splitlines() if line.startswith("  $ ")]
    of_clients = [line for line in commands if re.search("kafka-[a-z-]+[.]sh|kcat", line)]
    harmless = [line for line in commands if line not in of_clients and "kill -9" not in line and "--watch" not in line]
    assert len(harmless) + len(of_clients) == len(commands) - 2
    exports = [line for line in harmless if line.startswith("export ")]
    # Alone: status 4 until the monitor has merged something, and when it is behind, as it may be beside the others.
    [status] = [line for line in harmless if "monitor status" in line]
    watched = ["sh", "-c", "\n".join([*exports, status])]
    wait_until(
        lambda: subprocess.run(watched, env=shell, capture_output=True, check=False, timeout=STOP_TIMEOUT_S).returncode == 0,
        "the monitor to have looked",
        START_TIMEOUT_S,
    )
    others = [f"({line} || echo FAILED $? {' '.join(line.split()[:3])}) &" for line in harmless if line not in [*exports, status]]
    script = "\n".join([*exports, *others, "wait"])
    shown = subprocess.run(["sh", "-c", script], env=shell, capture_output=True, text=True, check=False, timeout=START_TIMEOUT_S)
    assert "FAILED" not in shown.stdout, shown.stdout + shown.stderr
    assert '"number":' in shown.stdout.replace("\\", ""), "records of the demo load, read back from the object store"

    assert_clients_work(of_clients, shell)

    second = run("dev", "up", "--folder", str(folder))
    assert second.returncode == 1
    assert f"pid {up.process.pid}" in second.stderr
    assert "diskless dev down --folder" in second.stderr

    gateway = re.search(r"gateway +127\.0\.0\.1:(\d+) +http://127\.0\.0\.1:(\d+) +pid", text)
    assert gateway is not None
    ports += [int(gateway[1]), int(gateway[2])]
    page = re.search(r"dashboard +(http://127\.0\.0\.1:(\d+)/) +pid", text)
    assert page is not None
    ports.append(int(page[2]))
    with urllib.request.urlopen(f"{page[1]}api/overview", timeout=60) as answer:
        seen = json.load(answer)
    assert seen["state"] == "known"
    assert not [one for one in seen["verdict"]["problems"] if "not answer" in one["text"]], "the page asks both nodes"

    asyncio.run(_commit_and_read([address for address, _, _ in addresses]))
    os.kill(int(addresses[1][2]), signal.SIGKILL)
    up.wait_said("node 2 was killed by SIGKILL")
    up.wait_said("node 2 is back")

    children = up.children()
    assert len(children) == 6, f"not Kafka, two nodes, the gateway, the monitor and its page\n{up.messages.read_text()}"
    stopped = run("dev", "down", "--folder", str(folder))
    assert stopped.returncode == 0, stopped.stderr
    assert up.process.wait(STOP_TIMEOUT_S) == 0, up.messages.read_text()
    assert_nothing_left(children, ports, up.process.pid)
    assert not (folder / LOCK_FILE).exists()
    assert (folder / "kafka" / "node-1" / "data").is_dir(), "the data folder that was named is kept"
    assert run("dev", "down", "--folder", str(folder)).returncode == 3


async def _commit_and_read(addresses: list[str]) -> None:
    """A user's own topic beside the demo load."""
    async with DisklessClient(addresses) as client:
        topic = await client.admin.create_topic("mine", 1)
        file = commit_request(Topic(topic_id=topic.topic_id, owner_id=0), batches=2)
        outcome = await client.commit_file(file.object_key, file.file_size, file.batches)
        outcome.raise_for_errors()
        [end] = await client.list_offsets([(PartitionId(topic.topic_id, 0), LATEST)])
        assert end.offset == 2 * RECORDS


def test_an_interrupt_leaves_nothing_whether_it_is_ready_or_still_starting(started: list[Up], data_folder: Path) -> None:
    ready = Up(data_folder, "--nodes", "1", "--no-demo", "--no-monitor", "--partitions", "2")
    started.append(ready)
    text = ready.wait_ready()
    temporary = re.search(r"data folder +(\S+) \(temporary", text)
    assert temporary is not None
    assert Path(temporary[1]).is_dir()
    ports = [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+) ", text)]
    children = ready.children()
    assert len(children) == 3, "not Kafka, a node and the gateway"
    ready.process.send_signal(signal.SIGINT)
    assert ready.process.wait(STOP_TIMEOUT_S) == 0, ready.messages.read_text()
    assert_nothing_left(children, ports, ready.process.pid)
    assert not Path(temporary[1]).exists()

    starting = Up(data_folder, "--nodes", "1")
    started.append(starting)
    starting.wait_said("Kafka ...")
    wait_until(lambda: len(starting.children()) > 0, "the broker's process")
    children = starting.children()
    starting.process.send_signal(signal.SIGTERM)
    assert starting.process.wait(STOP_TIMEOUT_S) == 0, starting.messages.read_text()
    assert_nothing_left(children, [], starting.process.pid)
    assert starting.out.read_text() == ""
