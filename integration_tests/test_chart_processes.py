"""The chart's own files run: secured nodes, monitor, dashboard and jobs start from what Helm renders, beside a secured Kafka with ACLs.

Only addresses are changed: all pods share this machine's loopback, where each needs ports of its own.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cli.dev.ports import PortLease, lease_ports
from cli.dev.process import ChildProcess, start_child
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from coordinator.security.client_security import ClientSecurity
from coordinator.security.users_file import credentials_of, write_users
from integration_tests.prometheus import Prometheus
from integration_tests.secured_kafka import LOGIN, SecuredKafka, node_rights
from integration_tests.waiting import wait_until
from records.record_batch import Record
from simulation.fakes.certificates import HOSTS, Authority
from tests.helm.chart_tools import find, render
from tests.helm.pods import Container, containers
from tests.monitoring.prometheus_tools import program

NODES = 3
USER, PASSWORD = "diskless", "a pass=word with \\ and #"
TOPIC, GROUP = "__diskless_metadata-chart", "diskless-chart"
NAME = "diskless-diskless-coordinator"
START_TIMEOUT_S = 180
NODE_LOGIN = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "admin",
    "sasl.password": "the secret of admin",
}
"""How programs beside the nodes log in to them."""


class Pods:
    """The containers of a rendered chart as processes of this machine. Use as a context manager: what runs at the end is killed."""

    def __init__(self, values: Mapping[str, Any], secrets: Mapping[str, Mapping[str, str]], folder: Path) -> None:
        self.objects = render(values)
        self._secrets, self._folder = secrets, folder
        self._leases: list[PortLease] = lease_ports(2 * NODES + 2)
        ports = [lease.port for lease in self._leases]
        self.node_ports, self.http_ports, (self.metrics_port, self.page_port) = ports[:NODES], ports[NODES : 2 * NODES], ports[2 * NODES :]
        self.processes: dict[str, ChildProcess] = {}
        self.security = ClientSecurity(NODE_LOGIN | {"ssl.ca.location": str(folder / "nodes.crt")})

    def __enter__(self) -> Pods:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
        for lease in self._leases:
            lease.close()

    @property
    def servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.node_ports)

    def containers(self, kind: str, name: str, number: int = 0) -> Mapping[str, Container]:
        return containers(self.objects, find(self.objects, kind, name), self._secrets, self._folder, number)

    def start(self, key: str, container: Container, changes: Mapping[str, str], *more: str) -> None:
        """Start a container's command; `changes` are texts of its arguments that name addresses."""
        self.processes[key] = start_child(
            self.command(container, changes, *more), marker="cli.program", log=self.log(key), environment=self.environment(container)
        )

    def run(self, container: Container, changes: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a container's command to its end."""
        command = self.command(container, changes)
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment(container), timeout=START_TIMEOUT_S, check=False
        )

    @staticmethod
    def command(container: Container, changes: Mapping[str, str], *more: str) -> Sequence[str]:
        words = [changes.get(word, word) for word in container.arguments]
        assert set(changes) <= set(container.arguments), "an address that is to be changed is not there"
        return [sys.executable, "-m", "cli.program", *words, *more]

    @staticmethod
    def environment(container: Container) -> Mapping[str, str]:
        ours = ("PATH", "HOME", "JAVA_HOME", "DISKLESS_CACHE_DIR", "LANG")
        return {name: os.environ[name] for name in ours if name in os.environ} | dict(container.environment)

    def secret(self, reference: Mapping[str, str]) -> str:
        """The text that a reference with `name` and `key` means."""
        return self._secrets[reference["name"]][reference["key"]]

    def claim(self, name: str) -> Path:
        return self._folder / "claims" / name

    def log(self, key: str) -> Path:
        return self._folder / f"{key}.log"

    def start_node(self, number: int) -> None:
        node = self.containers("StatefulSet", NAME, number)["coordinator"]
        listener = node.environment["DISKLESS_ADVERTISED_LISTENERS"].partition("://")[0]
        address = f"{listener}://127.0.0.1:{self.node_ports[number]}"
        places = {
            "listeners": address,
            "advertised.listeners": address,
            "http.listener": f"https://127.0.0.1:{self.http_ports[number]}",
            "snapshots.peers": "",
        }
        self.start(f"node-{number}", node, {}, *(word for key, value in places.items() for word in ("--property", f"{key}={value}")))

    def readiness(self, number: int) -> Mapping[str, Any]:
        try:
            url = f"https://127.0.0.1:{self.http_ports[number]}/ready"
            token = {"Authorization": f"Bearer {self._secrets['diskless-scrape']['token']}"}
            trusted = ssl.create_default_context(cafile=self._folder / "nodes.crt")
            with urllib.request.urlopen(urllib.request.Request(url, headers=token), timeout=5, context=trusted) as answer:
                found: Mapping[str, Any] = json.load(answer)
                return found
        except OSError:
            assert self.processes[f"node-{number}"].is_running(), self.log(f"node-{number}").read_text()[-3000:]
            return {"leading": []}

    def wait_shared(self, partitions: int) -> None:
        """Wait until every node leads some partition and all are led once."""

        def shared() -> bool:
            led = [self.readiness(number)["leading"] for number in range(NODES)]
            return all(led) and sorted(one for each in led for one in each) == list(range(partitions))

        wait_until(shared, "all partitions to be led", START_TIMEOUT_S)


@pytest.fixture(scope="module")
def pods(secured_kafka: SecuredKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    """Three nodes that share the partitions."""
    secured_kafka.add_users(**{USER: PASSWORD})
    secured_kafka.allow(USER, node_rights(TOPIC, GROUP))
    folder = tmp_path_factory.mktemp("pods")
    values = {
        "kafka": {
            "bootstrapServers": [secured_kafka.address(LOGIN)],
            "securityProtocol": "SASL_SSL",
            "sasl": {"username": USER, "existingSecret": USER},
            "tls": {"caSecret": "my-cluster-cluster-ca-cert"},
        },
        "listeners": [
            {
                "name": "SASL_SSL",
                "port": 9192,
                "tls": {"secret": "diskless-tls", "clientCaSecret": "diskless-tls"},
                "sasl": {"mechanisms": ["SCRAM-SHA-512"]},
            }
        ],
        "security": {
            "usersSecret": "diskless-users",
            "authorizer": "acls",
            "superUsers": ["User:admin"],
            "internalSecret": "diskless-internal",
        },
        "clientConfig": {"secret": "diskless-client"},
        "http": {"tls": {"secret": "diskless-tls"}, "tokenSecret": "diskless-scrape"},
        "metrics": {"serviceMonitor": {"enabled": True}},
        "objectStore": {"url": "file:///objects"},
        "extraVolumes": [{"name": "objects", "persistentVolumeClaim": {"claimName": "objects"}}],
        "extraVolumeMounts": [{"name": "objects", "mountPath": "/objects"}],
        "config": {
            "metadata.topic": TOPIC,
            "group.id": GROUP,
            "diskless.metadata.topic.num.partitions": 4,
            "diskless.metadata.topic.replication.factor": 1,
            "diskless.metadata.topic.min.insync.replicas": 1,
            "session.timeout.ms": 60000,
        },
        "monitor": {"enabled": True, "verifyEvery": "", "objectsEvery": ""},
        "jobs": {"doctor": {"enabled": True}, "audit": {"enabled": True}},
    }
    authority = Authority(folder, "nodes")
    end = "-----END PRIVATE KEY-----\n"
    key, _, certificate = (
        authority.issue("node", hosts=(*HOSTS, f"*.{NAME}-nodes.kafka.svc.cluster.local")).read_text(encoding="ascii").partition(end)
    )
    write_users(folder / "users", {"admin": credentials_of(NODE_LOGIN["sasl.password"])})
    login = NODE_LOGIN | {"ssl.ca.location": "/etc/diskless/client/ca.crt"}
    # As Strimzi and cert-manager write them, other keys and all.
    secrets = {
        "diskless-tls": {"tls.crt": certificate, "tls.key": key + end, "ca.crt": authority.ca_file.read_text()},
        "diskless-users": {"users": (folder / "users").read_text()},
        "diskless-internal": {"secret": os.urandom(24).hex()},
        "diskless-scrape": {"token": os.urandom(24).hex()},
        "diskless-client": {
            "client.properties": "".join(f"node.{name}={value}\n" for name, value in login.items()),
            "ca.crt": authority.ca_file.read_text(),
        },
        USER: {"password": PASSWORD, "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;"},
        "my-cluster-cluster-ca-cert": {"ca.crt": secured_kafka.ca.ca_file.read_text(), "ca.password": "x"},
    }
    with Pods(values, secrets, folder) as running:
        for number in range(NODES):
            running.start_node(number)
        running.wait_shared(4)
        yield running


async def test_the_nodes_serve(pods: Pods) -> None:
    store = open_store(f"file://{pods.claim('objects')}")
    async with DisklessClient(pods.servers, object_store=store, security=pods.security) as client:
        await client.admin.create_topic("orders", 3)
        orders = [Record(timestamp_ms=1_700_000_000_000, value=f"order {number}".encode()) for number in range(5)]
        await client.write({("orders", partition): orders for partition in range(3)})
        found = [record.value async for record in client.read("orders", 2, offset=0)]
    assert found == [order.value for order in orders]


def test_helm_test_and_doctor_find_the_service_in_order(pods: Pods) -> None:
    bootstrap = f"{NAME}.kafka.svc.cluster.local:9192"
    status = pods.run(pods.containers("Pod", f"{NAME}-test")["status"], {bootstrap: pods.servers})
    assert status.returncode == 0, status.stderr
    doctor = pods.run(pods.containers("CronJob", f"{NAME}-doctor")["doctor"], {bootstrap: pods.servers})
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr


def test_prometheus_reads_the_metrics_of_nodes_whose_certificates_it_verifies(pods: Pods, data_folder: Path) -> None:
    """The nodes are asked at their addresses, as by the Prometheus operator, and not one of them that shows another name."""
    (end,) = find(pods.objects, "ServiceMonitor", NAME)["spec"]["endpoints"]
    authority, login = end["tlsConfig"]["ca"]["secret"], end["authorization"]["credentials"]
    (data_folder / "ca.crt").write_text(pods.secret(authority))
    scrape = {
        "scheme": end["scheme"],
        "authorization": {"credentials": pods.secret(login)},
        "tls_config": {"ca_file": str(data_folder / "ca.crt"), "server_name": end["tlsConfig"]["serverName"]},
    }
    targets = {"nodes": [f"127.0.0.1:{port}" for port in pods.http_ports]}
    prometheus = program("prometheus")
    with Prometheus(prometheus, data_folder / "verified", targets, scrape) as running:
        wait_until(lambda: [sample.value for sample in running.query("up")] == [1.0] * NODES, "the nodes to be scraped")
    misled = {**scrape, "tls_config": {**scrape["tls_config"], "server_name": "another.example"}}
    with Prometheus(prometheus, data_folder / "misled", targets, misled) as running:
        wait_until(lambda: [sample.value for sample in running.query("up")] == [0.0] * NODES, "the nodes to be refused")


@pytest.mark.long
def test_monitor_dashboard_and_audit_come_up_beside_them(pods: Pods) -> None:
    found = pods.containers("Deployment", f"{NAME}-monitor")
    pods.start("monitor", found["monitor"], {"9194": str(pods.metrics_port), "0.0.0.0": "127.0.0.1"})
    wait_until(
        lambda: "ready topic=" in pods.log("monitor").read_text() or not pods.processes["monitor"].is_running(),
        "the monitor",
        START_TIMEOUT_S,
    )
    assert pods.processes["monitor"].is_running(), pods.log("monitor").read_text()[-3000:]
    addresses = ",".join(f"https://{NAME}-{number}.{NAME}-nodes.kafka.svc.cluster.local:9193" for number in range(NODES))
    nodes = ",".join(f"https://127.0.0.1:{port}" for port in pods.http_ports)
    pods.start("dashboard", found["dashboard"], {addresses: nodes, "0.0.0.0:9180": f"127.0.0.1:{pods.page_port}"})

    def healthy() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{pods.page_port}/api/overview", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            assert pods.processes["dashboard"].is_running(), pods.log("dashboard").read_text()[-3000:]
            return False

    wait_until(healthy, "the page", START_TIMEOUT_S)
    audit = pods.run(pods.containers("CronJob", f"{NAME}-audit")["audit"], {f"{NAME}.kafka.svc.cluster.local:9192": pods.servers})
    assert audit.returncode == 0, audit.stdout + audit.stderr
