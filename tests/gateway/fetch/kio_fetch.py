"""Kio's classes of Fetch: random requests of any version, and answers read back."""

from __future__ import annotations

import dataclasses
import io
import uuid
from datetime import timedelta
from importlib import import_module
from types import ModuleType
from typing import Any

from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from gateway.fetch.wire import FetchBody

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
UUID = st.binary(min_size=16, max_size=16).map(lambda raw: uuid.UUID(bytes=raw) if any(raw) else None)
ODD_SIZES = st.sampled_from([0, 1, 2, 3, 130])


def request_module(version: int) -> ModuleType:
    return import_module(f"kio.schema.fetch.v{version}.request")


def _fitting(cls: type, **values: Any) -> Any:
    """An entity with those of the values that its version has."""
    return cls(**{item.name: values[item.name] for item in dataclasses.fields(cls) if item.name in values})


@st.composite
def requests(draw: st.DrawFn, version: int, *, is_plain: bool = False) -> Any:
    """A request; a plain one has no tagged fields."""
    module = request_module(version)

    def partition() -> Any:
        fields = {name: draw(INT32) for name in ("partition", "current_leader_epoch", "last_fetched_epoch", "partition_max_bytes")}
        directory = {} if is_plain or draw(st.booleans()) else {"replica_directory_id": draw(UUID)}
        return _fitting(module.FetchPartition, **fields, fetch_offset=draw(INT64), log_start_offset=draw(INT64), **directory)

    def topic() -> Any:
        one = partition()
        partitions = tuple(one for _ in range(draw(ODD_SIZES))) if draw(st.booleans()) else (one, partition())
        return _fitting(module.FetchTopic, topic=draw(TEXT), topic_id=draw(UUID), partitions=partitions)

    def forgotten() -> Any:
        name = {"topic": draw(TEXT), "topic_id": draw(UUID)}
        return _fitting(module.ForgottenTopic, **name, partitions=tuple(draw(st.lists(INT32, max_size=3))))

    values: dict[str, Any] = {
        "replica_id": draw(INT32),
        "max_wait": timedelta(milliseconds=draw(INT32)),
        "min_bytes": draw(INT32),
        "max_bytes": draw(INT32),
        "isolation_level": draw(st.integers(-128, 127)),
        "session_id": draw(INT32),
        "session_epoch": draw(INT32),
        "topics": tuple(topic() for _ in range(draw(st.integers(0, 3)))),
        "rack_id": draw(TEXT),
    }
    if version >= 7:
        values["forgotten_topics_data"] = tuple(forgotten() for _ in range(draw(st.integers(0, 2))))
    if not is_plain and version >= 12 and draw(st.booleans()):
        values["cluster_id"] = draw(TEXT)
    if not is_plain and version >= 15 and draw(st.booleans()):
        values["replica_state"] = module.ReplicaState(replica_id=draw(INT32), replica_epoch=draw(INT64))
    return _fitting(module.FetchRequest, **values)


def encoded(request: Any) -> bytes:
    """As kio's own codec encodes it."""
    out = io.BytesIO()
    entity_writer(type(request))(out, request)
    return out.getvalue()


def read_answer(version: int, body: Any) -> Any:
    """Read a body, which may be in several buffers, with kio's own codec."""
    data = body if isinstance(body, bytes) else b"".join(body)
    answer, size = entity_reader(import_module(f"kio.schema.fetch.v{version}.response").FetchResponse)(data, 0)
    assert size == len(data)
    return answer


def body_of(version: int, request: Any) -> FetchBody:
    """What is to be read of a request."""
    topics = []
    for topic in request.topics:
        rows = [(p.partition, getattr(p, "current_leader_epoch", -1), p.fetch_offset, p.partition_max_bytes) for p in topic.partitions]
        topics.append((topic.topic.encode() if version < 13 else topic.topic_id.bytes if topic.topic_id else bytes(16), rows))
    return FetchBody(
        request.replica_id if version < 15 else request.replica_state.replica_id,
        request.max_wait // timedelta(milliseconds=1),
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id if version >= 7 else 0,
        request.session_epoch if version >= 7 else -1,
        topics,
        [topic.topic for topic in request.topics] if version < 13 else [],
    )
