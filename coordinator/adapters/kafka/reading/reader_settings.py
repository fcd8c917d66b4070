"""The settings of the consumer that tails the log, and those of its errors that pass by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from coordinator.adapters.kafka.settings import Properties, client_properties
from coordinator.adapters.kafka.stats import KafkaStats

FETCH_WAIT_MS = 50
FETCH_BYTES = 128 * 1024
"""A broker answers when it has so many bytes or so much time has passed: a leader learns of its own entries from their
reports, and a follower is new enough. Without them every group would be fetched by every node in a request of its own. With half the
time a standby costs a quarter more, and a clean stop is over 30 ms sooner."""

REFUSALS = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN, KafkaError.INVALID_MSG})
"""Answers of a broker that may not show the topic for now, that failed, or that says a batch is damaged: they pass, and are logged."""

# Raised by librdkafka for a partition while it goes on trying; everything else ends the reading of that partition.
PASSING_ERRORS = REFUSALS | frozenset(
    {
        KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION, KafkaError._MAX_POLL_EXCEEDED, KafkaError._PARTITION_EOF, KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.BROKER_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION,
    }
)  # fmt: skip


def reader_properties(bootstrap_servers: str, client_id: str, user: Mapping[str, Any], stats: KafkaStats) -> Properties:
    """Return librdkafka's properties; `user` ones count where they may. Raises `KafkaPropertyRefused`."""
    return client_properties(
        bootstrap_servers=bootstrap_servers,
        client_id=client_id,
        role="reader",
        defaults={
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "fetch.min.bytes": FETCH_BYTES,
            "fetch.error.backoff.ms": 100,
            "queued.max.messages.kbytes": 65536,
        },
        fixed={
            # A name is required although no group is ever joined.
            "group.id": f"{client_id}-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            # Says that the entry to repeat is not there, without which an idle log would say nothing.
            "enable.partition.eof": True,
            "check.crcs": True,
            # The thread pauses while the loop is busy; without a group no other member could take over anyway.
            "max.poll.interval.ms": 86_400_000,
        },
        user=user,
        stats=stats,
    )
