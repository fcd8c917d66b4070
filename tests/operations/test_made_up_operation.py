"""The exercise of CONTRIBUTING.md: a made-up operation, from its JSON definitions to an answer over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from codegen.messages import module_source
from coordinator.adapters.metrics.registry import Metrics
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.client.routing.connection import ClientConnection
from coordinator.core.commands import FoundOffset, ListOffsets, OffsetQuery, WantedTopic
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.declaration import CLUSTER_ACTION, AnsweredBy, Lane, Operation, Translation, declare
from coordinator.operations.table import OPERATIONS, ApiTable
from coordinator.protocol import messages
from coordinator.protocol.codec import decode, encode
from coordinator.security.acls import Everything
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import TIMEOUT_MS, in_memory, running
from tests.server.lines import REMAINS_S
from tests.server.lines import serving as listening

ORDERS, NOWHERE = bytes([1]) * 16, bytes([2]) * 16


def field(name: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": "0+", "about": f"The {name}.", **more}


TOPIC_PARTITION = [field("TopicId", "uuid"), field("PartitionIndex", "int32")]
REQUEST = {
    "apiKey": 10_999,
    "type": "request",
    "name": "DisklessCountRecordsRequest",
    "fields": [field("Partitions", "[]DisklessCountedPartition", fields=TOPIC_PARTITION), field("TimeoutMs", "int32", default="60000")],
}
RESPONSE = {
    "apiKey": 10_999,
    "type": "response",
    "name": "DisklessCountRecordsResponse",
    "fields": [field("Counts", "[]DisklessRecordCount", fields=[field("ErrorCode", "int16"), field("Records", "int64")])],
}
MADE: dict[str, Any] = {"__name__": messages.__name__}
exec(compile(module_source([REQUEST, RESPONSE]), "made_up.py", "exec", dont_inherit=True), MADE)


def queries(request: Any) -> list[OffsetQuery]:
    return [OffsetQuery(one.topic_id, one.partition_index, -1) for one in request.partitions]


def response(_: Any, found: Sequence[FoundOffset]) -> Any:
    counts = [MADE["RecordCount"](error_code=one.outcome.error, records=one.offset) for one in found]
    return MADE["CountRecordsResponse"](counts=tuple(counts))


COUNT_RECORDS: Operation = declare(
    MADE["CountRecordsRequest"],
    MADE["CountRecordsResponse"],
    answered_by=AnsweredBy.PARTITION,
    acl=CLUSTER_ACTION,
    translation=Translation(elements=queries, refused=FoundOffset, response=response, command=lambda asked: ListOffsets(queries=asked)),
)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Dispatcher, ClientConnection]]:
    operations = (*OPERATIONS, COUNT_RECORDS)
    async with running(in_memory(partitions=2), MemoryStateStores()) as started:
        await started.leads()
        [outcome] = await started.node.directory.create_topics([WantedTopic(topic_id=ORDERS, name="orders", num_partitions=4)], TIMEOUT_MS)
        assert outcome.error is ErrorCode.NONE
        dispatcher = Dispatcher(started.node, Metrics(), Everything(), operations)
        async with listening(dispatcher, table=ApiTable(operations)) as (_, port):
            connection = await ClientConnection.connect("127.0.0.1", port, client_id="made-up", timeout_s=REMAINS_S)
            try:
                yield dispatcher, connection
            finally:
                await connection.close()
                await dispatcher.close()


async def counts(connection: ClientConnection, *partitions: tuple[bytes, int], timeout_ms: int = TIMEOUT_MS) -> list[tuple[int, int]]:
    asked = tuple(MADE["CountedPartition"](topic_id=topic_id, partition_index=index) for topic_id, index in partitions)
    request = MADE["CountRecordsRequest"](partitions=asked, timeout_ms=timeout_ms)
    body = await connection.request(COUNT_RECORDS.key, 0, encode(request), REMAINS_S)
    answer = decode(MADE["CountRecordsResponse"], body)
    return [(one.error_code, one.records) for one in answer.counts]


def test_the_declaration_takes_name_and_number_from_the_messages() -> None:
    assert (COUNT_RECORDS.name, COUNT_RECORDS.key, COUNT_RECORDS.kip_key, COUNT_RECORDS.lane) == ("COUNT_RECORDS", 10_999, None, Lane.READ)


async def test_a_made_up_operation_is_answered_over_a_socket() -> None:
    async with serving() as (dispatcher, connection):
        # The partitions belong to two coordinators: the answers are put together in the order of the request.
        every = [(ORDERS, 3), (ORDERS, 0), (ORDERS, 2), (ORDERS, 1)]
        assert await counts(connection, *every) == [(0, 0)] * 4
        unknown = [(int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), -1), (0, 0), (int(ErrorCode.UNKNOWN_TOPIC_ID), -1)]
        assert await counts(connection, (ORDERS, 9), (ORDERS, 0), (NOWHERE, 0)) == unknown
        assert await counts(connection, (ORDERS, 0), timeout_ms=0) == [(int(ErrorCode.INVALID_REQUEST), -1)]
        assert dispatcher.answered == {
            ("COUNT_RECORDS", 0): 1,
            ("COUNT_RECORDS", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): 1,
            ("COUNT_RECORDS", ErrorCode.INVALID_REQUEST): 1,
        }


async def test_a_made_up_operation_is_listed_by_the_table_that_has_it_alone() -> None:
    assert (10_999, 0, 0) in ApiTable((*OPERATIONS, COUNT_RECORDS)).ranges()
    assert ApiTable().find(10_999) is None
