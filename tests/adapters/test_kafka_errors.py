"""Which errors of brokers end a node that starts, and which it waits out."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest
from confluent_kafka import KafkaError, KafkaException

from coordinator.adapters.kafka.cluster import KafkaAdmin
from coordinator.runtime.ports import ClusterRefused, KafkaUnavailable, TopicMissing

TOO_FEW = "The target replication factor of 3 cannot be reached because only 1 broker(s) are registered."


@pytest.mark.parametrize(
    ("error", "becomes", "asked"),
    [
        (KafkaException(KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, TOO_FEW)), ClusterRefused, 1),
        (KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE, "no broker is in service yet")), KafkaUnavailable, 2),
        (KafkaException(KafkaError(KafkaError._UNSUPPORTED_FEATURE, "no")), ClusterRefused, 1),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no")), ClusterRefused, 1),
        (KafkaException(KafkaError(KafkaError._TRANSPORT, "gone")), KafkaUnavailable, 2),
        (KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "which")), TopicMissing, 2),
        (FutureTimeoutError(), KafkaUnavailable, 2),
    ],
)
async def test_what_brokers_answer(error: Exception, becomes: type[Exception], asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = KafkaAdmin(bootstrap_servers="127.0.0.1:1", topic="t", client_id="c", group_id="g")
    calls = []

    def call(*_: object) -> None:
        calls.append(1)
        raise error

    monkeypatch.setattr("coordinator.adapters.kafka.cluster.describe_members", call)
    with pytest.raises(becomes, match=r"could not .* t: ") as raised:
        await cluster.group_members()
    assert (raised.type, len(calls)) == (becomes, asked)
    assert await cluster.close()
