"""When an object was created, as its key tells: the ULID at the end of the key's last path segment.

The age limit of commits rests on this time, and so does the end of a tombstone: both must go by one time, or a key is committed that
was ruled out. So the time in a key stands, and what is told beside it counts only for keys without one. A key of which no time is
known is never too old, and its tombstone never expires.
"""

from __future__ import annotations

from typing import Final

from coordinator.kafka.object_key_loops import ulid_time_ms

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TIME_MAX_MS = 2**48 - 1

_NO_DIGIT: Final = 0xFF
VALUES: Final = bytes(CROCKFORD.find(chr(code).upper()) & _NO_DIGIT for code in range(128))
"""The value of each ASCII character as a digit of Crockford's base32, `_NO_DIGIT` for others."""


def created_ms_of_key(key: str) -> int | None:
    """Read the creation time from a key, or None when its last path segment does not end with a ULID.

    A ULID may follow other text only behind '-', '_' or '.', and nothing may follow it: a stray run of letters must not
    be taken for a time. Lower case is accepted, as Crockford's base32 allows.
    """
    time_ms = ulid_time_ms(key, VALUES)
    return time_ms if 0 <= time_ms <= TIME_MAX_MS else None


def creation_ms(key: str, told_ms: int) -> int:
    """When an object was created: as its key tells, else as was told; negative when that is not known either."""
    time_ms = created_ms_of_key(key)
    return told_ms if time_ms is None else time_ms
