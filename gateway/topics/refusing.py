"""What diskless topics do not have is refused with the reason, never passed over in silence.

Transactions: a marker on a shadow would be written nowhere, so no partition of a diskless topic gets into one. Share groups: their state is
kept by leaders of partitions, which are brokers. Producers of a partition are known to its coordinator alone, and sizes of its log on disks
do not exist.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i64

from coordinator.adapters.server.contract import IncomingRequest
from coordinator.protocol.codec import encode
from gateway.kafka_apis import KafkaApi, made
from gateway.ports import Catalogue, Session
from gateway.topics.shadows import Shadows
from gateway.topics.wire import NOW, relayed

LOG = logging.getLogger(__name__)

NO_SHARING: Final = "share groups cannot read diskless topics, use a consumer group"
NO_PRODUCERS: Final = "the producers of a diskless topic are known to its coordinators alone"
OBJECT_STORE: Final = "object store of diskless topics (sizes: diskless files list)"


class Refusals:
    """Answers requests for what diskless topics do not have. Used on one event loop."""

    def __init__(self, shadows: Shadows, catalogue: Catalogue) -> None:
        self._shadows = shadows
        self._catalogue = catalogue

    async def _ours(self, names: Iterable[Any]) -> list[str]:
        """The diskless topics among those of a request, by their ids. Raises `BrokerLost`."""
        named = {str(name) for name in names if name is not None and self._catalogue.named(str(name)) is not None}
        if not named:
            return []
        found = await self._shadows.sort_out(named)
        return sorted(name for name in named if name in found.diskless or name in found.undecided)

    # ---- on all ports

    async def add_partitions(self, session: Session, request: IncomingRequest) -> bytes:
        """Answer AddPartitionsToTxn: with a partition of a diskless topic nothing is added, and the others are told so, as Kafka does."""
        asked = KafkaApi.ADD_PARTITIONS_TO_TXN.read_request(request)
        transactions = getattr(asked, "transactions", None)
        topics = asked.v3_and_below_topics if transactions is None else [topic for one in transactions for topic in one.topics]
        ours = await self._ours(topic.name for topic in topics)
        if not ours:
            return await relayed(session, request, KafkaApi.ADD_PARTITIONS_TO_TXN)
        LOG.warning("transaction refused client=%s: topics %s are diskless, and those have no transactions", session.client_id, ours)
        module = KafkaApi.ADD_PARTITIONS_TO_TXN.answer_parts(request.api_version)

        def results(topics: Iterable[Any]) -> tuple[Any, ...]:
            return tuple(
                module.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        module.AddPartitionsToTxnPartitionResult(
                            partition_index=partition,
                            # The answer has no text. Clients name partition and code to their application; this code speaks of a policy.
                            partition_error_code=ErrorCode.policy_violation
                            if str(topic.name) in ours
                            else ErrorCode.operation_not_attempted,
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in topics
            )

        if transactions is None:
            answer = made(
                module.AddPartitionsToTxnResponse, throttle_time=NOW, results_by_topic_v3_and_below=results(asked.v3_and_below_topics)
            )
        else:
            by_transaction = tuple(
                module.AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=results(one.topics))
                for one in transactions
            )
            answer = made(
                module.AddPartitionsToTxnResponse, throttle_time=NOW, error_code=ErrorCode.none, results_by_transaction=by_transaction
            )
        return encode(answer)

    async def share_heartbeat(self, session: Session, request: IncomingRequest) -> bytes:
        """Answer ShareGroupHeartbeat: who subscribes a diskless topic does not become a member."""
        asked = KafkaApi.SHARE_GROUP_HEARTBEAT.read_request(request)
        ours = await self._ours(asked.subscribed_topic_names or ())
        if not ours:
            return await relayed(session, request, KafkaApi.SHARE_GROUP_HEARTBEAT)
        text = f"topics {', '.join(ours)} are diskless: {NO_SHARING}"
        return encode(
            made(
                KafkaApi.SHARE_GROUP_HEARTBEAT.answer_type(request.api_version),
                throttle_time=NOW,
                error_code=ErrorCode.invalid_request,
                error_message=text,
                member_id=asked.member_id,
                member_epoch=-1,
                heartbeat_interval=NOW,
                assignment=None,
            )
        )

    # ---- on the gateway's own node, which leads partitions of diskless topics alone

    async def share_fetch(self, _: Session, request: IncomingRequest) -> bytes:
        """Answer ShareFetch."""
        return self._no_sharing(request, KafkaApi.SHARE_FETCH)

    async def share_acknowledge(self, _: Session, request: IncomingRequest) -> bytes:
        """Answer ShareAcknowledge."""
        return self._no_sharing(request, KafkaApi.SHARE_ACKNOWLEDGE)

    def _no_sharing(self, request: IncomingRequest, api: KafkaApi) -> bytes:
        api.read_request(request)
        return encode(
            made(
                api.answer_type(request.api_version),
                throttle_time=NOW,
                error_code=ErrorCode.invalid_request,
                error_message=NO_SHARING,
                acquisition_lock_timeout=NOW,
                responses=(),
                node_endpoints=(),
            )
        )

    async def describe_producers(self, _: Session, request: IncomingRequest) -> bytes:
        """Answer DescribeProducers."""
        asked = KafkaApi.DESCRIBE_PRODUCERS.read_request(request)
        module = KafkaApi.DESCRIBE_PRODUCERS.answer_parts(request.api_version)
        topics = tuple(
            module.TopicResponse(
                name=topic.name,
                partitions=tuple(
                    module.PartitionResponse(
                        partition_index=partition, error_code=ErrorCode.invalid_request, error_message=NO_PRODUCERS, active_producers=()
                    )
                    for partition in topic.partition_indexes
                ),
            )
            for topic in asked.topics
        )
        return encode(made(module.DescribeProducersResponse, throttle_time=NOW, topics=topics))

    async def describe_log_dirs(self, _: Session, request: IncomingRequest) -> bytes:
        """Answer DescribeLogDirs: a gateway has no disks; the one entry says where sizes are."""
        KafkaApi.DESCRIBE_LOG_DIRS.read_request(request)
        module = KafkaApi.DESCRIBE_LOG_DIRS.answer_parts(request.api_version)
        store = made(
            module.DescribeLogDirsResult,
            error_code=ErrorCode.none,
            log_dir=OBJECT_STORE,
            topics=(),
            total_bytes=i64(-1),
            usable_bytes=i64(-1),
            is_cordoned=False,
        )
        return encode(made(module.DescribeLogDirsResponse, throttle_time=NOW, error_code=ErrorCode.none, results=(store,)))
