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
from cli.looks.gateways import read_metrics
from cli.main import root
from cli.outcome import Exit
from coordinator.adapters.metrics.table import MetricKind
from gateway.metrics import TABLE
from integration_tests.gateway.world import World
from integration_tests.waiting import wait_until

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


def test_what_clients_write_and_read_is_in_the_metrics(world: World) -> None:
    gateway = world.gateways[1001]
    world.create(gateway, "measured", 1, is_diskless=True)
    before = rows(world, "describe", "1001")
    producer = Producer({"bootstrap.servers": gateway.address, "client.id": "writer", "batch.num.messages": 1})
    for number in range(50):
        producer.produce("measured", str(number))
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": gateway.address, "group.id": "measured", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("measured", 0, 0)])
    assert len(consumer.consume(50, 60)) == 50
    consumer.close()
    after = rows(world, "describe", "1001")
    assert after["written"]["batches"] >= before["written"]["batches"] + 50
    assert 0 < after["written"]["upload_seconds"] < after["written"]["request_seconds"] < 60
    assert after["written"]["commit_seconds"] > 0
    assert after["read"]["bytes"] > before["read"]["bytes"]
    assert after["memory"]["paused"] is False
    assert 0 <= after["catalogue_age_seconds"] < 60
    assert after["diskless_topics"] >= 1
    found = read_metrics(gateway.get("/metrics")[1].decode())
    assert found["produce_client_batches_total"][(("client_id", "writer"),)] == 50
    declared = {one.name for one in TABLE if one.labels == () and one.kind is not MetricKind.HISTOGRAM}
    assert declared <= set(found)


def test_an_unknown_gateway_and_another_group_are_said(world: World) -> None:
    unknown = invoke(world, "describe", "7")
    assert unknown.exit_code == Exit.NOT_FOUND
    assert "no live gateway has the id 7" in unknown.stderr
    nobody = invoke(world, "list", "--group", "no-such-group")
    assert nobody.exit_code == Exit.OK
    assert "group no-such-group has no gateway" in nobody.stderr


def test_a_stopped_gateway_is_listed_no_more_and_the_rest_answer_through_a_gateway_too(world: World) -> None:
    assert world.gateways[1002].terminate() == 0
    wait_until(lambda: [one["gateway"] for one in rows(world, "list")] == [1001], "the stopped gateway to be gone")
    through = CliRunner().invoke(root, ["gateways", "list", "--kafka-bootstrap-server", world.gateways[1001].address], prog_name="diskless")
    assert re.search(r"^1001 ", through.stdout, re.MULTILINE), through.output
