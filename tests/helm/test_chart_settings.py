"""The files and variables of every container are what the programs in it take: settings are valid, options exist."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import pytest
import yaml

from cli.main import root as diskless
from coordinator.config import load_settings
from gateway.settings import GatewaySettings, load_gateway_settings
from helm.generator.chart.write import CHART
from simulation.fakes.certificates import Authority
from tests.helm.chart_tools import CI_VALUES, changed, find, render
from tests.helm.pods import Container, containers

CI = CHART / "ci"


@cache
def secret() -> Mapping[str, str]:
    """A secret with every key that the files of the `ci` folder name, as cert-manager and Strimzi write them."""
    with TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        end = "-----END PRIVATE KEY-----\n"
        key, _, certificate = authority.issue("node").read_text(encoding="ascii").partition(end)
        ca = authority.ca_file.read_text(encoding="ascii")
    pair = {"tls.crt": certificate, "tls.key": key + end, "user.crt": certificate, "user.key": key + end, "ca.crt": ca}
    return {
        **pair,
        "password": "kafka-password",
        "users": "",
        "secret": "0123456789abcdef0123456789abcdef",
        "token": "0123456789abcdef0123456789abcdef",
        "client.properties": "",
        "access-key-id": "id",
        "secret-access-key": "store-secret",
    }


class AnySecret(dict[str, Mapping[str, str]]):
    """Whatever name is asked for: a secret with every key."""

    def __missing__(self, name: str) -> Mapping[str, str]:
        return secret()


def nodes(values: Mapping[str, Any] | Path, folder: Path, number: int = 0, component: str = "coordinator") -> Container:
    """The container of a node, or of a gateway."""
    objects = [one for one in render(values) if one["kind"] in {"StatefulSet", "ConfigMap"}]
    parts = [one for one in objects if one["kind"] == "StatefulSet"]
    (owner,) = [one for one in parts if one["metadata"]["labels"]["app.kubernetes.io/component"] == component]
    return containers(objects, owner, AnySecret(), folder, number)[component]


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))
def test_the_settings_of_a_node_are_valid(values: Path, tmp_path: Path) -> None:
    node = nodes(values, tmp_path)
    command = [
        sys.executable,
        "-m",
        "cli.program",
        "config",
        "validate",
        "--config",
        str(node.path("/etc/diskless/coordinator.properties")),
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **node.environment}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "the configuration is valid" in done.stderr
    assert node.arguments == ["coordinator", "run", "--config", str(node.path("/etc/diskless/coordinator.properties")), *node.arguments[4:]]


def gateway_settings(values: Mapping[str, Any] | Path, folder: Path, number: int = 0) -> GatewaySettings:
    gateway = nodes(values, folder, number, "gateway")
    assert gateway.arguments[:2] == ["gateway", "run"]
    return load_gateway_settings(gateway.path("/etc/diskless/gateway.properties"), gateway.environment)


def test_the_settings_of_gateways_are_valid_and_differ_from_pod_to_pod(tmp_path: Path) -> None:
    values = changed({}, {"gateway": {"enabled": True}, "rack": {"value": "zone-a"}, "config": {"metadata.topic": "__other"}})
    found = [gateway_settings(values, tmp_path, number) for number in (0, 1)]
    assert [one.gateway_node_id for one in found] == [1000, 1001]
    name = "diskless-diskless-coordinator-gateway-{}.kafka.svc.cluster.local"
    assert [str(one.advertised_listeners[0]) for one in found] == [f"PLAINTEXT://{name.format(number)}:9292" for number in (1000, 1001)]
    assert found[0].gateway_relay_brokers == "0-15"
    assert found[0].gateway_rack == "zone-a"
    assert found[0].metadata_topic == "__other"
    assert found[0].coordinator_bootstrap_servers == ("diskless-diskless-coordinator.kafka.svc.cluster.local:9192",)
    services = {one["metadata"]["name"]: one for one in render(values) if one["kind"] == "Service"}
    ports = services["diskless-diskless-coordinator-gateway-1001"]["spec"]["ports"]
    assert [(one["name"], one["port"], one["targetPort"]) for one in ports] == [
        ("kafka", 9292, 9292),
        *((f"broker-{broker}", 9293 + broker, 9293 + broker) for broker in range(16)),
    ]


def test_secured_gateways_have_certificates_and_logins(tmp_path: Path) -> None:
    settings = gateway_settings(CI / "secured-values.yaml", tmp_path)
    assert dict(settings.coordinator_client) | {"ssl.ca.location": ""} == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "gateway",
        "sasl.password": "kafka-password",
        "ssl.ca.location": "",
    }
    assert settings.kafka["sasl.password"] == "kafka-password"
    assert settings.ssl_certificate_location is not None
    assert settings.ssl_certificate_location.is_file()
    everything = gateway_settings(CI / "everything-values.yaml", tmp_path, 1)
    assert str(everything.advertised_listeners[0]) == "SASL_PLAINTEXT://metadata-gateway-1001.example.com:9292"
    assert everything.gateway_relay_brokers == "1-5"
    assert everything.gateway_memory_bytes == 2 << 30


def test_what_differs_from_pod_to_pod_comes_from_the_pod(tmp_path: Path) -> None:
    found = []
    for number in (0, 2):
        node = nodes(changed({"nodeIdStart": 10}), tmp_path, number)
        settings = load_settings(node.path("/etc/diskless/coordinator.properties"), node.environment)
        found.append((settings.node_id, str(settings.advertised_listeners[0])))
    host = "diskless-diskless-coordinator-nodes.kafka.svc.cluster.local"
    assert found == [
        (10, f"PLAINTEXT://diskless-diskless-coordinator-10.{host}:9192"),
        (12, f"PLAINTEXT://diskless-diskless-coordinator-12.{host}:9192"),
    ]


def test_values_arrive_as_they_were_written(tmp_path: Path) -> None:
    values = {
        "config": {"log.retention.ms": 604800000, "snapshots.enable": False, "group.id": "a=b\\c"},
        "kafka": {"properties": {"client.rack": "x y"}},
        "objectStore": {"existingSecret": "s", "options": {"endpoint": "http://store:9000"}},
        "rack": {"value": "zone-a"},
    }
    node = nodes(changed(values), tmp_path)
    settings = load_settings(node.path("/etc/diskless/coordinator.properties"), node.environment)
    assert (settings.log_retention_ms, settings.snapshots_enable, settings.group_id) == (604800000, False, "a=b\\c")
    assert (settings.kafka["client.rack"], settings.node_rack) == ("x y", "zone-a")
    assert settings.object_store_option["endpoint"] == "http://store:9000"
    assert settings.object_store_option["secret.access.key"] == "store-secret"
    assert settings.snapshots_peers == ("diskless-diskless-coordinator-nodes.kafka.svc.cluster.local:9192",)


def test_no_secret_is_written_into_a_file_that_everybody_may_read(tmp_path: Path) -> None:
    for values in CI_VALUES:
        for one in render(values):
            text = yaml.safe_dump(one)
            assert "kafka-password" not in text
            assert "store-secret" not in text


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))
def test_every_command_line_is_one_that_the_program_takes(values: Path, tmp_path: Path) -> None:
    objects = render(values)
    seen = set()
    for owner in objects:
        if owner["kind"] not in {"StatefulSet", "Deployment", "CronJob", "Pod"}:
            continue
        for container in containers(objects, owner, AnySecret(), tmp_path).values():
            seen.add(container.name)
            if container.name == "spark":  # Spark's own program, which integration tests run with these words
                continue
            command, arguments = _command(container.arguments)
            with command.make_context(command.name, list(arguments), resilient_parsing=False):
                pass
    assert {"coordinator", "status"} <= seen


def _command(arguments: Any) -> tuple[click.Command, Any]:
    """The command of a line, and what follows its name."""
    command: click.Command = diskless
    rest = list(arguments)
    while isinstance(command, click.Group):
        _, found, rest = command.resolve_command(click.Context(command), rest)
        assert found is not None, arguments
        command = found
    return command, rest


def test_the_programs_beside_the_nodes_find_kafka_and_the_store(tmp_path: Path) -> None:
    (values,) = [path for path in CI_VALUES if path.name.startswith("secured")]
    objects = render(values)
    monitor = containers(objects, find(objects, "Deployment", "diskless-diskless-coordinator-monitor"), AnySecret(), tmp_path)["monitor"]
    settings = load_settings(monitor.path("/etc/diskless/coordinator.properties"), monitor.environment, {"node.id": "0"})
    assert settings.bootstrap_servers == ("my-cluster-kafka-bootstrap:9093",)
    assert settings.kafka["sasl.password"] == "kafka-password"
    assert Path(settings.kafka["ssl.ca.location"]).read_text(encoding="ascii") == secret()["ca.crt"]
    assert str(settings.object_store_url) == "s3://bucket/diskless"
