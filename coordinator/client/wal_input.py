"""Records for a WAL file from JSON lines, one record per line:

    {"topic": "orders", "partition": 0, "key": "k", "value": "v", "headers": {"h": "x"}, "timestamp": 1700000000000,
     "producer_id": 7, "producer_epoch": 0, "sequence": 0}

Only topic and partition are needed. `key`, `value` and header values are texts or null; `key_base64` and `value_base64`
give bytes instead. The three producer fields go together. Unknown fields are errors: a misspelt one would lose data.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from coordinator.client.wal_manifest import TopicPartition
from coordinator.kafka.names import illegal_topic_name
from records.record_batch import ProducerSequence, Record

_FIELDS = frozenset(
    {
        "topic",
        "partition",
        "key",
        "value",
        "key_base64",
        "value_base64",
        "headers",
        "timestamp",
        "producer_id",
        "producer_epoch",
        "sequence",
    }
)


class InputError(ValueError):
    """A line is no record; the text gives its number, the field and the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """One line: a record, its partition, and its producer if it has one."""

    partition: TopicPartition
    record: Record
    producer: ProducerSequence | None


def parse_lines(lines: Iterable[str], *, default_timestamp_ms: int) -> Iterator[InputRecord]:
    """Read records from lines; blank lines are skipped. Raises `InputError` at the first line that is wrong."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _record(line, default_timestamp_ms)
            except InputError as error:
                raise InputError(f"line {number}: {error}") from error


def _record(line: str, default_timestamp_ms: int) -> InputRecord:
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
    timestamp_ms = default_timestamp_ms if "timestamp" not in fields else _integer(fields, "timestamp", 0, 2**63 - 1)
    record = Record(
        timestamp_ms=timestamp_ms, key=_content(fields, "key"), value=_content(fields, "value"), headers=_headers(fields.get("headers"))
    )
    return InputRecord(partition=TopicPartition(topic, partition), record=record, producer=_producer(fields))


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object of its fields; JSON lets a name stand twice, and all values but the last would be lost."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise InputError(f"field {double!r} stands there more than once; give each field once")
    return fields


def _producer(fields: dict[str, object]) -> ProducerSequence | None:
    given = [name for name in ("producer_id", "producer_epoch", "sequence") if name in fields]
    if not given:
        return None
    if len(given) != 3:
        raise InputError(f"{', '.join(given)} without the rest: producer_id, producer_epoch and sequence go together")
    return ProducerSequence(
        producer_id=_integer(fields, "producer_id", 0, 2**63 - 1),
        producer_epoch=_integer(fields, "producer_epoch", 0, 2**15 - 1),
        base_sequence=_integer(fields, "sequence", 0, 2**31 - 1),
    )


def _integer(fields: dict[str, object], name: str, low: int, high: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputError(f"{name} must be a whole number from {low} to {high}, not {value!r}")
    return value


def _content(fields: dict[str, object], name: str) -> bytes | None:
    encoded_name = f"{name}_base64"
    if name in fields and encoded_name in fields:
        raise InputError(f"give {name} or {encoded_name}, not both")
    encoded = fields.get(encoded_name)
    if encoded is not None:
        if not isinstance(encoded, str):
            raise InputError(f"{encoded_name} must be base64 text")
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputError(f"{encoded_name} is not base64: {error}") from error
    return _text(fields.get(name), name)


def _headers(value: object) -> tuple[tuple[str, bytes | None], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise InputError("headers must be a JSON object of texts")
    return tuple(_header(name, content) for name, content in cast(dict[str, object], value).items())


def _header(name: str, content: object) -> tuple[str, bytes | None]:
    _text(name, "the name of a header")
    return name, _text(content, f"header {name}")


def _text(value: object, name: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"{name} must be a text or null, not {value!r}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        remedy = f"; use {name}_base64 for bytes" if f"{name}_base64" in _FIELDS else ""
        raise InputError(f"{name} is no valid text: {error}{remedy}") from error
