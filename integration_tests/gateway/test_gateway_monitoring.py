"""Every panel and every alert about gateways has data: a real Prometheus scrapes two of them while clients write and read."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Consumer, Producer

from cli.dev.kafka import BrokerRuntime
from coordinator.protocol.framing import request_frame
from gateway.kafka_apis import KafkaApi
from helm.generator.alerts import GROUPS
from helm.generator.recording import RECORDINGS
from helm.generator.write import BOARDS
from integration_tests.gateway.world import World
from integration_tests.prometheus import Prometheus
from integration_tests.waiting import WAIT_S, wait_until
from tests.monitoring.prometheus_tools import program

pytestmark = pytest.mark.timeout(300)

ONLY_WITH_TLS = {"Gateway certificates", "DisklessGatewayCertificateExpires"}
"""These gateways listen in plain text."""
TOPIC = "watched"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, broker_runtime: BrokerRuntime) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("gateways"), broker_runtime) as made:
        made.start(1001, 1002, gateway_produce_byte_rate="100000000")
        yield made


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Prometheus]:
    targets = {"diskless-gateway": [one.http.removeprefix("http://") for one in world.gateways.values()]}
    with Prometheus(program("prometheus"), tmp_path_factory.mktemp("prometheus"), targets) as made:
        yield made


def test_what_has_come_of_a_relayed_request_is_in_the_memory_of_relays(world: World) -> None:
    one, size = world.gateways[1001], 100_000
    began, own = one.metric("relay_memory_bytes"), one.metric("produce_memory_bytes")
    frame = request_frame(KafkaApi.PRODUCE, 9, 1, "relayed", bytes(2 * size))
    with socket.create_connection(("127.0.0.1", one.relay_ports[1]), WAIT_S) as client:
        client.sendall(frame[:size])
        wait_until(lambda: one.metric("relay_memory_bytes") > began + size // 2, "the bytes to be counted")
        assert one.metric("produce_memory_bytes") == own
        assert one.metric("relay_memory_limit_bytes") > size
        assert one.metric("relay_paused") == 0
    wait_until(lambda: one.metric("relay_memory_bytes") == began, "the memory to be free again")


def applied(expr: str) -> str:
    """An expression of the board with every choice at "All"."""
    return expr.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m")


def without_data(prometheus: Prometheus, expressions: Mapping[str, str]) -> list[str]:
    return [name for name, expr in expressions.items() if all(math.isnan(sample.value) for sample in prometheus.query(expr))]


def test_every_panel_and_every_alert_of_gateways_has_data(world: World, prometheus: Prometheus) -> None:
    one = world.gateways[1001]
    world.create(one, TOPIC, 8, is_diskless=True)
    producer = Producer({"bootstrap.servers": one.address, "linger.ms": 1})
    for number in range(40):
        producer.produce(TOPIC, b"x" * 100, partition=number % 8)
    assert producer.flush(60) == 0
    for gateway in world.gateways.values():  # their caches are empty then: the first reader has the store read
        assert gateway.terminate() == 0
        gateway.start()
        gateway.wait_ready()
    wait_until(
        lambda: [one.value for one in prometheus.query("count(diskless_gateway_fetch_requests_total == 0)")] == [2], "a look at both"
    )
    consumer = Consumer({"bootstrap.servers": one.address, "group.id": TOPIC, "auto.offset.reset": "earliest"})
    consumer.subscribe([TOPIC])
    too_new = Producer({"bootstrap.servers": one.address})
    panels = {
        f"{panel.title} / {query.legend}": applied(query.expr)
        for section in BOARDS["gateway"].sections
        for panel in section.panels
        for query in panel.queries
        if panel.title not in ONLY_WITH_TLS
    }
    recordings = {rule.record: rule.record for rule in RECORDINGS if "gateway" in rule.record}
    alerts = {f"{alert.name}: {expr}": expr for alert in GROUPS["gateways"] if alert.name not in ONLY_WITH_TLS for expr in alert.looks_at}
    missing = panels | recordings | alerts
    deadline_s = time.monotonic() + WAIT_S
    while missing and time.monotonic() < deadline_s:
        for number in range(40):
            producer.produce(TOPIC, b"x" * 100, partition=number % 8)
        too_new.produce(TOPIC, b"x", timestamp=int(time.time() * 1000) + 10 * 86_400_000)
        assert producer.flush(60) == 0
        too_new.flush(60)
        consumer.consume(40, 2)
        missing = {name: missing[name] for name in without_data(prometheus, missing)}
    consumer.close()
    assert list(missing) == []
    for alert in GROUPS["gateways"]:
        prometheus.query(alert.expr)
    assert prometheus.firing() == set()
