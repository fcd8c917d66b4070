"""Damages of the files of an open state database: what a disk, a file system, memory or a hand may do to them."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = 4096
NAME = "partition-0.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What was done, for the report."""

    file: str
    kind: str
    offset: int
    size_bytes: int


def flip_bits(path: Path, rng: random.Random) -> tuple[int, int]:
    """One to eight bits within a page."""
    size = path.stat().st_size
    start = rng.randrange(size)
    changed = rng.randint(1, 8)
    with path.open("r+b", buffering=0) as file:
        for _ in range(changed):
            at = min(size - 1, start + rng.randrange(PAGE_BYTES))
            byte = os.pread(file.fileno(), 1, at)
            os.pwrite(file.fileno(), bytes([byte[0] ^ 1 << rng.randrange(8)]), at)
    return start, changed


def overwrite(path: Path, rng: random.Random) -> tuple[int, int]:
    """A page or more of noise, or of zeros."""
    size = path.stat().st_size
    at = rng.randrange(0, size, PAGE_BYTES)
    length = min(size - at, PAGE_BYTES * rng.choice((1, 4, 16)))
    with path.open("r+b", buffering=0) as file:
        os.pwrite(file.fileno(), rng.randbytes(length) if rng.random() < 0.5 else bytes(length), at)
    return at, length


def exchange(path: Path, rng: random.Random) -> tuple[int, int]:
    """A page takes the place of another: each is whole, and in the wrong place."""
    size = path.stat().st_size
    from_, to = (rng.randrange(0, size, PAGE_BYTES) for _ in range(2))
    with path.open("r+b", buffering=0) as file:
        page = os.pread(file.fileno(), PAGE_BYTES, from_)
        os.pwrite(file.fileno(), page[: size - to], to)
    return to, PAGE_BYTES


def truncate(path: Path, rng: random.Random) -> tuple[int, int]:
    """The end is gone, or all of it."""
    size = path.stat().st_size
    left = 0 if rng.random() < 0.4 else rng.randrange(size)
    os.truncate(path, left)
    return left, size - left


def remove(path: Path, _rng: random.Random) -> tuple[int, int]:
    """The name is gone; whoever has the file open goes on with it."""
    size = path.stat().st_size
    path.unlink()
    return 0, size


KINDS = {"flipped": flip_bits, "overwritten": overwrite, "exchanged": exchange, "truncated": truncate, "removed": remove}
ON_FILE = {
    "": ("flipped", "flipped", "overwritten", "exchanged", "truncated", "removed"),
    "-wal": ("flipped", "flipped", "overwritten", "exchanged", "truncated", "truncated", "removed"),
    # Shared memory of this process under a name: to change it is to change memory, to cut it ends the process (SIGBUS).
    "-shm": ("removed",),
}


def damage(folder: Path, rng: random.Random) -> Damage | None:
    """Damage one of the files, or None when there is none to damage."""
    there = [suffix for suffix in ON_FILE if (path := folder / f"{NAME}{suffix}").exists() and path.stat().st_size]
    if not there:
        return None
    suffix = rng.choices(there, [1 if suffix == "-shm" else 10 for suffix in there])[0]
    kind = rng.choice(ON_FILE[suffix])
    offset, size_bytes = KINDS[kind](folder / f"{NAME}{suffix}", rng)
    return Damage(file=NAME + suffix, kind=kind, offset=offset, size_bytes=size_bytes)
