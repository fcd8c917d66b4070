"""The time in the ULID at the end of an object key, one loop over its characters. Compiled when installed (`setup.py`); the `.pxd`
has the types.
"""

from __future__ import annotations

ULID_CHARACTERS = 26
TIME_CHARACTERS = 10


def ulid_time_ms(key: str, values: bytes) -> int:
    """The time of a ULID at the end of the key's last path segment, at its start or after '-', '_' or '.'; -1 without one.

    `values` has the value of each ASCII character in Crockford's base32, 32 or more for those that are none of its.
    """
    characters, time_characters = ULID_CHARACTERS, TIME_CHARACTERS  # in C variables before anything is added to them
    end = len(key)
    start = end - characters
    time_end = start + time_characters
    if start < 0:
        return -1
    if start > 0:
        before = key[start - 1]
        if before not in "-_./":
            return -1
    time_ms = 0
    for at in range(start, end):
        letter = ord(key[at])
        if letter > 127:
            return -1
        value = values[letter]
        if value > 31:
            return -1
        if at < time_end:
            time_ms = time_ms << 5 | value
    return time_ms
