"""A request of every API and version of Kafka's, with names and numbers that make a real cluster say as much as it can."""

from __future__ import annotations

import io
import uuid
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from coordinator.protocol.codec_fields import shape
from coordinator.protocol.framing import request_frame
from gateway.kafka_apis import KafkaApi

SHAPES: Mapping[str, object] = {
    "string": "sample",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "float64": 0.0,
    "timedelta_i32": timedelta(milliseconds=500),
    "timedelta_i64": timedelta(milliseconds=500),
    "datetime_i64": datetime(2026, 1, 1, tzinfo=UTC),
    "error_code": ErrorCode.none,
}


def message_type(key: int, version: int, part: str) -> Any:
    """Return the class of a request or a response of an API."""
    return getattr(KafkaApi(key).versions[version], f"{part}_type")


def sample(kind: Any, known: Mapping[str, object]) -> Any:
    """Make a message; fields have the known values by their names, others those of their types."""
    values: dict[str, object] = {}
    for item in fields(kind):
        is_array, inner, nullable = shape(item)
        if nullable and item.name in known and known[item.name] is None:
            values[item.name] = None
        elif item.name in known and not is_dataclass(inner) and (nullable or known[item.name] is not None):
            given = known[item.name]
            values[item.name] = (given,) if is_array and not isinstance(given, tuple) else given
        elif is_dataclass(inner):
            if is_array:
                values[item.name] = (sample(inner, known),)
            elif item.default is MISSING and "tag" not in item.metadata:
                values[item.name] = sample(inner, known)
        elif is_array:
            values[item.name] = None if nullable else ()
        elif item.default is MISSING or "tag" not in item.metadata:
            kafka_type = str(item.metadata["kafka_type"])
            plain = uuid.UUID(int=7) if kafka_type == "uuid" else SHAPES.get(kafka_type, 0)
            values[item.name] = None if nullable and kafka_type != "uuid" else plain
    return kind(**values)


def frame(key: int, version: int, correlation_id: int, known: Mapping[str, object]) -> bytes:
    """Return a whole request, its length included."""
    kind = message_type(key, version, "request")
    body = io.BytesIO()
    entity_writer(kind)(body, sample(kind, known))  # it has every type of Kafka, and the gateway's codec does not
    return request_frame(key, version, correlation_id, "samples", body.getvalue(), flexible=KafkaApi(key).is_flexible(version))
