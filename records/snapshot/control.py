"""The control records of a snapshot, as Kafka has them (KIP-630): the header begins the file, the footer ends it.

A control record has a key of two int16, the version 0 and the type. Kafka's schemas `SnapshotHeaderRecord` and
`SnapshotFooterRecord` are flexible: their tagged fields, of which there are none, take one byte.
"""

from __future__ import annotations

import struct
from typing import Final

from records.snapshot.errors import MalformedRecord

HEADER_KEY: Final = struct.pack(">hh", 0, 3)
FOOTER_KEY: Final = struct.pack(">hh", 0, 4)
FOOTER: Final = struct.pack(">hB", 0, 0)
"""The value of a footer: version 0."""

_HEADER = struct.Struct(">hqB")


def encode_header(log_timestamp_ms: int) -> bytes:
    """Return the value of a header: version 0 and the append time of the last entry that the snapshot contains."""
    return _HEADER.pack(0, log_timestamp_ms, 0)


def decode_header(value: bytes | None) -> int:
    """Return the append time that a header has. Raises `MalformedRecord`."""
    if value is None or len(value) != _HEADER.size:
        raise MalformedRecord(f"the header has {0 if value is None else len(value)} bytes, not {_HEADER.size}")
    version, log_timestamp_ms, tagged_fields = _HEADER.unpack(value)
    if version != 0 or tagged_fields != 0:
        raise MalformedRecord(f"the header has version {version} and {tagged_fields} tagged fields, only version 0 without any is known")
    return int(log_timestamp_ms)
