"""Records as JSON lines, one record per line:

    {"topic": "orders", "partition": 0, "key": "k", "value": "v", "headers": [["h", "x"]], "timestamp": 1700000000000,
     "timestamp_type": "CreateTime", "producer_id": 7, "producer_epoch": 0, "sequence": 0}

Only topic and partition are needed. `key`, `value` and header values are texts or null; `key_base64` and `value_base64` give bytes
instead, and in a header `{"base64": "/w=="}` does, for its name too. Headers may also be an object. The three producer fields go together.
An `offset` is not taken over, because the coordinator assigns offsets. Unknown fields are errors: a misspelt one would lose data.

Invariant: `parse_lines` makes of the lines of `record_fields` the records that they were made of.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from coordinator.client.records.wal_manifest import TopicPartition
from coordinator.errors import DisklessError
from coordinator.kafka.names import illegal_topic_name
from coordinator.kafka.timestamps import too_far_ahead
from records.record_batch import ProducerSequence, Record, StoredRecord, TimestampType, header_name, header_name_bytes

_TYPES = {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}
_TYPE_NAMES = {kind: name for name, kind in _TYPES.items()}
_BASE64 = "base64"
_INT64_MAX = 2**63 - 1
_FIELDS = frozenset(
    {
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "key_base64",
        "value_base64",
        "headers",
        "timestamp",
        "timestamp_type",
        "producer_id",
        "producer_epoch",
        "sequence",
    }
)


class InputError(DisklessError, ValueError):
    """A line is no record; the text gives its number, the field and the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """One line: a record, its partition, the type of its timestamp, and its producer if it has one."""

    partition: TopicPartition
    record: Record
    timestamp_type: TimestampType
    producer: ProducerSequence | None


def record_fields(topic: str, partition: int, record: StoredRecord, timestamp_type: TimestampType) -> dict[str, object]:
    """Return the fields of a record that was read; contents that are no UTF-8 are base64."""
    return {**content_fields(topic, record), "partition": partition, "timestamp_type": _TYPE_NAMES[timestamp_type]}


def content_fields(topic: str, record: StoredRecord) -> dict[str, object]:
    """Return the fields of a record that says its partition, but for the type of its timestamp."""
    return {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **_content_field("key", record.key),
        **_content_field("value", record.value),
        "headers": [[_header_part(header_name_bytes(name)), _header_part(value)] for name, value in record.headers],
    }


def _content_field(name: str, content: bytes | None) -> dict[str, object]:
    told = _header_part(content)
    return {f"{name}_{_BASE64}": told[_BASE64]} if isinstance(told, dict) else {name: told}


def _header_part(content: bytes | None) -> str | dict[str, str] | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(content or b"").decode()}


def parse_lines(lines: Iterable[str], *, now_ms: int, after_max_ms: int = _INT64_MAX) -> Iterator[InputRecord]:
    """Read records from lines; blank lines are skipped, and a record without a timestamp has `now_ms`.

    Raises `InputError` at the first line that is wrong, or whose timestamp is further ahead than `after_max_ms`.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _record(line, now_ms, after_max_ms)
            except InputError as error:
                raise InputError(f"line {number}: {error}") from error


def _record(line: str, now_ms: int, after_max_ms: int) -> InputRecord:
    try:
        fields = json.loads(line, object_pairs_hook=_distinct)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError, too; deep nesting the other
        raise InputError(f"not JSON that can be read: {error}") from error
    if not isinstance(fields, dict):
        raise InputError("a record is a JSON object")
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        raise InputError(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    topic = fields.get("topic")
    if not isinstance(topic, str):
        raise InputError(f"topic must be a text, not {topic!r}")
    illegal = illegal_topic_name(topic)
    if illegal is not None:
        raise InputError(illegal)
    partition = _integer(fields, "partition", 0, 2**31 - 1)
    timestamp_ms = now_ms if "timestamp" not in fields else _integer(fields, "timestamp", -1, _INT64_MAX)
    if (timestamp_type := fields.get("timestamp_type", "CreateTime")) not in _TYPE_NAMES.values():
        raise InputError(f"timestamp_type must be {' or '.join(_TYPES)}, not {timestamp_type!r}")
    kind = _TYPES[str(timestamp_type)]
    if kind is TimestampType.CREATE_TIME and (complaint := too_far_ahead(timestamp_ms, now_ms, after_max_ms)) is not None:
        raise InputError(complaint)
    record = Record(
        timestamp_ms=timestamp_ms, key=_content(fields, "key"), value=_content(fields, "value"), headers=_headers(fields.get("headers"))
    )
    return InputRecord(partition=TopicPartition(topic, partition), record=record, timestamp_type=kind, producer=_producer(fields))


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object of its fields; JSON lets a name stand twice, and all values but the last would be lost."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise InputError(f"field {double!r} stands there more than once; give each field once, and repeated headers as a list of pairs")
    return fields


def _producer(fields: dict[str, object]) -> ProducerSequence | None:
    given = [name for name in ("producer_id", "producer_epoch", "sequence") if name in fields]
    if not given:
        return None
    if len(given) != 3:
        raise InputError(f"{', '.join(given)} without the rest: producer_id, producer_epoch and sequence go together")
    return ProducerSequence(
        producer_id=_integer(fields, "producer_id", 0, _INT64_MAX),
        producer_epoch=_integer(fields, "producer_epoch", 0, 2**15 - 1),
        base_sequence=_integer(fields, "sequence", 0, 2**31 - 1),
    )


def _integer(fields: dict[str, object], name: str, low: int, high: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(f"{name} must be a whole number from {low} to {high}, not {value!r}")
    return value


def _content(fields: dict[str, object], name: str) -> bytes | None:
    encoded_name = f"{name}_{_BASE64}"
    if name in fields and encoded_name in fields:
        raise InputError(f"give {name} or {encoded_name}, not both")
    if (encoded := fields.get(encoded_name)) is not None:
        return _bytes(encoded, encoded_name)
    return _text(fields.get(name), name, encoded_name)


def _headers(value: object) -> tuple[tuple[str, bytes | None], ...]:
    if value is None:
        return ()
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise InputError("headers must be a list of pairs of a name and a value, or an object")
    return tuple(_header(name, content) for name, content in cast(list[tuple[object, object]], pairs))


def _header(name: object, content: object) -> tuple[str, bytes | None]:
    name_bytes = _part(name, "the name of a header")
    if name_bytes is None:
        raise InputError("the name of a header must not be null")
    return (shown := header_name(name_bytes)), _part(content, f"header {shown!r}")


def _part(value: object, name: str) -> bytes | None:
    if isinstance(value, dict) and set(value) == {_BASE64}:
        return _bytes(value[_BASE64], name)
    return _text(value, name, f'{{"{_BASE64}": ...}}')


def _bytes(encoded: object, name: str) -> bytes:
    if not isinstance(encoded, str):
        raise InputError(f"{name} must be base64 text")
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise InputError(f"{name} is not base64: {error}") from error


def _text(value: object, name: str, for_bytes: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"{name} must be a text or null, not {value!r}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name} is no valid text: {error}; use {for_bytes} for bytes") from error
