"""What can happen to the files of a state database: bits flip, pages become zeros, ends are cut off, files are exchanged.

Functions of a folder and a random generator, so that unit tests can call them; each returns what it did in words.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

DATABASE: Final = re.compile(r"partition-\d+\.db")
SUFFIXES: Final = ("", "-wal", "-shm")
PAGE_BYTES: Final = 4096
FLIPS_MAX: Final = 8
PAGES_MAX: Final = 3


def databases(folder: Path) -> list[Path]:
    """The state databases below a data folder, without what was set aside."""
    return sorted(path for path in folder.rglob("*.db") if DATABASE.fullmatch(path.name))


def parts(database: Path) -> list[Path]:
    """The files of a database that are there and hold something."""
    found = [database.with_name(database.name + suffix) for suffix in SUFFIXES]
    return [path for path in found if path.exists() and path.stat().st_size > 0]


def damage_some(folder: Path, rng: Random, *, is_running: bool) -> list[str]:
    """Damage between one and three files of the databases in a folder; none when there is none."""
    files = [part for database in databases(folder) for part in parts(database)]
    return [damage(file, rng, is_running=is_running) for file in rng.sample(files, min(len(files), rng.randint(1, 3)))]


def damage(file: Path, rng: Random, *, is_running: bool) -> str:
    """Damage one file in place.

    What is mapped by a running process (-shm) is not cut: no disk does that, and the process would get SIGBUS.
    """
    size = file.stat().st_size
    how = rng.choice(("flip", "zero") if is_running and file.name.endswith("-shm") else ("flip", "zero", "cut"))
    with file.open("r+b", buffering=0) as opened:
        match how:
            case "flip":
                count = rng.randint(1, FLIPS_MAX)
                for at in [rng.randrange(size) for _ in range(count)]:
                    flip_bit(opened.fileno(), at, rng.randrange(8))
                return f"{count} bits of {file.name} flipped"
            case "zero":
                pages = rng.randint(1, PAGES_MAX)
                first = rng.randrange(-(-size // PAGE_BYTES)) * PAGE_BYTES
                length = min(pages * PAGE_BYTES, size - first)
                os.pwrite(opened.fileno(), bytes(length), first)
                return f"{length} bytes of {file.name} from {first} on zeroed"
            case _:
                kept = rng.choice((rng.randrange(size), size // PAGE_BYTES // 2 * PAGE_BYTES, 0))
                opened.truncate(kept)
                return f"{file.name} cut from {size} to {kept} bytes"


def flip_bit(descriptor: int, at: int, bit: int) -> None:
    """Flip one bit of an open file."""
    [byte] = os.pread(descriptor, 1, at)
    os.pwrite(descriptor, bytes([byte ^ (1 << bit)]), at)


def swap(first: Path, second: Path, suffixes: Sequence[str] = SUFFIXES) -> None:
    """Exchange the files of two databases, those with these suffixes."""
    for suffix in suffixes:
        one, other = (path.with_name(path.name + suffix) for path in (first, second))
        between = one.with_name(one.name + ".swap")
        for source, target in ((one, between), (other, one), (between, other)):
            if source.exists():
                source.rename(target)


def swap_some(folder: Path, rng: Random) -> str:
    """Exchange two databases, or only their main files, so that the logs beside them belong to others."""
    found = databases(folder)
    if len(found) < 2:
        return "fewer than two databases: none swapped"
    first, second = rng.sample(found, 2)
    suffixes = rng.choice((SUFFIXES, ("",)))
    swap(first, second, suffixes)
    return f"{first.name} and {second.name} swapped{'' if suffixes == SUFFIXES else ' without -wal and -shm'}"


def keep_copies(folder: Path, aside: Path) -> None:
    """Copy every database of a stopped node to a folder beside."""
    shutil.rmtree(aside, ignore_errors=True)
    for database in databases(folder):
        for part in parts(database):
            target = aside / part.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(part, target)


def put_back_some(folder: Path, aside: Path, rng: Random) -> list[str]:
    """Put copies kept earlier back for some databases of a stopped node: whole ones, or the main file beside the newer log."""
    done: list[str] = []
    for kept in databases(aside):
        now = folder / kept.relative_to(aside)
        if rng.random() < 0.4:
            continue
        is_whole = rng.random() < 0.7
        if is_whole:
            for part in parts(now):
                part.unlink()
        for part in parts(kept) if is_whole else [kept]:
            now.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(part, now.with_name(part.name))
        done.append(f"{now.name}{'' if is_whole else ' beside its newer -wal'}")
    return done
