"""docs/secure-nodes.md, executed as it is written, on a Kafka with logins and ACLs: two nodes that let in who logs in and may."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from cli.dev.ports import PortLease, lease_ports
from cli.dev.process import ChildProcess, start_child
from coordinator.client.client import DisklessClient
from coordinator.client.errors import ServiceError
from coordinator.config.sources import read_file
from coordinator.security.client_security import PLAIN_TEXT, ClientSecurity
from integration_tests.kafka_scripts import write_scripts
from integration_tests.secured_kafka import LOGIN, Right, SecuredKafka, write_properties
from integration_tests.waiting import WAIT_S, wait_until

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/secure-nodes.md"
BLOCK = re.compile(r"^( *)```(bash|properties)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
ADMIN: Final = (
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS,
    AclOperation.DESCRIBE_CONFIGS,
)
ONE_BROKER: Final = {"DISKLESS_METADATA_TOPIC_REPLICATION_FACTOR": "1", "DISKLESS_METADATA_TOPIC_MIN_INSYNC_REPLICAS": "1"}


class Page:
    """The page on this machine: its folders are below one of the test, its hosts are ports of localhost, its parts run as printed."""

    def __init__(self, folder: Path, kafka: str, *, file: Path = PAGE) -> None:
        self.folder = folder / "etc"
        self.folder.mkdir(exist_ok=True)
        self._ports: dict[str, PortLease] = {}
        self._kafka = kafka
        write_scripts(folder / "bin", ROOT)
        self.environment = {**os.environ, **ONE_BROKER, "PYTHONPATH": str(ROOT), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        self._outside = {"/var/lib/diskless": folder / "data", "s3://my-bucket/diskless": f"file://{folder / 'objects'}"}
        parts = file.read_text(encoding="utf-8").split("\n## ")
        self.parts = {
            part.partition("\n")[0]: [(kind, self._dedent(text, len(space))) for space, kind, text in BLOCK.findall(part)] for part in parts
        }

    @staticmethod
    def _dedent(text: str, count: int) -> str:
        return "".join(line[count:] for line in text.splitlines(keepends=True))

    def address(self, node: int, port: int) -> str:
        """Where a port of the page's host `node-N` is."""
        name = f"node-{node}:{port}"
        if name not in self._ports:
            (self._ports[name],) = lease_ports(1)
        return f"localhost:{self._ports[name].port}"

    def close(self) -> None:
        """Let go of the ports."""
        for lease in self._ports.values():
            lease.close()

    def here(self, text: str, node: int = 1) -> str:
        """What is printed, for this machine; `0.0.0.0` is the host `node`, since hosts of the page share this one."""
        text = text.replace("/etc/diskless", str(self.folder)).replace("kafka:9093", self._kafka).replace("DNS:$node", "DNS:localhost")
        for given, meant in self._outside.items():
            text = text.replace(given, f"{meant}-{node}" if given.startswith("/") else str(meant))
        text = re.sub(r"0\.0\.0\.0:(\d+)", lambda found: self.address(node, int(found[1])), text)
        return re.sub(r"node-(\d):(\d+)", lambda found: self.address(int(found[1]), int(found[2])), text)

    def write(self, text: str) -> Path:
        """Write the file that the first line of a part names, as it is printed."""
        file = self.folder / text.partition("\n")[0].removeprefix("# ")
        file.write_text(text, encoding="utf-8")
        return file

    def run(self, script: str) -> str:
        """Run the shell's commands of a part; the variables that they set stay."""
        variables = self.folder / ".variables"
        variables.touch()
        kept = f"{{ declare -p | grep PASSWORD= || true; umask -p; }} > {variables}"
        whole = f"set -eu; . {variables}; cd {self.folder}\n{self.here(script)}\n{kept}\n"
        done = subprocess.run(["bash", "-c", whole], env=self.environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


def prepared_page(secured_kafka: SecuredKafka, folder: Path) -> Page:
    """The page after its step 5, which makes files of node 1 and node 2; before it are the files that one must have."""
    page = Page(folder, secured_kafka.address(LOGIN))
    secured_kafka.add_users(admin="the secret")
    secured_kafka.allow("admin", (Right(ResourceType.BROKER, "kafka-cluster", ADMIN),))
    (page.folder / "kafka-ca.crt").write_bytes(secured_kafka.ca.ca_file.read_bytes())
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    admin = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="admin" password="the secret";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(page.folder / "kafka-ca.crt"),
    }
    write_properties(page.folder / "admin.properties", admin)
    for name, blocks in page.parts.items():
        if name[:2] in {"1.", "2.", "3.", "4.", "5."}:
            for kind, text in blocks:
                if kind == "properties":
                    page.write(text)
                else:
                    page.run(text)
    return page


@pytest.fixture(scope="module")
def page(secured_kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """See `prepared_page`."""
    page = prepared_page(secured_kafka, tmp_path_factory.mktemp("page"))
    yield page
    page.close()


class Nodes:
    """The nodes that were started as the page says, each until it is stopped or started again."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._running: dict[int, ChildProcess] = {}
        self._ended = ""
        for log in page.folder.glob("node-*.log"):
            log.unlink()

    def start(self, node: int, script: str) -> None:
        """Run a node's part of step 6, which ends with a command that stays, and wait until the node is ready."""
        self.stop(node)
        log = self._page.folder / f"node-{node}.log"
        if log.exists():
            self._ended += log.read_text(encoding="utf-8")
            log.unlink()
        command = ["/bin/bash", "-ec", self._page.here(script.replace("diskless coordinator run", "exec diskless coordinator run"), node)]
        self._running[node] = start_child(command, marker=str(self._page.folder), log=log, environment=self._page.environment)
        wait_until(lambda: "ready node=" in log.read_text() or not self._running[node].is_running(), f"node {node} to be ready")
        assert self._running[node].is_running(), log.read_text()

    def stop(self, node: int) -> None:
        """End a node as an operator does."""
        if node in self._running:
            process = self._running.pop(node)
            process.send(signal.SIGTERM)
            process.wait(WAIT_S)

    def said(self) -> str:
        """All that they logged, those that have ended included."""
        return self._ended + "".join(log.read_text(encoding="utf-8") for log in self._page.folder.glob("node-*.log"))

    def close(self) -> None:
        """End all of them."""
        for node in list(self._running):
            self.stop(node)


@pytest.fixture
def nodes(page: Page) -> Iterator[Nodes]:
    """Starts nodes of the page."""
    made = Nodes(page)
    yield made
    made.close()


def settings(page: Page, node: int) -> dict[str, str]:
    """What step 5 gives a node, on this machine."""
    text = page.here((page.folder / f"node-{node}.properties").read_text(encoding="utf-8"), node)
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


def operator(page: Page) -> ClientSecurity:
    """How operators connect to nodes, by the file of step 5."""
    given = {one.key: one.value for one in read_file(page.folder / "client.properties")}
    of_nodes = {key.removeprefix("node."): value for key, value in given.items() if key.startswith("node.")}
    return ClientSecurity({key: given[key] for key in ("security.protocol", "sasl.mechanism")} | of_nodes)


def part(page: Page, step: str) -> list[str]:
    """The commands of a step."""
    [blocks] = [blocks for name, blocks in page.parts.items() if name.startswith(step)]
    return [text for kind, text in blocks if kind == "bash"]


def start(page: Page, nodes: Nodes, node: int, given: Mapping[str, str]) -> None:
    """Start a node as step 6 says, with these settings in its file."""
    write_properties(page.folder / f"node-{node}.properties", dict(given))
    [text] = part(page, "6.")
    nodes.start(node, text.replace("node-1", f"node-{node}"))


async def test_the_page_secures_a_service_as_it_is_written(page: Page, nodes: Nodes) -> None:
    for node in (1, 2):
        start(page, nodes, node, settings(page, node))
    said = "".join(page.run(text) for text in part(page, "7."))
    assert "no login, no answer\n" in said
    assert "no token, no metrics\n" in said
    assert "diskless_coordinator_ready" in (page.folder / "metrics.txt").read_text(encoding="utf-8")
    secrets = ("ca.key", "node-1.key", "users", "node-secret", "metrics-token", "node.env", "client.properties")
    assert [name for name in secrets if (page.folder / name).stat().st_mode & 0o077] == []
    async with DisklessClient(page.address(2, 9192), security=operator(page)) as client:
        assert len((await client.describe_topic("orders")).partitions) == 12
        assert {f"{node.host}:{node.port}" for node in await client.admin.nodes()} == {page.address(1, 9192), page.address(2, 9192)}
    with pytest.raises(ServiceError):
        async with DisklessClient(page.address(2, 9192), api_timeout_ms=5000) as client:
            await client.admin.nodes()


@pytest.mark.long
async def test_a_service_in_plain_text_is_secured_in_three_rounds(page: Page, nodes: Nodes) -> None:
    """After each restart a topic with partitions of all coordinators is created: the leader of the directory has to reach the others."""
    [(kind, text)] = page.parts["A service that runs in plain text"]
    assert kind == "properties"
    secured = {"authorizer", "acls", "listeners", "advertised.listeners", "ssl.certificate.location", "ssl.key.location"}
    created = 0

    async def restart(node: int, given: Mapping[str, str], address: str, security: ClientSecurity) -> None:
        nonlocal created
        start(page, nodes, node, given)
        async with DisklessClient(address, security=security) as client:
            async with asyncio.timeout(WAIT_S):
                while {one.leader_id for one in (await client.admin.describe_coordinators()).coordinators} != {1, 2}:  # noqa: ASYNC110 - leaders tell nobody
                    await asyncio.sleep(0.1)
            created += 1
            await client.admin.create_topic(f"created-{created}", 16)

    rounds: list[dict[int, dict[str, str]]] = [{}, {}, {}, {}]
    for node in (1, 2):
        whole = settings(page, node)
        plain = {key: value for key, value in whole.items() if key not in secured}
        plain |= {
            "listeners": page.here("PLAINTEXT://0.0.0.0:9192", node),
            "advertised.listeners": f"PLAINTEXT://{page.address(node, 9192)}",
        }
        own = page.here(text.replace("node-1", f"node-{node}"), node)
        first = whole | dict(line.split("=", 1) for line in own.splitlines()[1:])
        second = first | {"inter.node.listener.name": "SASL_SSL"}
        listener = f"SASL_SSL://{page.address(node, 9194)}"
        third = whole | {"listeners": listener, "advertised.listeners": listener}
        for place, given in enumerate((plain, first, second, third)):
            rounds[place][node] = given
    for node, given in rounds[0].items():
        start(page, nodes, node, given)
    for place in (1, 2, 3):
        for node, given in rounds[place].items():
            port, security = (9194, operator(page)) if place == 3 else (9192, PLAIN_TEXT)
            await restart(node, given, page.address(node, port), security)
    # No node spoke plain text where another one wants TLS, or the reverse.
    assert [sign for sign in ("'no TLS'", "'malformed message'", "security.protocol?") if sign in nodes.said()] == []
    with pytest.raises(ServiceError):
        async with DisklessClient(page.address(1, 9194), api_timeout_ms=5000) as client:
            await client.admin.nodes()
