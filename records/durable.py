"""Writes that survive a crash of the machine: files and names that are brought to the disk, and files that are there whole or not at all.

What is not whole yet is in a file of its own, `NAME.<process>-<chance>.part`, beside the NAME that it is going to have (`part_file`).
Its maker holds a lock on it, which goes with the process however that ends. So a part without a lock is left of a process that was
killed, and the next one that makes a file of this name removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename_durably(source: Path, target: Path) -> None:
    """Rename a file within its folder, so that a crash does not undo it; a file that has the name is replaced. Raises OSError."""
    source.replace(target)
    sync(target.parent)


def part_of(target: Path) -> Path:
    """Name the file in which a program makes what `target` is going to be: no other one has this name."""
    # The number of the process alone is not enough: each of two containers that share a folder may be process 1.
    return target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")


@contextmanager
def part_file(target: Path, mode: int = 0o666) -> Iterator[Path]:
    """Make the empty file in which this process makes what `target` is going to be. Raises OSError.

    Write to it by its name, and publish it or rename it within the block: it is removed at the end. Parts of this target that
    processes which were killed have left are removed before. `mode` is that of the file, less the umask.
    """
    _remove_left_parts(target)
    part, descriptor = _made_part(target, mode)
    try:
        yield part
    finally:
        try:
            _remove(part)
        finally:
            # The lock goes last: a part of which the name and no lock is left would be another process's to remove.
            os.close(descriptor)


def _remove_left_parts(target: Path) -> None:
    """Remove the parts of a target whose makers are no more. One that cannot be examined or removed stays; it does no harm."""
    name = re.compile(re.escape(target.name) + r"\.[0-9]+-[0-9a-f]{8}\.part")
    try:
        left = [Path(one.path) for one in os.scandir(target.parent) if name.fullmatch(one.name)]
    except OSError:
        return  # who makes the part in this folder gets the error
    for part in left:
        with suppress(OSError):
            _remove_unless_locked(part)


def _remove_unless_locked(part: Path) -> None:
    """Remove a part that no process holds. Raises OSError: it is held, or the file system has no locks, so its state is unknown."""
    # No link is followed and no pipe waited for: others may put files into the folder, too. Some file systems lock only files that are
    # open for writing.
    descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            _lock(descriptor)
            _remove(part)
    finally:
        os.close(descriptor)


def _made_part(target: Path, mode: int) -> tuple[Path, int]:
    """Make a part and lock it; on a file system without locks it has none, and is never removed. Raises OSError."""
    while True:
        part = part_of(target)
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        if _is_kept(descriptor):
            return part, descriptor
        # Between its making and its lock another process took it for one that was left.
        _remove(part)
        os.close(descriptor)


def _is_kept(descriptor: int) -> bool:
    """Lock a new part. Returns whether no other process has removed it, or is about to."""
    try:
        _lock(descriptor)
    except BlockingIOError:
        return False
    except OSError:
        return True  # the file system has no locks
    return os.fstat(descriptor).st_nlink > 0


def _remove(part: Path) -> None:
    # SQLite has a journal beside the part that it writes, which only the name of the part leads to.
    part.with_name(f"{part.name}-journal").unlink(missing_ok=True)
    part.unlink(missing_ok=True)


def _lock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_whole(target: Path, data: bytes, *, replace: bool) -> None:
    """Write a file whose content is on the disk before it has its name; the name itself may not be there yet (`sync`).

    Raises FileExistsError when there is a file of this name and it is not to be replaced, OSError.
    """
    with part_file(target) as part:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            part.replace(target)
        else:
            publish_new(part, target)


def publish_new(part: Path, target: Path) -> None:
    """Give a whole file its name, beside the one of `part`. Raises FileExistsError when there is a file of this name, OSError.

    On a file system without links an empty file has the name for a moment.
    """
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no links. An empty file takes the name, which only one process can make; the whole one replaces it.
        target.touch(exist_ok=False)
        try:
            part.replace(target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
