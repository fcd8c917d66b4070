"""Requests between nodes that no node would send: what they ask for must not reach the log, where every replica would obey it."""

from __future__ import annotations

from typing import cast

import pytest

from coordinator.core.commands import Outcome, PlacePartitions, RegisterNode, TopicShare
from coordinator.core.deciding.decide import decide_write
from coordinator.core.limits import Limits
from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.errors import ErrorCode
from records.model import Endpoint

TOPIC = bytes([1] * 16)


def place(topic_id: bytes, name: str, first: int, count: int) -> PlacePartitions:
    return PlacePartitions(shares=[TopicShare(topic_id=topic_id, name=name, first_partition=first, num_partitions=count, order_offset=1)])


@pytest.mark.parametrize(
    ("first", "count", "error"),
    [
        (0, 2**31 - 1, ErrorCode.INVALID_PARTITIONS),
        (2**31 - 1, 2**31 - 1, ErrorCode.INVALID_PARTITIONS),
        (-1, 2, ErrorCode.INVALID_PARTITIONS),
        (0, 0, ErrorCode.INVALID_PARTITIONS),
        (0, -5, ErrorCode.INVALID_PARTITIONS),
        (99_999, 1, ErrorCode.NONE),
    ],
)
def test_a_range_no_directory_would_place_is_refused_and_never_logged(first: int, count: int, error: ErrorCode) -> None:
    decision = decide_write(HotState(), place(TOPIC, "orders", first, count), Limits())
    assert [outcome.error for outcome in cast(list[Outcome], decision.answer)] == [error]
    assert len(decision.records) == (error is ErrorCode.NONE)


@pytest.mark.parametrize(("node_id", "host", "port"), [(-1, "h", 1), (1, "", 1), (1, "h", 0), (1, "h", 65_536)])
def test_a_node_without_an_address_is_refused_and_never_logged(node_id: int, host: str, port: int) -> None:
    endpoints = [Endpoint(listener="PLAINTEXT", host=host, port=port)]
    command = RegisterNode(
        node_id=node_id, rack="", endpoints=endpoints, schema_level_max=1, incarnation_id=b"1" * 16, log_dirs=(b"d" * 16,)
    )
    decision = decide_write(HotState(), command, Limits())
    assert cast(Outcome, decision.answer).error is ErrorCode.INVALID_REQUEST
    assert decision.records == []


@pytest.mark.parametrize(
    ("log_dirs", "says"),
    [
        ((), "tells of no data directory that is online"),
        ((b"d" * 16, bytes(16)), "AAAAAAAAAAAAAAAAAAAAAA is reserved by Kafka"),
        ((b"d" * 16, bytes(15) + b"\x63"), "is reserved by Kafka and names no directory"),
        ((b"d" * 16, b"d" * 16), "names a data directory twice"),
        ((b"d" * 16, b"e" * 16), None),
    ],
)
def test_a_node_registers_with_directories_that_mean_something(log_dirs: tuple[bytes, ...], says: str | None) -> None:
    command = RegisterNode(
        node_id=1,
        rack="",
        endpoints=[Endpoint(listener="PLAINTEXT", host="h", port=1)],
        schema_level_max=1,
        incarnation_id=b"1" * 16,
        log_dirs=log_dirs,
    )
    decision = decide_write(HotState(), command, Limits())
    outcome = cast(Outcome, decision.answer)
    assert outcome.error is (ErrorCode.NONE if says is None else ErrorCode.INVALID_REQUEST)
    assert len(decision.records) == (says is None)
    assert says is None or says in str(outcome.message)


@pytest.mark.parametrize(("topic_id", "name"), [(bytes(16), "orders"), (TOPIC, ""), (TOPIC, "a/b"), (TOPIC, "x" * 250)])
def test_a_topic_no_directory_would_place_is_refused_and_never_logged(topic_id: bytes, name: str) -> None:
    decision = decide_write(HotState(), place(topic_id, name, 0, 1), Limits())
    assert [outcome.error for outcome in cast(list[Outcome], decision.answer)] == [ErrorCode.INVALID_REQUEST]
    assert decision.records == []
