"""The brokers of the cluster with their racks, asked of any of them over a connection of this process's own.

librdkafka is not asked: its list of brokers has no racks, and its DescribeCluster ends the process by an assertion when a broker
answers that there is no broker.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import kio.schema.metadata.v9 as metadata
from confluent_kafka import KafkaError

from coordinator.adapters.kafka.bootstrap import Bootstrap
from coordinator.adapters.kafka.broker import refused
from coordinator.runtime.ports import KafkaBroker


def describe_brokers(properties: Mapping[str, Any], timeout_s: float) -> tuple[KafkaBroker, ...]:
    """Return the brokers in service, by id. Blocks. Raises `KafkaException`. `properties` are librdkafka's, as for `describe_members`."""
    request = metadata.MetadataRequest(
        topics=(),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return Bootstrap.of(properties).ask(request, metadata.MetadataResponse, _brokers, time.monotonic() + timeout_s)


def _brokers(answer: metadata.MetadataResponse) -> tuple[KafkaBroker, ...]:
    if not answer.brokers:  # brokers that are missed themselves at the moment say so
        raise refused(KafkaError.BROKER_NOT_AVAILABLE, "the broker knows of no broker in service")
    found = (KafkaBroker(int(one.node_id), one.rack or "", one.host, int(one.port)) for one in answer.brokers)
    return tuple(sorted(found))
