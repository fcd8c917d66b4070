"""A node with two topics, and its dispatcher: what the tests of requests through a dispatcher begin with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from coordinator.adapters.metrics.registry import Metrics
from coordinator.adapters.server.contract import IncomingRequest, Peer
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.table import operation_of
from coordinator.operations.topics import wanted_topics
from coordinator.protocol.codec import Message, decode, encode
from coordinator.protocol.messages import CreatablePartitions, CreatePartitionsRequest
from coordinator.security.acls import Everything, Rules
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running

ONE, SPREAD, NOWHERE = (bytes([number]) * 16 for number in (1, 2, 3))
"""A topic of one partition, one whose partitions several coordinators own, and none."""


REMAINS_S = 60.0


async def ask(dispatcher: Dispatcher, request: Message, peer: Peer) -> Any:
    """The decoded answer to a request of a peer."""
    operation, version = operation_of(type(request))
    answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    head, key = b"head", int(request.__api_key__)
    dispatcher.handle(
        IncomingRequest(operation.key, version, 1, "test", head + encode(request), len(head), key, 0.0, peer), answered.set_result
    )
    body = await asyncio.wait_for(answered, REMAINS_S)
    assert body is not None
    return decode(operation.versions[version].response_type, body)


@asynccontextmanager
async def dispatching(*, partitions: int = 2, rules: Rules | None = None, **config: Any) -> AsyncIterator[tuple[Running, Dispatcher]]:
    """A node that leads so many coordinators, with the topics `ONE` and `SPREAD`; `config` is of the node's."""
    async with running(in_memory(partitions=partitions), MemoryStateStores(), **config) as started:
        await started.leads()
        topics = tuple(
            CreatablePartitions(topic_id=topic_id, name=name, num_partitions=count)
            for topic_id, name, count in ((ONE, "one", 1), (SPREAD, "spread", 4))
        )
        outcomes = await started.node.directory.create_topics(wanted_topics(CreatePartitionsRequest(topics=topics)), TIMEOUT_MS)
        assert [outcome.error for outcome in outcomes] == [ErrorCode.NONE] * 2
        dispatcher = Dispatcher(started.node, Metrics(), rules or Everything())
        try:
            yield started, dispatcher
        finally:
            await dispatcher.close()
