"""DescribeProducers on the wire: kio makes and reads the same bytes, and what is said survives."""

from __future__ import annotations

from coordinator.core.commands import Outcome
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.producers import (
    DESCRIBE_PRODUCERS,
    DescribedProducers,
    ProducerFacts,
    asked_partitions,
    described_producers,
    producers_request,
    producers_response,
)
from tests.operations.kio_codec import same_as_kio

GONE = Outcome(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="why")


def test_partitions_and_producers_survive() -> None:
    assert (DESCRIBE_PRODUCERS.key, list(DESCRIBE_PRODUCERS.versions)) == (61, [0])
    assert asked_partitions(same_as_kio(producers_request("orders", [0, 7]))) == [("orders", 0), ("orders", 7)]
    described = [
        DescribedProducers("orders", 0, producers=[ProducerFacts(5, 1, 2**31 - 1, 1_700_000_000_000), ProducerFacts(2**63 - 1, 0, -1, 0)]),
        DescribedProducers("orders", 7, producers=[]),
        DescribedProducers("returns", 0, GONE, []),
    ]
    assert described_producers(same_as_kio(producers_response(0, described))) == described


def test_a_refusal_names_every_partition() -> None:
    refused = DESCRIBE_PRODUCERS.refuse
    assert refused is not None
    response = refused(0, producers_request("orders", [0, 1]), GONE)
    assert described_producers(response) == [DescribedProducers("orders", partition, GONE, []) for partition in range(2)]
