"""The offsets that a query has read, committed to a group of Kafka for tools that show lags. A query never reads them back.

A commit that fails is logged: the query needs none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tables.source.access import properties_of
from tables.source.offsets import TopicPlace
from tables.source.options import KAFKA, SourceOptionError, SourceOptions

LOG = logging.getLogger("diskless.source")
TIMEOUT_S: Final = 10.0
"""How long the next batch waits for a commit: Kafka may be away."""


class GroupOffsets:
    """See the module's text. The broker or gateway is connected to when offsets are first committed."""

    def __init__(self, options: SourceOptions) -> None:
        """Raises `SourceOptionError` for properties that librdkafka does not take."""
        self._group_id = options.group_id
        self._committed: Mapping[TopicPlace, int] = {}
        try:
            self._admin = AdminClient({**properties_of(options.access), "bootstrap.servers": options.kafka_servers}, logger=LOG)
        except (KafkaException, ValueError) as error:
            raise SourceOptionError(f"groupId: connections to {KAFKA}: {error}") from error

    def commit(self, offsets: Mapping[TopicPlace, int]) -> None:
        """Commit offsets, unless they are those of the last time; what Kafka says against it is logged."""
        if offsets == self._committed:
            return
        self._committed = offsets
        wanted = [TopicPartition(place.topic, place.partition, offset) for place, offset in offsets.items()]
        try:
            asked = self._admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(self._group_id, wanted)], request_timeout=TIMEOUT_S
            )
            refused = [one for one in asked[self._group_id].result().topic_partitions if one.error is not None]
        except KafkaException as error:
            LOG.warning("offsets of group %s are not committed, so its lag is shown too high: %s", self._group_id, error)
            return
        for one in refused:
            LOG.warning("group %s: offset of %s-%s not committed: %s", self._group_id, one.topic, one.partition, one.error)
