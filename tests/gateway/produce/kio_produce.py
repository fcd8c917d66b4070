"""Produce requests and answers by kio's own codec, as the oracle of ours."""

from __future__ import annotations

import datetime
import io
import sys
import uuid
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from records.record_batch import Record, encode_batch

VERSIONS = sorted(schema_name_map["produce"])
ID_VERSIONS = 13


class Result(NamedTuple):
    """The result of one partition; what a version does not have is as here."""

    partition: int
    code: int = 0
    base_offset: int = -1
    append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str], ...] = ()
    message: str | None = None


def _class(version: int, kind: Literal[EntityType.request, EntityType.response]) -> Any:
    return resolve_name(schema_name_map["produce"][version][kind])


def _named(version: int, topic: str | bytes) -> dict[str, object]:
    return {"topic_id": uuid.UUID(bytes=bytes(topic))} if version >= ID_VERSIONS else {"name": topic}  # type: ignore[arg-type]


def _written(message: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def encode_request(
    version: int,
    topics: Sequence[tuple[str | bytes, Sequence[tuple[int, bytes | None]]]],
    *,
    acks: int = -1,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
) -> bytes:
    """The body of a request; topics by name, from version 13 on by id."""
    request = _class(version, EntityType.request)
    module = sys.modules[request.__module__]
    data = tuple(
        module.TopicProduceData(
            **_named(version, topic),
            partition_data=tuple(module.PartitionProduceData(index=index, records=records) for index, records in partitions),
        )
        for topic, partitions in topics
    )
    timeout = datetime.timedelta(milliseconds=timeout_ms)
    return _written(request(transactional_id=transactional_id, acks=acks, timeout=timeout, topic_data=data))


def decode_answer(version: int, body: bytes) -> tuple[dict[str | bytes, list[Result]], int]:
    """Results by topic, and throttle_time_ms."""
    answer, size = entity_reader(_class(version, EntityType.response))(body, 0)
    assert size == len(body)
    found: dict[str | bytes, list[Result]] = {}
    for topic in answer.responses:
        name = topic.topic_id.bytes if version >= ID_VERSIONS else topic.name
        found.setdefault(name, []).extend(map(_result, topic.partition_responses))
    return found, round(answer.throttle_time.total_seconds() * 1000)


def _result(one: Any) -> Result:
    time = one.log_append_time
    errors = getattr(one, "record_errors", ())
    return Result(
        one.index,
        int(one.error_code),
        one.base_offset,
        -1 if time is None else round(time.timestamp() * 1000),
        getattr(one, "log_start_offset", -1),
        tuple((error.batch_index, error.batch_index_error_message) for error in errors),
        getattr(one, "error_message", None),
    )


def encode_answer(version: int, topics: Sequence[tuple[str | bytes, Sequence[Result]]], throttle_ms: int) -> bytes:
    """The body of an answer."""
    answer = _class(version, EntityType.response)
    module = sys.modules[answer.__module__]
    responses = tuple(
        module.TopicProduceResponse(
            **_named(version, topic), partition_responses=tuple(_partition(version, module, one) for one in results)
        )
        for topic, results in topics
    )
    return _written(answer(responses=responses, throttle_time=datetime.timedelta(milliseconds=throttle_ms)))


def _partition(version: int, module: Any, one: Result) -> Any:
    time = None if one.append_time_ms < 0 else datetime.datetime.fromtimestamp(one.append_time_ms / 1000, datetime.UTC)
    fields: dict[str, object] = {
        "index": one.partition,
        "error_code": ErrorCode(one.code),
        "base_offset": one.base_offset,
        "log_append_time": time,
    }
    if version >= 5:
        fields["log_start_offset"] = one.log_start_offset
    if version >= 8:
        errors = [module.BatchIndexAndErrorMessage(batch_index=place, batch_index_error_message=text) for place, text in one.record_errors]
        fields |= {"record_errors": tuple(errors), "error_message": one.message}
    return module.PartitionProduceResponse(**fields)


def batch(count: int = 1, *, timestamp_ms: int = 1_000_000, size: int = 10, **options: Any) -> bytes:
    """A batch of records of a size."""
    return encode_batch([Record(timestamp_ms=timestamp_ms, value=bytes(size)) for _ in range(count)], **options)
