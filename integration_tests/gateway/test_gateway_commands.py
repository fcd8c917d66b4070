"""`diskless gateways list|describe`: who is alive, and what each of them says of its work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition

from cli.dev.kafka import BrokerRuntime
from cli.doctor.gateways import BATCHES_MIN
from cli.kafka.cluster import KafkaPlace
from cli.looks.gateways import read_metrics
from cli.main import root
from cli.outcome import Exit
from cli.spark.gateways import GatewayRacks
from coordinator.adapters.metrics.table import MetricKind
from gateway.metrics import TABLE
from integration_tests.gateway.world import World
from integration_tests.waiting import wait_until
from spark_jobs.monitor.facts import record_brokers
from spark_jobs.monitor.report import open_report
from spark_jobs.monitor.topic import TopicWatch
from spark_jobs.monitor.watcher import Watcher
from spark_jobs.store import sink

TOKEN = "a-token-of-sixteen-letters"


@pytest.fixture(scope="module")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n", encoding="ascii")
    return file


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, broker_runtime: BrokerRuntime, token_file: Path) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("gateways"), broker_runtime) as made:
        made.start(1001)
        second = made.make(1002, gateway_rack="zone-b", http_bearer_token_file=str(token_file))
        second.start()
        second.wait_ready()
        wait_until(lambda: World.known(made.gateways[1001]) == [1001, 1002], "gateways to know each other")
        yield made


def invoke(world: World, *words: str) -> Result:
    line = ["gateways", *words, "--kafka-bootstrap-server", world.kafka.bootstrap]
    return CliRunner().invoke(root, line, prog_name="diskless")


def rows(world: World, *words: str) -> Any:
    result = invoke(world, *words, "-o", "json")
    assert result.exit_code == Exit.OK, result.output
    return json.loads(result.stdout)


def test_live_gateways_are_listed_as_they_tell_of_themselves(world: World) -> None:
    first, second = rows(world, "list")
    assert (first["gateway"], second["gateway"]) == (1001, 1002)
    assert (first["rack"], second["rack"]) == ("", "zone-b")
    assert first["listeners"] == [f"PLAINTEXT://{world.gateways[1001].address}"]
    ports = world.gateways[1001].relay_ports
    assert first["relay_ports"] == [f"PLAINTEXT {ports[0]}-{ports[-1]}"]
    assert first["http"] == world.gateways[1001].http
    assert first["object_store"] == world.service.properties["object.store.url"]
    assert first["started_ms"] <= second["started_ms"]
    assert "1001" in invoke(world, "list").stdout


def test_the_monitor_knows_the_racks_of_gateways(world: World, tmp_path: Path) -> None:
    kafka = KafkaPlace(bootstrap_servers=world.kafka.bootstrap, topic="", properties={}, settings=None)
    sink.Store.open(tmp_path).close()
    with TopicWatch(world.kafka.bootstrap, world.service.topic, {}) as topic:
        watcher = Watcher(
            topic,
            topic.facts(),
            heads=dict,
            gateways=GatewayRacks(kafka, "diskless-gateways"),
            on_brokers=lambda found: record_brokers(tmp_path, found),
            on_grown=lambda partitions: pytest.fail(f"it had {partitions} partitions before"),
            on_error=lambda: pytest.fail("Kafka answers"),
        )
        watcher.start()
        watcher.stop()
    with open_report(tmp_path) as report:
        known = report.connection.execute("SELECT broker_id, rack FROM broker ORDER BY 1").fetchall()
    assert [tuple(row) for row in known] == [(1, ""), (1001, ""), (1002, "zone-b")]
    assert GatewayRacks(kafka, "no-such-group")() == []


def test_a_described_gateway_says_what_it_did(world: World, token_file: Path) -> None:
    world.create(world.gateways[1001], "described", 2, is_diskless=True)
    one = rows(world, "describe", "1001")
    assert one["ready"] is True
    assert one["problem"] == ""
    assert one["ready_gateways"] == [1001, 1002]
    assert one["requests"]["CreateTopics"] >= 1
    refused = rows(world, "describe", "1002")
    assert refused["ready"] is True
    assert "--token-file" in refused["problem"]
    assert "requests" not in refused
    both = rows(world, "describe", "--token-file", str(token_file))
    assert [one["gateway"] for one in both] == [1001, 1002]
    assert both[1]["problem"] == ""
    assert both[1]["connections"] == {} or both[1]["connections"]["PLAINTEXT"] >= 0


def test_what_clients_write_and_read_is_in_the_metrics(world: World, token_file: Path) -> None:
    gateway = world.gateways[1001]
    world.create(gateway, "measured", 20, is_diskless=True)
    producer = Producer({"bootstrap.servers": gateway.address, "client.id": "writer", "batch.num.messages": 1})
    for number in range(200):
        producer.produce("measured", str(number), partition=number % 20)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": gateway.address, "group.id": "measured", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("measured", partition, 0) for partition in range(20)])
    assert len(consumer.consume(200, 60)) == 200
    consumer.commit(offsets=[TopicPartition("measured", partition, 4) for partition in range(3)], asynchronous=False)
    words = ["groups", "lag", "measured", "--kafka-bootstrap-server", world.kafka.bootstrap, "-o", "json"]
    lags = CliRunner().invoke(root, [*words, "--bootstrap-server", world.service.addresses[0]], prog_name="diskless")
    assert lags.exit_code == Exit.OK, lags.output
    assert [
        (one["topic"], one["partition"], one["current_offset"], one["log_end_offset"], one["lag"]) for one in json.loads(lags.stdout)
    ] == [("measured", partition, 4, 10, 6) for partition in range(3)]
    consumer.close()
    described = rows(world, "describe", "--token-file", str(token_file))
    for one in described:
        assert (one["memory"]["paused"], one["memory"]["relay_paused"]) == (False, False)
        assert one["memory"]["relayed_bytes_limit"] > 0
        assert 0 <= one["catalogue_age_seconds"] < 60
        assert one["diskless_topics"] >= 1
    writing = [one["written"] for one in described if one["written"]["batches"]]  # one or both: they are in different zones
    assert sum(one["batches"] for one in writing) == 200
    # Means of files and of requests: a slow file with one request in it makes the first larger than the second.
    assert all(0 < one[f"{what}_seconds"] < 60 for one in writing for what in ("upload", "commit", "request"))
    assert sum(one["read"]["bytes"] for one in described) > 0
    found = read_metrics(gateway.get("/metrics")[1].decode())
    declared = {one.name for one in TABLE if one.labels == () and one.kind is not MetricKind.HISTOGRAM}
    assert declared <= set(found)


def test_an_unknown_gateway_and_another_group_are_said(world: World) -> None:
    unknown = invoke(world, "describe", "7")
    assert unknown.exit_code == Exit.NOT_FOUND
    assert "no live gateway has the id 7" in unknown.stderr
    nobody = invoke(world, "list", "--group", "no-such-group")
    assert nobody.exit_code == Exit.OK
    assert "group no-such-group has no gateway" in nobody.stderr


def findings(world: World, *words: str) -> list[tuple[str, str]]:
    line = ["doctor", "--bootstrap-server", world.service.addresses[0], "--kafka-bootstrap-server", world.kafka.bootstrap, *words]
    result = CliRunner().invoke(root, [*line, "-o", "json"], prog_name="diskless")
    return [(one["health"], one["finding"]) for one in json.loads(result.stdout) if one["check"] == "gateways"]


def test_doctor_names_clients_that_write_tiny_batches_and_gateways_that_cannot_be_seen(world: World, token_file: Path) -> None:
    gateway = world.gateways[1001]
    world.create(gateway, "tiny", 20, is_diskless=True)
    producer = Producer({"bootstrap.servers": gateway.address, "client.id": "hasty", "batch.num.messages": 1, "linger.ms": 0})
    for number in range(BATCHES_MIN + 100):
        producer.produce("tiny", b"x", partition=number % 20)
    assert producer.flush(120) == 0
    blind = findings(world)
    assert any(health == "warning" and finding.startswith("gateway 1002: ") for health, finding in blind)
    seen = findings(world, "--gateway-token-file", str(token_file))
    [(health, finding)] = seen
    assert health == "warning"
    assert finding.startswith("clients with client.id hasty wrote 1100 batches of ")
    [(health, finding)] = findings(world, "--gateway-group", "no-such-group")
    assert health == "error"
    assert finding.startswith("no gateway is alive")


def test_a_stopped_gateway_is_listed_no_more_and_the_rest_answer_through_a_gateway_too(world: World) -> None:
    assert world.gateways[1002].terminate() == 0
    wait_until(lambda: [one["gateway"] for one in rows(world, "list")] == [1001], "the stopped gateway to be gone")
    through = CliRunner().invoke(root, ["gateways", "list", "--kafka-bootstrap-server", world.gateways[1001].address], prog_name="diskless")
    assert re.search(r"^1001 ", through.stdout, re.MULTILINE), through.output
