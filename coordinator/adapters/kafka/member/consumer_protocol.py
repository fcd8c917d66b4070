"""What consumers of a group tell and are assigned, in Kafka's form, so that Kafka's tools show which partitions a member has.

Version 0 of both: topics or partitions, and bytes that are the members' own.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final

import kio.schema.consumer_protocol_assignment.v0 as consumer_protocol_assignment
import kio.schema.consumer_protocol_assignment.v0.data as consumer_protocol_assignment_data
import kio.schema.consumer_protocol_subscription.v0 as consumer_protocol_subscription
from kio.schema.types import TopicName
from kio.static.primitive import i32

from coordinator.protocol.codec import decode, encode
from coordinator.protocol.wire import MalformedMessage

PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = struct.Struct(">h")


def encode_subscription(topic: str, userdata: bytes) -> bytes:
    """Return what a member of one topic tells."""
    subscription = consumer_protocol_subscription.ConsumerProtocolSubscription(topics=(topic,), user_data=userdata)
    return _VERSION.pack(0) + encode(subscription)  # type: ignore[arg-type]


def userdata_of_subscription(data: bytes) -> bytes:
    """Return the bytes of the member's own; of a later version, too, which has more behind them. Raises `MalformedMessage`."""
    read = decode(consumer_protocol_subscription.ConsumerProtocolSubscription, data, _VERSION.size, rest_allowed=True)  # type: ignore[type-var]
    return read.user_data or b""


def encode_assignment(topic: str, partitions: Collection[int], userdata: bytes) -> bytes:
    """Return the assignment of a member."""
    assigned = consumer_protocol_assignment_data.TopicPartition(
        topic=TopicName(topic), partitions=tuple(i32(one) for one in sorted(partitions))
    )
    assignment = consumer_protocol_assignment.ConsumerProtocolAssignment(
        assigned_partitions=(assigned,) if partitions else (), user_data=userdata
    )
    return _VERSION.pack(0) + encode(assignment)  # type: ignore[arg-type]


def decode_assignment(topic: str, data: bytes) -> tuple[frozenset[int], bytes]:
    """Return the partitions of the topic, and the bytes of the members' own. Raises `MalformedMessage`."""
    if len(data) < _VERSION.size:
        raise MalformedMessage(f"an assignment of {len(data)} bytes")
    read = decode(consumer_protocol_assignment.ConsumerProtocolAssignment, data, _VERSION.size, rest_allowed=True)  # type: ignore[type-var]
    partitions = (one.partitions for one in read.assigned_partitions if one.topic == topic)
    return frozenset(int(partition) for some in partitions for partition in some), read.user_data or b""
