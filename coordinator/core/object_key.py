"""When an object was created, as its key tells: the ULID at the end of the key's last path segment.

The age limit of commits rests on this time; a key without one is never too old, and its tombstone never expires.
"""

from __future__ import annotations

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TIME_MAX_MS = 2**48 - 1

_ULID_CHARACTERS = 26
_TIME_CHARACTERS = 10
# Both cases are spelled out: str.upper() would turn some letters outside of ASCII into these.
_LETTERS = frozenset(CROCKFORD + CROCKFORD.lower())
_TO_BASE_32 = str.maketrans(CROCKFORD + CROCKFORD.lower(), "0123456789abcdefghijklmnopqrstuv" * 2)


def created_ms_of_key(key: str) -> int | None:
    """Read the creation time from a key, or None when its last path segment does not end with a ULID.

    A ULID may follow other text only behind '-', '_' or '.', and nothing may follow it: a stray run of letters must not
    be taken for a time. Lower case is accepted, as Crockford's base32 allows.
    """
    segment = key.rpartition("/")[2]
    ulid = segment[-_ULID_CHARACTERS:]
    before = segment[: -len(ulid)] if ulid else ""
    if len(ulid) != _ULID_CHARACTERS or (before and before[-1] not in "-_."):
        return None
    if not _LETTERS.issuperset(ulid):
        return None
    time_ms = int(ulid[:_TIME_CHARACTERS].translate(_TO_BASE_32), 32)
    return time_ms if time_ms <= TIME_MAX_MS else None
