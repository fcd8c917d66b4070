"""When an object was created, as its key tells: the ULID at the end of the key's last path segment.

The age limit of commits and the end of a tombstone both depend on this time. They must use the same one, or a key is committed that
was ruled out. So the time in a key decides; a time named beside it counts only for keys without one. A key of which no time is
known is never too old, and its tombstone never expires.
"""

from __future__ import annotations

import re
from typing import Final

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TIME_MAX_MS = 2**48 - 1

_ULID_CHARACTERS: Final = 26
_DIGIT: Final = f"[{CROCKFORD}{CROCKFORD[10:].lower()}]"
_ENDS_WITH_ULID: Final = re.compile(rf"[-_./]?([0-7]{_DIGIT}{{9}}){_DIGIT}{{16}}")
"""The first digit of a later time than `TIME_MAX_MS` is above 7."""
_AS_PYTHON: Final = bytes.maketrans(
    (CROCKFORD + CROCKFORD[10:].lower()).encode(), b"0123456789ABCDEFGHIJKLMNOPQRSTUV" + b"ABCDEFGHIJKLMNOPQRSTUV"
)
"""Crockford's digits as `int` reads them in base 32. Tables of bytes are looked up a quarter faster than those of texts."""


def created_ms_of_key(key: str) -> int | None:
    """Read the creation time from a key, or None when its last path segment does not end with a ULID.

    A ULID may follow other text only after '-', '_' or '.', and nothing may follow it: a stray run of letters must not
    be taken for a time. Lower case is accepted, as Crockford's base32 allows.
    """
    found = _ENDS_WITH_ULID.fullmatch(key, max(0, len(key) - _ULID_CHARACTERS - 1))
    return None if found is None else int(found[1].encode().translate(_AS_PYTHON), 32)


def creation_ms(key: str, told_ms: int) -> int:
    """When an object was created: the time in its key, else the given one; negative when neither is known."""
    time_ms = created_ms_of_key(key)
    return told_ms if time_ms is None else time_ms
