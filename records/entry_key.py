"""The key of an entry as bytes: `epoch int32, term int64, seq int64`, big-endian.

A key that is not well-formed belongs to no term: its message is void for every replica, so reading one never raises.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from records.errors import InvalidRecord

KEY_SIZE_BYTES = 20

_LAYOUT = struct.Struct(">iqq")


class EntryKey(NamedTuple):
    """The key of an entry: leadership epoch, random id of the term, place of the entry in the term."""

    epoch: int
    term: int
    seq: int


def encode_key(key: EntryKey) -> bytes:
    """Return the 20 bytes of a key. Raises InvalidRecord when epoch or seq is negative or a part is too large."""
    if key.epoch < 0 or key.seq < 0:
        raise InvalidRecord(f"epoch and seq of a key are never negative: {key}")
    try:
        return _LAYOUT.pack(*key)
    except struct.error as error:
        raise InvalidRecord(f"{key} does not fit int32, int64, int64") from error


def key_of_term(epoch: int, term: int) -> bytes:
    """Return what the keys of a term begin with; the seq follows as 8 bytes, big-endian. Raises as `encode_key`."""
    return encode_key(EntryKey(epoch, term, 0))[:-8]


def decode_key(key: bytes | None) -> EntryKey | None:
    """Return the parts of a key; None when it is not well-formed (absent, wrong length, negative epoch or seq)."""
    if key is None or len(key) != KEY_SIZE_BYTES:
        return None
    epoch, term, seq = _LAYOUT.unpack(key)
    return EntryKey(epoch, term, seq) if epoch >= 0 and seq >= 0 else None
