"""Gateways are one cluster: they know each other, answer alike, miss who dies, refuse ids that are taken; brokers come and go."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from cli.dev.gateway import GatewayProcess
from cli.dev.kafka import BrokerRuntime
from integration_tests.gateway.world import World
from integration_tests.waiting import WAIT_S, wait_until

SESSION_S = 6.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, broker_runtime: BrokerRuntime) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("gateways"), broker_runtime, brokers=3) as made:
        yield made


def seen(gateway: GatewayProcess, **properties: str) -> tuple[dict[int, tuple[str, int]], dict[str, dict[int, int]]]:
    """Return the nodes and the leaders that a client of one gateway sees."""
    found: Any = World.admin(gateway, **properties).list_topics(timeout=30)
    nodes = {node_id: (one.host, one.port) for node_id, one in sorted(found.brokers.items())}
    leaders = {name: {number: row.leader for number, row in one.partitions.items()} for name, one in found.topics.items()}
    return nodes, leaders


def refusal(world: World, node_id: int, **properties: str) -> str:
    """Start a gateway that must not run; return its log."""
    made = world.make(node_id, **properties)
    made.start()
    assert made.process is not None
    assert made.process.wait(WAIT_S) == 1
    return made.log_text()


def test_gateways_give_equal_answers_to_clients_of_a_zone_and_of_none(world: World) -> None:
    [first], [second] = world.start(1001, gateway_rack="a"), world.start(1002, gateway_rack="b")
    world.create(first, "equal-diskless", 24, is_diskless=True)
    world.create(first, "equal-classic", 6, is_diskless=False)
    wait_until(lambda: "equal-diskless" in seen(second)[1], "the topic at the other gateway")
    for client_id, leading in (("unmarked", {1001, 1002}), ("app,diskless_az=nowhere", {1001, 1002}), ("app,diskless_az=b", {1002})):
        wait_until(lambda one=client_id: seen(first, client_id=one) == seen(second, client_id=one), "equal answers")  # type: ignore[misc]
        assert set(seen(first, client_id=client_id)[1]["equal-diskless"].values()) == leading
    nodes, leaders = seen(first)
    assert set(nodes) == {1, 2, 3, 1001, 1002}
    assert set(leaders["equal-classic"].values()) == {1, 2, 3}
    ports = {f"127.0.0.1:{port}" for one in (first, second) for port in one.relay_ports}
    assert {f"{host}:{port}" for node_id, (host, port) in nodes.items() if node_id <= 3} <= ports
    assert all(host == "127.0.0.1" for host, _ in nodes.values())


def test_an_id_that_is_taken_is_refused_at_the_start(world: World) -> None:
    assert "gateway.node.id=2 is that of a broker" in refusal(world, 2)
    began = time.monotonic()
    log = refusal(world, 1001)
    assert f"gateway.node.id=1001 is that of the gateway at PLAINTEXT://{world.gateways[1001].address}, which is alive" in log
    assert time.monotonic() - began < 4 * SESSION_S
    assert world.known(world.gateways[1002]) == [1001, 1002]


def test_a_gateway_that_is_killed_is_missed_after_its_session_and_comes_back_at_once(world: World) -> None:
    first, second = world.gateways[1001], world.gateways[1002]
    first.kill()
    killed_at = time.monotonic()
    wait_until(lambda: world.known(second) == [1002], "the killed gateway to be missed")
    assert time.monotonic() - killed_at < SESSION_S + 8
    nodes, leaders = seen(second)
    assert set(nodes) == {1, 2, 3, 1002}
    assert set(leaders["equal-diskless"].values()) == {1002}
    first.start()
    first.wait_ready()
    wait_until(lambda: world.known(second) == [1001, 1002], "the gateway to be back")

    def replaces_itself() -> bool:
        """A former self that is still a member is no double, and nobody waits for its session; a slow start may outlast that."""
        first.kill()
        first.start()
        first.wait_ready()
        return "former self leaves the group" in first.log_text()

    wait_until(replaces_itself, "a start within the session of the former self")


def test_a_gateway_that_stops_is_missed_before_it_is_gone(world: World) -> None:
    first, second = world.gateways[1001], world.gateways[1002]
    wait_until(lambda: world.known(second) == [1001, 1002], "both gateways")
    producer = Producer({"bootstrap.servers": f"{first.address},{second.address}", "enable.idempotence": True, "linger.ms": 5})
    errors: list[KafkaError] = []
    stopped = False
    for number in range(400):
        producer.produce("equal-diskless", str(number), on_delivery=lambda error, _: errors.append(error) if error is not None else None)
        producer.poll(0.01)
        if number == 100:
            first.request_stop()
        if not stopped and number > 100 and world.known(second) == [1002]:
            stopped = True
            assert first.process is not None
            assert first.process.is_running()
    assert producer.flush(60) == 0
    assert errors == []
    assert stopped
    assert first.wait_ended(WAIT_S)
    assert first.process is not None
    assert first.process.exit_status() == 0
    consumer = Consumer({"bootstrap.servers": second.address, "group.id": "stopped", "auto.offset.reset": "earliest"})
    consumer.subscribe(["equal-diskless"])
    values: list[bytes | None] = []

    def all_are_read() -> bool:
        values.extend(one.value() for one in consumer.consume(400, 0.5))
        return len(values) >= 400

    wait_until(all_are_read, "all records")
    assert Counter(values) == Counter(str(number).encode() for number in range(400))
    consumer.close()
    first.start()
    first.wait_ready()


def test_brokers_come_and_go_and_keep_their_relay_ports(world: World) -> None:
    first, second = world.gateways[1001], world.gateways[1002]
    wait_until(lambda: set(seen(second)[0]) == {1, 2, 3, 1001, 1002}, "all nodes")
    before = seen(second)[0]
    world.kafka.kill(3)
    wait_until(lambda: 3 not in seen(second)[0] and 3 not in seen(first)[0], "the killed broker to be missed")
    third = world.start(1003)[0]
    # Its first answer may come from a broker that still lists the killed one.
    wait_until(lambda: set(seen(third)[0]) == {1, 2, 1001, 1002, 1003}, "the killed broker to be missed by the new gateway")
    wait_until(lambda: third.metric("brokers_relayed") == 2, "two relays")
    world.kafka.restart(3)
    wait_until(lambda: all(3 in seen(one)[0] for one in (first, second, third)), "the broker to be back")
    wait_until(lambda: third.metric("brokers_relayed") == 3, "three relays")
    after = seen(third)[0]
    assert after[3][1] in {one.relay_ports[3] for one in (first, second, third)}
    assert {one.relay_ports[3] for one in (first, second)} >= {before[3][1]}
    assert third.terminate() == 0
