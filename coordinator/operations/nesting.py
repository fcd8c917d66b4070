"""Requests on topics and partitions are nested in all messages of the KIP; elements and answers are flat lists.

A request on partitions has `topics`, each with a `topic_id` and `partitions`, each with a `partition_index`; its response has the same
form. Nodes take requests apart and build responses with this module; clients do the inverse. The classes of the parts are those of the
message's fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import groupby
from typing import Any, TypeVar, cast

from coordinator.core.commands import Outcome
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
    make_topic = _class_in(request_type, "topics")
    topics = tuple(
        make_topic(topic_id=topic_id, partitions=tuple(part for _, part in group)) for topic_id, group in groupby(parts, lambda one: one[0])
    )
    return cast(Callable[..., Message], request_type)(topics=topics, **fields)


def partition_results(
    response_type: type[Message], more: Callable[[A], Mapping[str, object]] = lambda _: {}
) -> Callable[[Any, Sequence[A]], Message]:
    """Return the maker of the response to a request for partitions from their answers, each with an `outcome`.

    A result has the index and the error of its partition, and `more` fields of its answer.
    """
    make_topic = _class_in(response_type, "topics")
    make_result = _class_in(make_topic, "partitions")

    def result(index: int, answer: Any) -> object:
        outcome = answer.outcome
        return make_result(partition_index=index, error_code=outcome.error, error_message=outcome.message, **more(answer))

    def response(request: Any, answers: Sequence[A]) -> Message:
        flat = iter(answers)
        topics = tuple(
            make_topic(topic_id=topic.topic_id, partitions=tuple(result(one.partition_index, next(flat)) for one in topic.partitions))
            for topic in request.topics
        )
        return cast(Callable[..., Message], response_type)(topics=topics)

    return response


def topic_results(response_type: type[Message]) -> Callable[[Any, Sequence[Outcome]], Message]:
    """Return the maker of the response to a request for topics: its only list has the id and the error of each."""
    results, make = list_in(response_type)

    def response(request: Any, outcomes: Sequence[Outcome]) -> Message:
        pairs = zip(request.topics, outcomes, strict=True)
        made = tuple(make(topic_id=topic.topic_id, error_code=one.error, error_message=one.message) for topic, one in pairs)
        return cast(Callable[..., Message], response_type)(**{results: made})

    return response


def list_in(response_type: type[Message]) -> tuple[str, Any]:
    """Return name and element class of the only list of structures that a response has itself."""
    [results] = (item.name for item in fields(response_type) if shape(item)[0] and is_dataclass(shape(item)[1]))
    return results, _class_in(response_type, results)


def _class_in(message_type: type[Message], name: str) -> Any:
    return shape(message_type.__dataclass_fields__[name])[1]
