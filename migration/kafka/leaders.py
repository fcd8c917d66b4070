"""Questions of a migration to the leaders of a classic topic: a topic that is missing refuses the migration."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.adapters.kafka.broker import BrokerConnection
from coordinator.adapters.kafka.partition_leaders import Found, Leadership, LedTopic, NoSuchTopic, PartitionLeaders
from migration.classic import ClassicTopicMissing


class ClassicLeaders(PartitionLeaders):
    """`PartitionLeaders` of a classic topic."""

    def describe(self) -> LedTopic:
        """Ask where the partitions are led. Raises `ClassicTopicMissing`, `KafkaException`."""
        try:
            return super().describe()
        except NoSuchTopic as error:
            raise ClassicTopicMissing(str(error)) from error

    def ask(self, partition: int, question: Callable[[BrokerConnection, Leadership], Found]) -> Found:
        """Return what a question to the partition's leader gives. Raises `ClassicTopicMissing`, `KafkaException`."""
        try:
            return super().ask(partition, question)
        except NoSuchTopic as error:
            raise ClassicTopicMissing(str(error)) from error
