"""Requests between nodes, from others: refused on plain text too, and a node with another secret is none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from cli.dev.kafka import Kafka
from coordinator.adapters.kafka.agreed_secret import AgreedSecret
from coordinator.client.routing.connection import ClientConnection, ConnectionLost
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol import messages as m
from coordinator.protocol.entity import blank
from coordinator.security.node_login import NodeLogin
from coordinator.security.node_secret import NodeSecret
from integration_tests.service import Service
from integration_tests.waiting import LOOK_EVERY_MAX_S, wait_until
from integration_tests.wire import TIMEOUT_S, connected

QUESTION = m.DescribeNodeRequest(node_id=1, timeout_ms=1_000)


@pytest.fixture(scope="module")
def service(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two nodes that agree on a secret through Kafka, and a third one with a secret of its own."""
    folder = tmp_path_factory.mktemp("internal")
    (folder / "secret").write_text("another secret, of another service".replace(" ", "-"))
    with Service(kafka.bootstrap, folder, partitions=2) as made:
        made.start(2)
        yield made


def as_node(secret: str) -> NodeLogin:
    nodes = NodeSecret()
    nodes.learn(secret)
    return NodeLogin(nodes)


async def node_connection(address: str, secret: str) -> ClientConnection:
    host, _, port = address.rpartition(":")
    return await ClientConnection.connect(host, int(port), client_id="test", timeout_s=TIMEOUT_S, security=as_node(secret))


async def agreed_connection(kafka: Kafka, service: Service, address: str) -> tuple[ClientConnection, str]:
    """A connection of a node that takes part in the agreement, and the secret; it tries again, as nodes do.

    Who asks while a service begins may be the one who writes the secret; a node that wrote one at the same time knows it a look later.
    """
    group, topic = service.properties["group.id"], service.topic
    agreed = AgreedSecret(bootstrap_servers=kafka.bootstrap, client_id="c", kafka_properties={}, group_id=group, topic=topic)
    end_s = time.monotonic() + TIMEOUT_S
    while True:
        secret = await agreed.agree(None)
        try:
            return await node_connection(address, secret), secret
        except ConnectionLost as error:
            if not error.is_refused or time.monotonic() > end_s:
                raise
        await asyncio.sleep(LOOK_EVERY_MAX_S)


async def test_an_outsider_gets_nothing_of_what_nodes_ask_each_other(service: Service) -> None:
    directory = next(node for node in service.nodes.values() if 0 in list(node.readiness()[1]["leading"]))  # type: ignore[call-overload]
    async with connected(directory.address) as wire:
        removal = blank(m.RemoveTopicsRequest, coordinator_id=0, timeout_ms=1_000)
        for request in (QUESTION, blank(m.ReportContradictionRequest, reason="none"), removal, blank(m.RegisterNodeRequest, node_id=9)):
            answer = await wire.call(request)
            if hasattr(answer, "error_code"):
                assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        topic = await wire.new_topic()  # the connection goes on for what clients do
        assert await wire.ends(topic) == (0, 0)
    refusals = [line for line in directory.log_text().splitlines() if "not authorized" in line]
    assert len(refusals) == 4
    assert all("needs='a node'" in line for line in refusals)


async def test_who_knows_what_stands_in_kafka_is_a_node_and_a_wrong_secret_is_refused(kafka: Kafka, service: Service) -> None:
    for node in service.nodes.values():
        connection, secret = await agreed_connection(kafka, service, node.address)
        answer = await connection.call(QUESTION, TIMEOUT_S)
        assert isinstance(answer, m.DescribeNodeResponse)
        assert answer.error_code == ErrorCode.NONE
        await connection.close()
        with pytest.raises(ConnectionLost, match="the user name or the password is wrong"):
            await node_connection(node.address, secret[::-1])
        assert secret not in node.log_text()


def test_a_node_with_another_secret_says_so_and_so_do_the_others(service: Service) -> None:
    """Last in this module: the stranger takes part in the group, and leads what nobody can be told of."""
    stranger = service.add(3, internal_secret_file=str(service.folder / "secret"))
    stranger.start()
    wait_until(lambda: "another node refuses the login of this one" in stranger.log_text(), "the stranger to say that it is not let in")
    others = [service.nodes[1], service.nodes[2]]
    wait_until(lambda: any("by SCRAM-SHA-256: wrong password" in one.log_text() for one in others), "a node to say so")
