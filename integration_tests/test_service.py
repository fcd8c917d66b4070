"""The spine end to end: processes take leadership, serve through the wire, and share the partitions."""

from __future__ import annotations

import asyncio
import os

from coordinator.client.routing.connection import ClientConnection
from coordinator.protocol.messages import CreatablePartitions, CreatePartitionsRequest, CreatePartitionsResponse
from integration_tests.service import Service


def test_two_nodes_share_the_partitions_and_create_a_topic(service: Service) -> None:
    service.start(2)

    async def create() -> CreatePartitionsResponse:
        for address in service.addresses:
            host, _, port = address.rpartition(":")
            connection = await ClientConnection.connect(host, int(port), client_id="test", timeout_s=30)
            topic = CreatablePartitions(topic_id=os.urandom(16), name="orders", num_partitions=20)
            response = await connection.call(CreatePartitionsRequest(topics=(topic,), timeout_ms=10_000), 30)
            await connection.close()
            assert isinstance(response, CreatePartitionsResponse)
            if response.topics[0].error_code != 16:
                return response
        raise AssertionError("nobody leads the directory")

    response = asyncio.run(create())
    assert response.topics[0].error_code == 0, response.topics[0].error_message
