"""When an object was created, as its key tells: the ULID at the end of the key's last path segment.

The age limit of commits rests on this time; a key without one is never too old, and its tombstone never expires.
"""

from __future__ import annotations

import re
from functools import lru_cache

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TIME_MAX_MS = 2**48 - 1

_ULID_CHARACTERS = 26
_TIME_CHARACTERS = 10
# Both cases are spelled out: str.upper() and re.IGNORECASE would take some letters outside of ASCII for these.
_LETTER = f"[{CROCKFORD}{CROCKFORD.lower()}]"
_ENDS_WITH_ULID = re.compile(rf"(?:^|[-_./])({_LETTER}{{{_TIME_CHARACTERS}}}){_LETTER}{{{_ULID_CHARACTERS - _TIME_CHARACTERS}}}\Z")
_TO_BASE_32 = str.maketrans(CROCKFORD + CROCKFORD.lower(), "0123456789abcdefghijklmnopqrstuv" * 2)


def created_ms_of_key(key: str) -> int | None:
    """Read the creation time from a key, or None when its last path segment does not end with a ULID.

    A ULID may follow other text only behind '-', '_' or '.', and nothing may follow it: a stray run of letters must not
    be taken for a time. Lower case is accepted, as Crockford's base32 allows.
    """
    found = _ENDS_WITH_ULID.search(key, max(0, len(key) - _ULID_CHARACTERS - 1))
    if found is None:
        return None
    time_ms = _time_ms(found.group(1))
    return time_ms if time_ms <= TIME_MAX_MS else None


@lru_cache(maxsize=1024)
def _time_ms(characters: str) -> int:
    """Files are uploaded in bursts: the same time comes again and again."""
    return int(characters.translate(_TO_BASE_32), 32)
