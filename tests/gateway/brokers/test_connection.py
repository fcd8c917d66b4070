"""A connection to some broker goes to one that can be reached, and says why when none can."""

from __future__ import annotations

import socket
from functools import partial

import pytest

from coordinator.adapters.kafka.link import BrokerLink, BrokerLost, FindPlace
from coordinator.protocol.framing import reply_frame, request_frame
from coordinator.runtime.ports import KafkaBroker
from coordinator.security.client_security import ClientSecurity
from gateway.brokers.cluster import RealCluster
from tests.server.lines import KEY, Echo, serving

HOST = "127.0.0.1"
QUESTION = request_frame(KEY, 0, 1, "client", b"hello", flexible=True)[4:]
ANSWER = reply_frame(1, b"hello")[4:]


def cluster_of(*ports: int) -> RealCluster:
    cluster = RealCluster({}, lambda: None)
    cluster.learn(KafkaBroker(number, "", HOST, port) for number, port in enumerate(ports, 1))
    return cluster


def link(find: FindPlace) -> BrokerLink:
    return BrokerLink(find, ClientSecurity({}), "gateway")


def free_port() -> int:
    with socket.socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


async def test_a_broker_that_cannot_be_reached_is_left_for_another() -> None:
    async with serving(Echo()) as (_, port):
        cluster = cluster_of(free_port(), free_port(), port)
        for _ in range(20):  # the first broker is drawn
            some = link(cluster.any_place)
            assert await some.forward(QUESTION) == ANSWER
            assert some.place == (HOST, port)
            some.close()


async def test_when_no_broker_can_be_reached_each_is_named() -> None:
    ports = free_port(), free_port()
    with pytest.raises(BrokerLost) as lost:
        await link(cluster_of(*ports).any_place).forward(QUESTION)
    for port in ports:
        assert f"broker {HOST}:{port} cannot be reached" in str(lost.value)
    with pytest.raises(BrokerLost, match="no broker of the cluster is known yet"):
        await link(cluster_of().any_place).forward(QUESTION)


async def test_a_relayed_broker_is_no_other_one() -> None:
    async with serving(Echo()) as (_, port):
        cluster = cluster_of(free_port(), port)
        with pytest.raises(BrokerLost, match="broker 1 is not in service"):
            await link(partial(cluster.place, 1)).forward(QUESTION)
        relayed = link(partial(cluster.place, 2))
        assert await relayed.forward(QUESTION) == ANSWER
        relayed.close()
