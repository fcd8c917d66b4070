"""What diskless topics do not have is refused with the reason, in every version; what has nothing to do with them passes unread."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32

from coordinator.protocol.codec import decode
from gateway.kafka_apis import KafkaApi, made
from gateway.topics.catalogue import TopicCatalogue
from gateway.topics.refusing import NO_SHARING, Refusals
from gateway.topics.shadows import Shadows
from tests.gateway.topics.fakes import FakeBroker, FakeCoordinators, incoming, listing, session


async def refusals(*, is_joined: bool = True) -> Refusals:
    coordinators = FakeCoordinators()
    coordinators.put(listing("diskless", b"a" * 16))
    catalogue = TopicCatalogue(coordinators)
    await catalogue.refreshed()
    broker = FakeBroker(topics={"diskless": (b"a" * 16, 3, "0") if is_joined else (b"z" * 16, 3, "1000")})
    return Refusals(Shadows(broker, catalogue), catalogue)


def transaction(version: int, *names: str) -> Any:
    module = KafkaApi.ADD_PARTITIONS_TO_TXN.request_parts(version)
    topics = tuple(module.AddPartitionsToTxnTopic(name=TopicName(name), partitions=(i32(0), i32(1))) for name in names)
    if version < 4:
        return module.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t", v3_and_below_producer_id=1, v3_and_below_producer_epoch=i16(0), v3_and_below_topics=topics
        )
    one = module.AddPartitionsToTxnTransaction(transactional_id="t", producer_id=1, producer_epoch=i16(0), verify_only=False, topics=topics)
    return module.AddPartitionsToTxnRequest(transactions=(one,))


@pytest.mark.parametrize("version", range(6))
async def test_no_partition_of_a_diskless_topic_gets_into_a_transaction(version: int) -> None:
    client = session()
    body = await (await refusals()).add_partitions(
        client, incoming(KafkaApi.ADD_PARTITIONS_TO_TXN, transaction(version, "classic", "diskless"))
    )
    answer = decode(KafkaApi.ADD_PARTITIONS_TO_TXN.answer_type(version), body)
    topics = answer.results_by_topic_v3_and_below if version < 4 else answer.results_by_transaction[0].topic_results
    assert {str(one.name): {each.partition_error_code for each in one.results_by_partition} for one in topics} == {
        "classic": {ErrorCode.operation_not_attempted},
        "diskless": {ErrorCode.policy_violation},
    }
    assert not client.upstream.forwarded


@pytest.mark.parametrize("version", range(6))
async def test_transactions_of_classic_topics_pass(version: int) -> None:
    client = session()
    asked = incoming(KafkaApi.ADD_PARTITIONS_TO_TXN, transaction(version, "classic", "other"))
    await (await refusals()).add_partitions(client, asked)
    assert client.upstream.forwarded == [asked.data]


async def test_a_classic_topic_with_the_name_of_a_diskless_one_passes() -> None:
    client = session()
    asked = incoming(KafkaApi.ADD_PARTITIONS_TO_TXN, transaction(3, "diskless"))
    await (await refusals(is_joined=False)).add_partitions(client, asked)
    assert client.upstream.forwarded == [asked.data]


async def test_a_share_group_of_a_diskless_topic_is_refused_with_the_reason() -> None:
    module = KafkaApi.SHARE_GROUP_HEARTBEAT.request_parts(1)

    def beat(*names: str) -> Any:
        asked = module.ShareGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=i32(0),
            rack_id=None,
            subscribed_topic_names=tuple(map(TopicName, names)) if names else None,
        )
        return incoming(KafkaApi.SHARE_GROUP_HEARTBEAT, asked)

    client = session()
    answer = decode(
        KafkaApi.SHARE_GROUP_HEARTBEAT.answer_type(1), await (await refusals()).share_heartbeat(client, beat("classic", "diskless"))
    )
    assert answer.error_code is ErrorCode.invalid_request
    assert answer.error_message == f"topics diskless are diskless: {NO_SHARING}"
    for passes in (beat("classic"), beat()):
        await (await refusals()).share_heartbeat(client, passes)
        assert client.upstream.forwarded[-1] == passes.data


@pytest.mark.parametrize("version", [1, 2])
async def test_the_own_node_shares_nothing(version: int) -> None:
    room = await refusals()
    fields = {name: i32(0) for name in ("share_session_epoch", "min_bytes", "max_bytes", "max_records", "batch_size")}
    for api, work in ((KafkaApi.SHARE_FETCH, room.share_fetch), (KafkaApi.SHARE_ACKNOWLEDGE, room.share_acknowledge)):
        values: dict[str, Any] = {**fields, "group_id": "g", "member_id": "m", "max_wait": timedelta(0), "topics": ()}
        asked = made(api.request_type(version), **values, forgotten_topics_data=())
        answer = decode(api.answer_type(version), await work(session(), incoming(api, asked)))
        assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_request, NO_SHARING)


async def test_the_own_node_has_no_disks_and_no_producers() -> None:
    room = await refusals()
    for version in range(1, 6):
        module = KafkaApi.DESCRIBE_LOG_DIRS.request_parts(version)
        body = await room.describe_log_dirs(session(), incoming(KafkaApi.DESCRIBE_LOG_DIRS, module.DescribeLogDirsRequest(topics=None)))
        [store] = decode(KafkaApi.DESCRIBE_LOG_DIRS.answer_type(version), body).results
        assert "diskless files list" in store.log_dir
    module = KafkaApi.DESCRIBE_PRODUCERS.request_parts(0)
    asked = module.DescribeProducersRequest(topics=(module.TopicRequest(name=TopicName("diskless"), partition_indexes=(i32(3),)),))
    answer = decode(
        KafkaApi.DESCRIBE_PRODUCERS.answer_type(0), await room.describe_producers(session(), incoming(KafkaApi.DESCRIBE_PRODUCERS, asked))
    )
    [[row]] = [one.partitions for one in answer.topics]
    assert (row.partition_index, row.error_code) == (3, ErrorCode.invalid_request)
    assert "coordinators" in row.error_message
