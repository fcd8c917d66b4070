"""Principals with rights on topics alone: they read these topics, are refused others, and do not learn which others there are."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import kio.schema.find_coordinator.v6 as find_coordinator
import kio.schema.metadata.v12 as metadata
import pytest
from kio.static.primitive import i8

from cli.dev.ports import lease_ports
from coordinator.adapters.server.contract import Peer
from coordinator.adapters.server.server import Server
from coordinator.app.requests.dispatch import Dispatcher
from coordinator.client.client import DisklessClient
from coordinator.client.errors import NotAuthorized
from coordinator.client.model import FetchFrom, PartitionId
from coordinator.core.commands import WantedTopic
from coordinator.kafka.acls import AclOperation, TopicPattern
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import ZERO_TOPIC_ID, topic_id_text
from coordinator.kafka.timestamps import LATEST
from coordinator.operations.discovery import COORDINATOR_KEY_TYPE
from coordinator.operations.table import ApiTable
from coordinator.protocol import messages as m
from coordinator.protocol.entity import blank
from coordinator.security.acls import AclTable, Binding
from coordinator.security.principal import Principal
from records.model import Endpoint
from tests.app.test_long_polls import Poll, Writer
from tests.app.topics import NOWHERE, ONE, SPREAD, ask, dispatching
from tests.runtime.nodes import TIMEOUT_MS
from tests.waiting import stays, until

READER, LOOKER, EVERY, GATEWAY, NOBODY = map(Principal, ("reader", "looker", "every", "gateway", "nobody"))
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
NO_RIGHT, NOT_THERE, NO_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_CLUSTER, NOT_KNOWN, OK = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE
BINDINGS = (
    Binding("User:reader", READ, topics=TopicPattern("on", is_prefix=True)),
    Binding("User:looker", DESCRIBE, topics=TopicPattern("one")),
    Binding("User:every", READ, topics=TopicPattern("*")),
    Binding("User:every", READ, False, topics=TopicPattern("spread")),
    Binding("User:gateway", AclOperation.CLUSTER_ACTION),
)


def rules_of(*bindings: Binding) -> AclTable:
    return AclTable(bindings, super_users=(), remedy="kafka-acls --add {resource} --allow-principal {principal}")


def peer(principal: Principal, connection_id: int = 1) -> Peer:
    return Peer(connection_id, "SECURE", "10.0.0.1:4711", principal)


def offsets(*topic_ids: bytes, timeout_ms: int = TIMEOUT_MS) -> m.ListOffsetsRequest:
    partition = m.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    topics = tuple(m.ListOffsetsTopic(topic_id=topic_id, partitions=(partition, partition)) for topic_id in topic_ids)
    return blank(m.ListOffsetsRequest, topics=topics, timeout_ms=timeout_ms)


def named(*names: str) -> m.DescribeTopicsRequest:
    return m.DescribeTopicsRequest(
        topics=tuple(m.DescribeTopicsTopic(topic_id=ZERO_TOPIC_ID, name=name) for name in names), timeout_ms=TIMEOUT_MS
    )


async def listed(dispatcher: Dispatcher, who: Principal, *topic_ids: bytes) -> list[int]:
    answer = await ask(dispatcher, offsets(*topic_ids), peer(who))
    assert [topic.topic_id for topic in answer.topics] == list(topic_ids)
    codes = [{one.error_code for one in topic.partitions} for topic in answer.topics]
    assert all(len(topic.partitions) == 2 for topic in answer.topics)
    return [code for [code] in codes]


@pytest.mark.parametrize(
    ("who", "codes"),
    [
        (READER, [OK, NO_RIGHT, NO_RIGHT]),
        (LOOKER, [NO_RIGHT, NO_RIGHT, NO_RIGHT]),
        (EVERY, [OK, NO_RIGHT, NOT_THERE]),
        (GATEWAY, [OK, OK, NOT_THERE]),
        (NOBODY, [NOT_CLUSTER] * 3),
    ],
    ids=lambda one: one.name if isinstance(one, Principal) else "",
)
async def test_each_topic_of_a_request_is_judged_by_itself(who: Principal, codes: Sequence[int]) -> None:
    async with dispatching(rules=rules_of(*BINDINGS)) as (started, dispatcher):
        await Writer(started).write(0, topic_id=ONE)
        assert await listed(dispatcher, who, ONE, SPREAD, NOWHERE) == codes
        poll = Poll(dispatcher, (ONE, [(0, 0)]), (SPREAD, [(0, 0), (1, 0)]), (NOWHERE, [(0, 0)]), principal=who)
        found = [([0] if codes[0] == OK else []), [], [], []]
        assert await poll.answer() == list(zip([codes[0], codes[1], *codes[1:]], found, strict=True))
        assert dispatcher.polls_waiting == 0


async def test_a_topic_that_is_deleted_is_told_to_its_readers_alone() -> None:
    async with dispatching(rules=rules_of(*BINDINGS)) as (started, dispatcher):
        outcomes = await started.node.directory.delete_topics([ONE, SPREAD], TIMEOUT_MS)
        assert [one.error for one in outcomes] == [OK, OK]
        assert await listed(dispatcher, READER, ONE, SPREAD) == [NOT_THERE, NO_RIGHT]


async def test_a_topic_id_is_not_called_forbidden_while_the_directory_cannot_be_read_to_its_end() -> None:
    async with dispatching(rules=rules_of(*BINDINGS)) as (started, dispatcher):
        started.kafka.is_available = False
        answer = await ask(dispatcher, offsets(SPREAD, NOWHERE, timeout_ms=300), peer(READER))
        started.kafka.is_available = True
        assert [topic.partitions[0].error_code for topic in answer.topics] == [NO_RIGHT, NOT_KNOWN]


async def test_who_sees_some_topics_is_told_that_all_are_not_known_now() -> None:
    async with dispatching(rules=rules_of(*BINDINGS)) as (started, dispatcher):
        started.kafka.is_available = False
        answer = await ask(dispatcher, m.DescribeTopicsRequest(topics=(), timeout_ms=300), peer(READER))
        started.kafka.is_available = True
        assert [(one.error_code, one.name) for one in answer.topics] == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, None)]


async def test_topics_are_described_as_far_as_they_may_be() -> None:
    async with dispatching(rules=rules_of(*BINDINGS)) as (_, dispatcher):
        for who in (READER, LOOKER):
            described = await ask(dispatcher, named("one", "spread", "not there"), peer(who))
            # Whether there is a topic is not told.
            assert [(one.error_code, one.name, len(one.partitions)) for one in described.topics] == [
                (OK, "one", 1),
                (NO_RIGHT, "spread", 0),
                (NO_RIGHT, "not there", 0),
            ]
            by_id = tuple(m.DescribeTopicsTopic(topic_id=topic_id, name="one") for topic_id in (ONE, SPREAD, NOWHERE))
            described = await ask(dispatcher, m.DescribeTopicsRequest(topics=by_id, timeout_ms=TIMEOUT_MS), peer(who))
            assert [one.error_code for one in described.topics] == [OK, NO_RIGHT, NO_RIGHT]
            assert [one.name for one in (await ask(dispatcher, named(), peer(who))).topics] == ["one"]
        described = await ask(dispatcher, named("one", "spread", "not there"), peer(EVERY))
        # As in Kafka, who is denied READ of a topic may describe it.
        assert [one.error_code for one in described.topics] == [OK, OK, NO_TOPIC]
        assert [one.error_code for one in (await ask(dispatcher, named("one"), peer(NOBODY))).topics] == [NOT_CLUSTER]


async def test_a_list_of_topics_is_whole_for_who_sees_some_of_them() -> None:
    async with dispatching(rules=rules_of(*BINDINGS)) as (started, dispatcher):
        everything = await ask(dispatcher, blank(m.ListTopicsRequest, since_offset=-1, timeout_ms=TIMEOUT_MS), peer(GATEWAY))
        assert [one.name for one in everything.topics] == ["one", "spread"]
        more = [WantedTopic(topic_id=bytes([9]) * 16, name="online", num_partitions=1)]
        assert [one.error for one in await started.node.directory.create_topics(more, TIMEOUT_MS)] == [OK]
        since = blank(m.ListTopicsRequest, since_offset=everything.offset, is_current=True, timeout_ms=TIMEOUT_MS)
        changed = await ask(dispatcher, since, peer(GATEWAY))
        assert (changed.is_whole, [one.name for one in changed.topics]) == (False, ["online"])
        mine = await ask(dispatcher, since, peer(READER, 2))
        assert (mine.is_whole, [one.name for one in mine.topics]) == (True, ["one", "online"])


async def test_kafkas_own_requests_tell_nodes_to_readers_and_no_other_topics() -> None:
    def asking(*names: str) -> metadata.MetadataRequest:
        topics = tuple(metadata.request.MetadataRequestTopic(topic_id=None, name=name) for name in names)  # type: ignore[arg-type]
        return metadata.MetadataRequest(topics=topics or None, allow_auto_topic_creation=False, include_topic_authorized_operations=False)

    async with dispatching(rules=rules_of(*BINDINGS)) as (_, dispatcher):
        found = await ask(dispatcher, asking("one", "spread", "not-there"), peer(READER))
        assert len(found.brokers) == 1
        assert [(int(one.error_code.value), len(one.partitions)) for one in found.topics] == [(OK, 1), (NO_RIGHT, 0), (NO_RIGHT, 0)]
        assert [one.name for one in (await ask(dispatcher, asking(), peer(READER))).topics] == ["one"]
        assert (await ask(dispatcher, asking(), peer(NOBODY))).brokers == ()
        keys = ("0", f"{topic_id_text(ONE)}:0", f"{topic_id_text(SPREAD)}:0", f"{topic_id_text(NOWHERE)}:0")
        request = find_coordinator.FindCoordinatorRequest(key_type=i8(COORDINATOR_KEY_TYPE), coordinator_keys=keys)
        led = await ask(dispatcher, request, peer(READER))
        assert [int(one.error_code.value) for one in led.coordinators] == [OK, OK, NO_RIGHT, NO_RIGHT]
        assert [one.node_id for one in led.coordinators[2:]] == [-1, -1]


async def test_a_reader_changes_nothing() -> None:
    deletion = m.DeleteRecordsTopic(topic_id=ONE, partitions=(m.DeleteRecordsPartition(partition_index=0, offset=0),))
    async with dispatching(rules=rules_of(*BINDINGS)) as (_, dispatcher):
        committed = await ask(dispatcher, blank(m.CommitFileRequest, object_key="k", batches=(blank(m.CommitBatch),)), peer(READER))
        assert [one.error_code for one in committed.batches] == [NOT_CLUSTER]
        deleted = await ask(dispatcher, blank(m.DeleteRecordsRequest, topics=(deletion,), timeout_ms=1), peer(READER))
        assert deleted.topics[0].partitions[0].error_code == NOT_CLUSTER


async def test_a_right_that_is_taken_away_ends_the_polls_that_it_allowed() -> None:
    async with dispatching(rules=rules_of(*BINDINGS)) as (started, dispatcher):
        poll = Poll(dispatcher, (ONE, [(0, 0)]), principal=READER)
        await until(lambda: dispatcher.polls_waiting == 1, "the poll to wait")
        await Writer(started).write(0, topic_id=ONE)
        assert await poll.answer() == [(OK, [0])]
        waiting = Poll(dispatcher, (ONE, [(0, 1)]), max_wait_ms=250_000, principal=READER)
        await stays(lambda: not waiting.is_answered, "the poll without an answer", 0.1)
        dispatcher.replace_rules(rules_of(Binding("User:reader", READ, topics=TopicPattern("other"))))
        assert await waiting.answer() == [(OK, [])]
        assert await Poll(dispatcher, (ONE, [(0, 1)]), principal=READER).answer() == [(NO_RIGHT, [])]
        assert dispatcher.polls_waiting == 0


async def test_the_client_reads_what_it_may_and_is_told_at_once_what_it_may_not() -> None:
    [lease] = lease_ports(1)
    endpoints = [Endpoint(listener="test", host="127.0.0.1", port=lease.port)]
    rules = rules_of(Binding("User:ANONYMOUS", READ, topics=TopicPattern("one")))
    async with dispatching(rules=rules, endpoints=endpoints) as (started, dispatcher):
        await Writer(started).write(0, topic_id=ONE)
        server = Server(dispatcher, ApiTable(), listener="test")
        lease.close()
        await server.start("127.0.0.1", endpoints[0].port)
        # Its timeout is longer than the test may take.
        async with DisklessClient(f"127.0.0.1:{endpoints[0].port}", api_timeout_ms=600_000) as client:
            assert [one.name for one in await client.describe_topics()] == ["one"]
            assert [one.name for one in await client.admin.list_topics()] == ["one"]
            mine, other = PartitionId(ONE, 0), PartitionId(SPREAD, 0)
            [end] = await client.list_offsets([(mine, LATEST)])
            assert end.offset == 1
            for topic in ("spread", SPREAD, "not-there", NOWHERE):
                with pytest.raises(NotAuthorized, match="needs DESCRIBE on it"):
                    await client.describe_topic(topic)
            listed = await client.list_offsets([(mine, LATEST), (other, LATEST)])
            found = await client.find_batches([FetchFrom(mine, 0), FetchFrom(other, 0)])
            assert [one.error for one in (*listed, *found)] == [OK, NO_RIGHT, OK, NO_RIGHT]
            assert len(found[0].batches) == 1
            dispatcher.replace_rules(rules_of(Binding("User:ANONYMOUS", READ, topics=TopicPattern("other"))))
            [refused] = await client.find_batches([FetchFrom(mine, 0)])
            assert "this client may not find its batches, which needs" in refused.message
        await server.stop(0)


async def test_who_may_not_is_told_what_it_needs_and_operators_how_to_allow_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "coordinator.access"):
        async with dispatching(rules=rules_of(*BINDINGS)) as (_, dispatcher):
            answer = await ask(dispatcher, offsets(SPREAD), peer(READER))
            described = await ask(dispatcher, named("x' principal=User:root"), peer(READER))
            refused = await ask(dispatcher, offsets(ONE), peer(NOBODY, 2))
    by_id, by_name, whole = (one.getMessage() for one in caplog.records if one.name == "coordinator.access")
    text = answer.topics[0].partitions[0].error_message
    needs = f"LIST_OFFSETS on topic {topic_id_text(SPREAD)}, which needs READ on it; ask an operator to allow it"
    assert text == f"User:reader may not do {needs}"  # without the name, which is not the client's to know
    assert "needs='READ on topic spread'" in by_id
    assert by_id.endswith("remedy=kafka-acls --add --topic spread --allow-principal User:reader")
    assert "on topic NAME, which needs DESCRIBE on it" in described.topics[0].error_message
    assert "root" not in by_name
    needs = "CLUSTER_ACTION on the cluster, or READ on the topic"
    assert f"needs='{needs}'" in whole
    assert (
        refused.topics[0].partitions[0].error_message
        == f"User:nobody may not do LIST_OFFSETS, which needs {needs}; ask an operator to allow it"
    )
