"""Options, spans and services of tests of the data source."""

from __future__ import annotations

from tables.reading.span import Span
from tables.source.options import SourceOptions, parse_batch_options, parse_stream_options

TOPIC = bytes(range(16))
OTHER = bytes(range(1, 17))
ACCESS = {"diskless.bootstrap.servers": "node-1:9192", "diskless.object.store.url": "s3://bucket/diskless"}


def batch(**options: str) -> SourceOptions:
    """The options of a batch query on the topic `orders`, unless they choose others."""
    return parse_batch_options(chosen(options))


def stream(**options: str) -> SourceOptions:
    """The options of a stream on the topic `orders`, unless they choose others."""
    return parse_stream_options(chosen(options))


def chosen(options: dict[str, str]) -> dict[str, str]:
    """Options, with access, and with a topic if they choose none."""
    is_chosen = options.keys() & {"assign", "subscribe", "subscribePattern"}
    return {**ACCESS, **({} if is_chosen else {"subscribe": "orders"}), **options}


def span(partition: int, begin: int, end: int, *, topic: str = "orders") -> Span:
    return Span(topic=topic, topic_id=TOPIC, partition=partition, from_offset=begin, to_offset=end)
