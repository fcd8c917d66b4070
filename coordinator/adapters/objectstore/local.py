"""The object store in a local folder: the embedded default.

Hides where obstore's LocalStore differs from the others: it lists in no order, follows links, and lists nothing at all where one name
is no key; it refuses to delete a missing key, ends a bulk delete at the first trouble, and never calls fsync (without which a stored object
may vanish with the power).
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from obstore.store import LocalStore

from coordinator.adapters.objectstore.store import LIST_CHUNK, ObstoreStore
from coordinator.object_store import StoredObject, StoreUnavailable, check_prefix
from records.durable import sync

_NO_SUCH_OBJECT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})
"""Errors by which no object has the key. Uploaders choose keys, and a lawful key may be one that no file of a folder can have."""
_NO_TEXT = re.compile("[\ud800-\udfff]")
_UNDER_WAY = re.compile(r"#[0-9]+\Z")
"""How obstore names the file of an upload until it is whole; such a key cannot be stored."""
OBJECTS_AT_ONCE = 200
"""A thread lists so many at a time: it keeps the interpreter from the event loop for less than a millisecond."""


class LocalFolderStore(ObstoreStore):
    """An `ObjectStore` (see `port`) in a folder of this machine."""

    def __init__(self, folder: Path, *, request_timeout_ms: int, sorted_max: int = 100_000) -> None:
        """A listing has at most one and a half times `sorted_max` objects in memory."""
        raw = LocalStore(folder)
        super().__init__(raw, raw, location=f"file://{folder}", base="", request_timeout_ms=request_timeout_ms)
        self._folder = folder
        self._synced: set[Path] = set()
        self._sorted_max = sorted_max
        self._deleting = asyncio.Lock()

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        await super().put(key, data, create_only=create_only)
        with self._errors(f"fsync {key}"):
            await asyncio.to_thread(self._sync, self._folder / key)

    def _sync(self, file: Path) -> None:
        """Make file and directory entries durable. Folders on the way need it once: when they were created."""
        sync(file)
        sync(file.parent)
        for folder in file.parent.parents:
            if folder in self._synced or not folder.is_relative_to(self._folder):
                break
            sync(folder)
        self._synced.update(folder for folder in file.parent.parents if folder.is_relative_to(self._folder))

    async def _delete_chunk(self, keys: Sequence[str]) -> None:
        # Threads side by side only wait for the folder, and for the interpreter that the event loop needs.
        async with self._deleting:
            await asyncio.to_thread(self._delete_each, keys)

    def _delete_each(self, keys: Sequence[str]) -> None:
        # Half of what obstore's call takes of a processor that commits need; keys are paths for it, too.
        folder, trouble = os.fsencode(self._folder), None
        for key in keys:
            try:
                os.unlink(b"%b/%b" % (folder, key.encode()))
            except OSError as error:
                # A lost folder says nothing about its objects. One that stays is no reason for the others to stay.
                if error.errno not in _NO_SUCH_OBJECT or not self._folder.is_dir():
                    trouble = trouble or error
        if trouble is not None:
            raise trouble

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        is_all = False
        while not is_all:
            found, is_all = await self._first(prefix, after)
            for first in range(0, len(found), LIST_CHUNK):
                yield found[first : first + LIST_CHUNK]
            after = found[-1].key if found else after

    async def _first(self, prefix: str, after: str) -> tuple[Sequence[StoredObject], bool]:
        """Return the first objects after a key in their order, and whether they are all; this walks the folder once."""
        found: list[StoredObject] = []
        seen = 0
        objects = _objects_below(self._folder, check_prefix(prefix), after)
        while True:
            with self._errors(f"list {prefix or '/'}", needs_object=False):
                async with asyncio.timeout(self._timeout_s):
                    some = await asyncio.to_thread(_take, objects)
            if not some:
                break
            found += some
            seen += len(some)
            if len(found) >= self._sorted_max * 3 // 2:
                found = _smallest(found, self._sorted_max)
        return _smallest(found, self._sorted_max), seen <= self._sorted_max

    async def ping(self) -> None:
        if not await asyncio.to_thread(os.access, self._folder, os.R_OK | os.W_OK | os.X_OK):
            raise StoreUnavailable(f"{self.location}: the folder is missing, or this process may not read and write it")


def _objects_below(folder: Path, prefix: str, after: str) -> Iterator[StoredObject]:
    """The files of a folder, without uploads under way; what vanishes meanwhile is left out. Raises OSError.

    Links below the prefix are not followed: what they lead to has another key already, and would be deleted under this one.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is missing")
    left = [prefix]
    while left:
        below = left.pop()
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder / below) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(f"{below}{entry.name}/")
                    continue
                key = _key_of(below + entry.name)
                if key > after and not _UNDER_WAY.search(key) and entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        found = entry.stat()
                        yield StoredObject(key=key, size_bytes=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)


def _key_of(path: str) -> str:
    """The path of a file as its key; for one that is no text, what `is_key` refuses: the path with escapes, and a slash after it."""
    return path if _NO_TEXT.search(path) is None else os.fsencode(path).decode(errors="backslashreplace") + "/"


def _take(objects: Iterator[StoredObject]) -> list[StoredObject]:
    return list(islice(objects, OBJECTS_AT_ONCE))


def _smallest(found: Sequence[StoredObject], count: int) -> list[StoredObject]:
    return sorted(found, key=lambda stored: stored.key)[:count]
