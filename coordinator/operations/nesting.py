"""Requests on partitions are nested by topic in all messages of the KIP; elements and answers are flat lists.

A request has `topics`, each with a `topic_id` and `partitions`, each with a `partition_index`; its response has the same form. Nodes take
requests apart and build responses with this module; clients do the inverse. The classes of the parts are those of the message's fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar, cast

from coordinator.protocol.codec import Message
from coordinator.protocol.codec_fields import shape

A = TypeVar("A")


def each_partition(message: Any) -> Iterator[tuple[bytes, Any]]:
    """Yield topic id and part of each partition of a request or a response, in order."""
    for topic in message.topics:
        for partition in topic.partitions:
            yield topic.topic_id, partition


def nested_request(request_type: type[Message], parts: Sequence[tuple[bytes, Message]], **fields: object) -> Message:
    """Return a request for partitions, given as topic id and part; neighbours of one topic stand together, and the order stays."""
    make_topic = cast(Callable[..., Message], shape(request_type.__dataclass_fields__["topics"])[1])
    topics = tuple(
        make_topic(topic_id=topic_id, partitions=tuple(part for _, part in group)) for topic_id, group in groupby(parts, lambda one: one[0])
    )
    return cast(Callable[..., Message], request_type)(topics=topics, **fields)


def nested_response(response_type: type[Message], request: Any, make: Callable[[Any, A], Any], answers: Sequence[A]) -> Message:
    """Return the response to a request for partitions; `make` builds a result from the part of the request and its answer."""
    make_topic = cast(Callable[..., Message], shape(response_type.__dataclass_fields__["topics"])[1])
    flat = iter(answers)
    topics = tuple(
        make_topic(topic_id=topic.topic_id, partitions=tuple(make(partition, next(flat)) for partition in topic.partitions))
        for topic in request.topics
    )
    return cast(Callable[..., Message], response_type)(topics=topics)
