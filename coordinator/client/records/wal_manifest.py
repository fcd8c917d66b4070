"""The manifest beside a WAL file: which topic partition each batch belongs to, as batches do not name it themselves.

JSON, versioned, in `<file>.json`. Owns the format and its checks; `wal_file` compares it with the file. It repeats what the
file says (sizes, record counts, checksums) so that a manifest of another file, or a cut file, is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from coordinator.kafka.names import illegal_topic_name

VERSION = 1
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
OBJECT_FORMAT = 1  # WRITE_AHEAD_MULTI_SEGMENT, the ObjectFormat of a CommitFile


class TopicPartition(NamedTuple):
    """A partition of a topic. `topic` is the topic's name, or its id as text where a manifest was written with ids."""

    topic: str
    partition: int


class ManifestError(ValueError):
    """The manifest is not one, or does not fit its file; the text names file, entry and remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestBatch:
    """One batch in file order. `crc` is the CRC32C in the batch's header."""

    topic: str
    partition: int
    byte_offset: int
    size_bytes: int
    record_count: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All batches of one WAL file; `created_ms` is the time the file was packed."""

    created_ms: int
    size_bytes: int
    batches: tuple[ManifestBatch, ...]


def manifest_path(wal: Path) -> Path:
    """Name the manifest of a WAL file."""
    return wal.with_name(wal.name + ".json")


def encode_manifest(manifest: Manifest) -> str:
    """Write a manifest as JSON, one batch per line, the same text for the same manifest."""
    lines = [
        json.dumps(
            {
                "topic": batch.topic,
                "partition": batch.partition,
                "byte_offset": batch.byte_offset,
                "size_bytes": batch.size_bytes,
                "record_count": batch.record_count,
                "crc": batch.crc,
            },
            ensure_ascii=False,
        )
        for batch in manifest.batches
    ]
    fields = {"version": VERSION, "object_format": OBJECT_FORMAT, "created_ms": manifest.created_ms, "size_bytes": manifest.size_bytes}
    head = "".join(f' "{name}": {value},\n' for name, value in fields.items())
    return "{\n" + head + ' "batches": [\n  ' + ",\n  ".join(lines) + "\n ]}\n"


def decode_manifest(text: str, name: str) -> Manifest:
    """Read a manifest; `name` is for messages. Raises `ManifestError`."""
    root = _as_object(_read_json(text, name), name)
    if root.get("version") != VERSION:
        raise ManifestError(f"{name} has version {root.get('version')!r}, only version {VERSION} is known; use a newer diskless")
    if root.get("object_format") != OBJECT_FORMAT:
        raise ManifestError(f"{name} has object_format {root.get('object_format')!r}, only {OBJECT_FORMAT} is known")
    batches = root.get("batches")
    if not isinstance(batches, list):
        raise ManifestError(f"{name} has no list of batches; pack the file again")
    return Manifest(
        created_ms=_number(root, "created_ms", name),
        size_bytes=_number(root, "size_bytes", name),
        batches=tuple(_batch(entry, f"{name}, batch {place}") for place, entry in enumerate(cast(Sequence[object], batches))),
    )


def _read_json(text: str, name: str) -> object:
    try:
        return cast(object, json.loads(text))
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError, too; deep nesting the other
        raise ManifestError(f"{name} is not JSON that can be read: {error}; pack the file again") from error


def _batch(entry: object, name: str) -> ManifestBatch:
    fields = _as_object(entry, name)
    topic = fields.get("topic")
    if not isinstance(topic, str):
        raise ManifestError(f"{name}: topic must be a text")
    illegal = illegal_topic_name(topic)
    if illegal is not None:
        raise ManifestError(f"{name}: {illegal}")
    return ManifestBatch(
        topic=topic,
        partition=_number(fields, "partition", name, high=_INT32_MAX),
        byte_offset=_number(fields, "byte_offset", name),
        size_bytes=_number(fields, "size_bytes", name),
        record_count=_number(fields, "record_count", name),
        crc=_number(fields, "crc", name),
    )


def _as_object(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ManifestError(f"{name} is not a JSON object")
    return cast(dict[str, object], value)


def _number(fields: dict[str, object], key: str, name: str, *, high: int = _INT64_MAX) -> int:
    value = fields.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= high:
        raise ManifestError(f"{name}: {key} must be a number from 0 to {high}, not {value!r}")
    return value
