"""Transactions of Kafka that may still write a marker to a topic, though none of their records stands there yet.

DescribeProducers tells only of transactions that have written to a partition. One that has announced it is known to its coordinator alone.
Only transactions of ids that the principal may describe are told. Blocks: used in worker threads.
"""

from __future__ import annotations

from typing import Final

import kio.schema.describe_transactions.v0 as describe_transactions
import kio.schema.list_transactions.v0 as list_transactions
from kio.schema.errors import ErrorCode

from coordinator.adapters.kafka.broker import BrokerConnection, refused
from coordinator.adapters.kafka.partition_leaders import PartitionLeaders

UNENDED: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
_PASSING: Final = frozenset(
    {ErrorCode.none, ErrorCode.transactional_id_not_found, ErrorCode.transactional_id_authorization_failed, ErrorCode.not_coordinator}
)
"""Answers about a transaction that was listed a moment ago."""


def unended_transactions(leaders: PartitionLeaders) -> list[str]:
    """Return the ids of transactions that have announced the topic and have not ended. Raises `KafkaException`."""
    return sorted({one for found in leaders.ask_each_broker(lambda broker: _unended_at(broker, leaders.topic)) for one in found})


def _unended_at(broker: BrokerConnection, topic: str) -> list[str]:
    listed = broker.ask(
        list_transactions.ListTransactionsRequest(state_filters=UNENDED, producer_id_filters=()), list_transactions.ListTransactionsResponse
    )
    if listed.error_code is not ErrorCode.none:
        raise refused(int(listed.error_code.value), f"transactions are not listed: the broker answers {listed.error_code.name}")
    ids = tuple(one.transactional_id for one in listed.transaction_states)
    if not ids:
        return []
    answer = broker.ask(
        describe_transactions.DescribeTransactionsRequest(transactional_ids=ids), describe_transactions.DescribeTransactionsResponse
    )
    for one in answer.transaction_states:
        if one.error_code not in _PASSING:
            raise refused(int(one.error_code.value), f"transaction {one.transactional_id}: the broker answers {one.error_code.name}")
    return [str(one.transactional_id) for one in answer.transaction_states if any(each.topic == topic for each in one.topics)]
