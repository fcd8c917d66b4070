"""Object keys of WAL files: `<prefix><rack>/<ULID>`, so that the key itself says when the file was created.

A ULID is 26 characters of Crockford's base32: 48 bits of milliseconds, 80 random bits. The random bits make keys of
uploaders that never talk to each other distinct. The time is read back by `coordinator.kafka.object_key`.
"""

from __future__ import annotations

from coordinator.kafka.object_key import CROCKFORD, TIME_MAX_MS

RANDOM_BYTES = 10


def new_ulid(now_ms: int, random: bytes) -> str:
    """Make a ULID of a time and ten random bytes. Raises ValueError for other numbers of bytes, and times that it cannot hold."""
    if not 0 <= now_ms <= TIME_MAX_MS:
        raise ValueError(f"now_ms {now_ms}: a ULID holds times from 0 to {TIME_MAX_MS}")
    if len(random) != RANDOM_BYTES:
        raise ValueError(f"{len(random)} random bytes: a ULID takes {RANDOM_BYTES}")
    number = now_ms << 80 | int.from_bytes(random, "big")
    return "".join(CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def new_key(now_ms: int, random: bytes, *, prefix: str = "wal/", rack: str = "") -> str:
    """Make the object key of a new WAL file; `prefix` is empty or ends with '/', the rack may be empty. Raises ValueError."""
    if prefix and not prefix.endswith("/"):
        raise ValueError(f"prefix {prefix!r} must end with '/'")
    folder = "".join(character if character.isalnum() or character in "._-" else "_" for character in rack)
    return prefix + (f"{folder}/" if folder.strip(".") else "") + new_ulid(now_ms, random)
