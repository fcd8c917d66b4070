"""Kafka's Fetch, versions 4 to 17, as the gateway reads and writes it: plain tuples, and records that are not copied.

The loops over bytes are `request_loops.py` and `answer_loops.py`. A request that is not of the plain form goes to the general codec.
Invariant: values read here, and bytes made here, are those of the general codec for kio's classes; what no one uses, such as the rack, is
read past.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.codec import decode
from coordinator.protocol.framing_loops import Body, Buffer
from gateway.fetch.answer_loops import Told, write_body
from gateway.fetch.request_loops import FIRST_WITH_TOPIC_IDS, Asked, read_body
from gateway.kafka_apis import KafkaApi

VERSIONS: Final = range(4, 18)
"""The versions of Fetch that are served."""

ELEMENTS_MAX: Final = 100_000
"""Topics and partitions of a request: more would keep the event loop from all others."""

NO_ID: Final = bytes(16)


class FetchBody(NamedTuple):
    """A Fetch request; `topics` are by name (UTF-8) up to version 12, by id from 13 on."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[tuple[bytes, list[Asked]]]
    names: list[str]
    """Those of the topics up to version 12."""


def decode_fetch(data: bytes, offset: int, version: int) -> FetchBody:
    """Decode a body that fills `data` from `offset` on. Raises `MalformedMessage`."""
    plain = read_body(data, offset, version, ELEMENTS_MAX)
    if plain is not None:
        try:
            return FetchBody(*plain, [name.decode() for name, _ in plain[-1]] if version < FIRST_WITH_TOPIC_IDS else [])
        except UnicodeDecodeError:
            pass
    return _decode_generally(data, offset, version)


def encode_answer(version: int, topics: list[tuple[bytes, list[Told]]], records: Sequence[Buffer], *, is_committed: bool = False) -> Body:
    """Encode an answer; `records` are those of the partitions that have some, in order, and stay where they are.

    `is_committed`: the client wants committed records, and so a list of aborted transactions, which is empty.
    """
    cuts: list[int] = []
    head = write_body(version, ErrorCode.NONE, is_committed, topics, cuts)
    if not records:
        return bytes(head)
    return tuple(_interleaved(memoryview(head), cuts, records))


def encode_refusal(version: int, code: ErrorCode) -> bytes:
    """Encode the answer to a request that is refused as a whole, which versions from 7 on can say."""
    return bytes(write_body(version, code, False, [], []))


def _interleaved(head: memoryview, cuts: Sequence[int], records: Sequence[Buffer]) -> Iterator[Buffer]:
    start = 0
    for cut, one in zip(cuts, records, strict=True):
        yield head[start:cut]
        yield one
        start = cut
    yield head[start:]


def _decode_generally(data: bytes, offset: int, version: int) -> FetchBody:
    request: Any = decode(KafkaApi.FETCH.request_type(version), data, offset, elements_max=ELEMENTS_MAX)
    has_ids = version >= FIRST_WITH_TOPIC_IDS
    topics = [
        (
            (NO_ID if one.topic_id is None else one.topic_id.bytes) if has_ids else one.topic.encode(),
            [
                (each.partition, getattr(each, "current_leader_epoch", -1), each.fetch_offset, each.partition_max_bytes)
                for each in one.partitions
            ],
        )
        for one in request.topics
    ]
    return FetchBody(
        request.replica_state.replica_id if hasattr(request, "replica_state") else request.replica_id,
        request.max_wait // timedelta(milliseconds=1),
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        getattr(request, "session_id", 0),
        getattr(request, "session_epoch", -1),
        topics,
        [] if has_ids else [one.topic for one in request.topics],
    )
