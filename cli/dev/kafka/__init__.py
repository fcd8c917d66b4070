"""A real Kafka (KRaft) on this machine without Docker, for tests and `diskless dev up`.

`find_kafka` gives the Kafka to use, wherever it comes from; `KafkaCluster` is one whose brokers can be killed, paused
and restarted one by one. Nothing stays running when the process that started it ends, however it ends.
"""

from cli.dev.kafka.cluster import KafkaCluster, KafkaStartError
from cli.dev.kafka.find import ExistingKafka, Kafka, NoKafkaError, find_kafka
from cli.dev.kafka.prepare import find_runtime
from cli.dev.kafka.properties import ExtraListener, Profile
from cli.dev.kafka.runtime import BrokerRuntime

__all__ = [
    "BrokerRuntime",
    "ExistingKafka",
    "ExtraListener",
    "Kafka",
    "KafkaCluster",
    "KafkaStartError",
    "NoKafkaError",
    "Profile",
    "find_kafka",
    "find_runtime",
]
