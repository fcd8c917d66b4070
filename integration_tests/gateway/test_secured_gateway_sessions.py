"""Sessions that end: clients that log in anew (KIP-368) go on through a gateway, and others are not served any more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer, ThrottleEvent
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from cli.dev.kafka import BrokerRuntime
from coordinator.adapters.server.throttle import BURST_S
from gateway.ports import UpstreamLost
from integration_tests.gateway.secured import SecuredGateway
from integration_tests.secured_kafka import Right
from integration_tests.waiting import WAIT_S, wait_until
from tests.waiting import stays

SESSION_S = 3.0
RATE = 50_000


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredGateway]:
    """A broker whose logins hold for a few seconds, and a gateway with a byte rate."""
    sessions = {"listener.name.login.connections.max.reauth.ms": str(int(SESSION_S * 1000))}
    with SecuredGateway(tmp_path_factory.mktemp("sessions"), broker_runtime, broker=sessions, gateway_produce_byte_rate=str(RATE)) as made:
        made.kafka.allow("alice", [Right(ResourceType.TOPIC, "*", (AclOperation.ALL,))])
        made.kafka.allow("writer", [Right(ResourceType.TOPIC, "*", (AclOperation.WRITE,))])
        yield made


def topic(world: SecuredGateway, name: str) -> str:
    admin = AdminClient(world.client("alice"))
    admin.create_topics([NewTopic(name, 1, 1, config={"diskless.enable": "true"})])[name].result(WAIT_S)
    return name


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", pytest.param("PLAIN", marks=pytest.mark.long)])
def test_a_client_that_logs_in_anew_goes_on_on_its_connections(world: SecuredGateway, mechanism: str) -> None:
    name = topic(world, f"anew-{mechanism.lower()}")
    producer = Producer({**world.client("alice", mechanism), "linger.ms": "0", "client.id": f"anew-{mechanism}"})
    failed: list[object] = []

    def write() -> bool:
        producer.produce(name, value=b"record", on_delivery=lambda error, _message: failed.append(error) if error else None)
        return producer.flush(WAIT_S) == 0

    assert write()
    ended = world.gateway.metric("connections_closed_total")
    logins = world.gateway.metric("requests_total", api="SaslAuthenticate")
    until_s = time.monotonic() + 4 * SESSION_S
    wait_until(lambda: write() and time.monotonic() > until_s, "sessions to pass")
    assert failed == []
    assert world.gateway.metric("requests_total", api="SaslAuthenticate") > logins + 2
    assert world.gateway.metric("connections_closed_total", reason="not_logged_in") == 0
    assert world.gateway.metric("connections_closed_total") == ended, "a client had to connect again"


async def test_who_does_not_log_in_anew_is_not_served(world: SecuredGateway) -> None:
    name = topic(world, "not-anew")
    async with world.wire("alice") as wire:
        assert await wire.produce(name, b"first") == 0
        refused = world.gateway.metric("connections_closed_total", reason="not_logged_in")
        await stays(lambda: not wire.connection.is_lost, "the connection", SESSION_S + 1)
        with pytest.raises(UpstreamLost):
            await wire.produce(name, b"second")
    assert world.gateway.metric("connections_closed_total", reason="not_logged_in") == refused + 1


def test_a_producer_above_its_byte_rate_waits_and_others_do_not(world: SecuredGateway) -> None:
    name, size, count = topic(world, "rated"), 2 * RATE, 8
    told: list[float] = []

    def throttled(event: ThrottleEvent) -> None:
        told.append(event.throttle_time)

    given: dict[str, Any] = {**world.client("alice"), "throttle_cb": throttled}
    producer = Producer({**given, "linger.ms": "0"})
    began_s = time.monotonic()
    for _ in range(count):
        producer.produce(name, value=bytes(size))
        assert producer.flush(WAIT_S) == 0
    # The burst is free, and the last request is not waited for.
    assert time.monotonic() - began_s > (count - 1) * size / RATE - BURST_S - 1
    wait_until(lambda: bool(producer.poll(0.1) or told), "the throttle time")
    began_s = time.monotonic()
    other = Producer(world.client("writer"))
    other.produce(name, value=b"small")
    assert other.flush(WAIT_S) == 0
    assert time.monotonic() - began_s < BURST_S
