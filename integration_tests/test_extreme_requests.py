"""Every request with the extremes of all its fields, from a node that has logged in: each is answered, and harms nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from cli.dev.kafka import Kafka
from coordinator.client.routing.connection import ClientConnection
from coordinator.operations.declaration import Operation
from coordinator.operations.table import OPERATIONS
from coordinator.protocol import messages as m
from coordinator.protocol.api_keys import ApiKey
from integration_tests.hostile import extreme_messages
from integration_tests.service import Service
from integration_tests.test_internal_requests import agreed_connection
from integration_tests.wire import connected

ANSWER_S = 30.0
STRANGER = 9
"""The node that asks: the service has none of this id."""
ASKED = [one for one in OPERATIONS if one.key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)]
"""Those between nodes and all others, but for the login, which the connection has behind it."""


@pytest.fixture(scope="module")
def service(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("extremes"), partitions=2) as made:
        yield made.start(1)


async def usual_values(connection: ClientConnection, service: Service) -> dict[str, object]:
    """Values that lead to the part of the service that a request is about: a snapshot that the node has is among them."""
    taken = await connection.call(m.TakeSnapshotRequest(coordinator_ids=(0,), timeout_ms=60_000), ANSWER_S)
    assert isinstance(taken, m.TakeSnapshotResponse)
    described = await connection.call(m.DescribeSnapshotsRequest(coordinator_ids=(0,)), ANSWER_S)
    assert isinstance(described, m.DescribeSnapshotsResponse)
    [coordinator] = described.coordinators
    newest = coordinator.snapshots[-1]
    return {
        "cluster_id": described.cluster_id, "name": service.topic, "topic": service.topic, "node_id": STRANGER, "broker_id": 1,
        "timeout_ms": 1_000, "max_bytes": 1_000, "end_offset": newest.end_offset, "epoch": newest.epoch,
    }  # fmt: skip


async def ask_everything(connection: ClientConnection, operation: Operation, usual: dict[str, object]) -> int:
    """Ask every extreme question of an operation; returns how many were answered."""
    answered = 0
    for version in operation.versions.values():
        for request in extreme_messages(version.request_type, usual):
            try:
                answer = await connection.call(request, ANSWER_S)
            except Exception as error:
                raise AssertionError(f"{error!r} instead of an answer to {str(request)[:2000]}") from error
            assert type(answer) is version.response_type
            answered += 1
    return answered


@pytest.mark.timeout(600)
@pytest.mark.parametrize("operation", ASKED, ids=lambda one: one.name)
async def test_every_extreme_is_answered_and_the_connection_stays_open(kafka: Kafka, service: Service, operation: Operation) -> None:
    node = service.nodes[1]
    connection, _ = await agreed_connection(kafka, service, node.address)
    try:
        usual = await usual_values(connection, service)
        assert await ask_everything(connection, operation, usual) > len(operation.versions)
    finally:
        await connection.close()
    async with connected(node.address) as wire:
        topic = await wire.new_topic()
        assert await wire.ends(topic) == (0, 0)
    await asyncio.to_thread(node.wait_ready)
    log = node.log_text()
    assert "Traceback" not in log, log[log.index("Traceback") - 2_000 :][:6_000]


def test_nothing_of_it_is_trouble_for_a_restart(service: Service) -> None:
    """Last in this module: the directory has what the others have left in it."""
    node = service.nodes[1]
    assert node.terminate() == 0
    node.start()
    node.wait_ready()
    assert "Traceback" not in node.log_text()
