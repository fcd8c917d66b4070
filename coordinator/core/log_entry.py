"""Messages of the metadata log, as they were read."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

ENTRY_HASH_BYTES = 16


class ReadEntry(NamedTuple):
    """A message of the metadata log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def size_of(entries: Iterable[ReadEntry]) -> int:
    """Sum the bytes of the keys and values of entries."""
    return sum([len(key or b"") + len(value or b"") for _, _, key, value in entries])


def entry_hash(key: bytes, value: bytes) -> bytes:
    """Identify an entry of the log."""
    return blake2b(key + value, digest_size=ENTRY_HASH_BYTES).digest()


class ContradictoryEntry(NamedTuple):
    """An entry that counts by its key and is void by what it says (`core.contradiction`)."""

    offset: int
    epoch: int
    term: int
    reason: str
