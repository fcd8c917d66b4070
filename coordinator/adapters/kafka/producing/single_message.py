"""Writes one message to a partition of the metadata topic, outside of any term: tools begin logs with it.

The offset of the message is found by reading it back: a report may be lost, and another process may have written before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from coordinator.adapters.kafka.settings import client_properties
from coordinator.adapters.kafka.stats import KafkaStats


def write_message(
    *, bootstrap_servers: str, topic: str, partition: int, key: bytes, value: bytes, timeout_s: float, kafka_properties: Mapping[str, Any]
) -> str | None:
    """Write a message with acks=all, once at most; returns why the broker did not confirm it, None when it did. Blocks.

    A message that was not confirmed may still be in the log.
    """
    timeout_ms = max(1, int(timeout_s * 1000))
    properties = client_properties(
        bootstrap_servers=bootstrap_servers,
        client_id="diskless-cli",
        role="single-message",
        defaults={},
        fixed={"enable.idempotence": True, "acks": "all", "linger.ms": 0, "message.timeout.ms": timeout_ms},
        user=kafka_properties,
        stats=KafkaStats(),
    )
    outcomes: list[str | None] = []

    def report(error: KafkaError | None, _message: Message) -> None:
        outcomes.append(None if error is None else error.str())

    producer = Producer(properties)
    producer.produce(topic, value=value, key=key, partition=partition, on_delivery=report)
    producer.flush(timeout_s)
    return outcomes[0] if outcomes else f"no report within {timeout_s:g} s"
