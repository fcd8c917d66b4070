"""The port of an object store: the operations this project needs of any store.

Keys are relative paths with '/' between non-empty segments; a prefix is empty or ends with '/'. Every call is bounded in
time and either did what it says or raises one of the errors here; after `StoreUnavailable` the outcome of a write or
delete is unknown, and repeating it is safe.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from coordinator.errors import DisklessError

R = TypeVar("R", bound=tuple[int, int])

KEY_BYTES_MAX = 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOT_LISTED = re.compile(r"[\ufffd-\uffff]")
"""XML has no U+FFFE and U+FFFF, so a listing of S3 may have U+FFFD instead of them, which then tells of no object that can be named."""
_SEGMENT = r"(?!\.{1,2}(?:/|$))[^/\x00-\x1f\x7f\ud800-\udfff\ufffd-\uffff]+"
_KEY = re.compile(f"{_SEGMENT}(?:/{_SEGMENT})*")


class StoreError(DisklessError):
    """An operation on the object store failed; the text names store, key and reason."""


class ObjectExists(StoreError):
    """A create-only put met an object of that key."""


class ObjectMissing(StoreError):
    """The store has no object of that key."""


class StoreDenied(StoreError):
    """The store refused the credentials or the permission; retrying does not help."""


class StoreUnavailable(StoreError):
    """The store did not answer, or not in time; try again."""


class InvalidKey(DisklessError, ValueError):
    """The key is no relative path of non-empty segments; no store would keep it as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One object of a listing, whose key may be one that `is_key` refuses."""

    key: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """Outcome of a bulk delete: `confirmed` keys are gone (or never were there); `error` is why the others are not."""

    confirmed: frozenset[str]
    error: StoreError | None


class ObjectStore(Protocol):
    """A place for objects. Methods raise `StoreError` and its kinds, and `InvalidKey`."""

    @property
    def location(self) -> str:
        """The store's URL, for messages."""

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        """Store an object whole or not at all, durably. With `create_only` raise `ObjectExists` if the key is taken."""

    async def get(self, key: str) -> bytes:
        """Read a whole object."""

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        """Read ranges, each a start and a size, with as few requests as is sensible; raises `StoreError` when the object ends before.

        Views may be of larger buffers, which they keep in memory.
        """

    async def get_up_to(self, key: str, start: int, size_bytes: int) -> bytes:
        """Read `size_bytes` from `start`, or what there is of them; raises `StoreError` when the object ends at `start` or before."""

    def read(self, key: str) -> AsyncIterator[bytes]:
        """Read a whole object in chunks, for objects too large for memory."""

    async def head(self, key: str) -> StoredObject | None:
        """Tell size and time of an object, or None when there is none."""

    async def delete_many(self, keys: Sequence[str]) -> Deleted:
        """Delete objects; a missing one counts as deleted. Never raises for what the store said."""

    def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        """List objects below a prefix in ascending order of their keys, those greater than `after`, which may be any text, in chunks.

        Keys come as the store has them: of one for which `is_key` is false nothing but the name can be used.
        """

    async def ping(self) -> None:
        """Find out quickly, without retries, whether the store can be used."""


def grouped_ranges(ranges: Iterable[R], gap_bytes: int, bytes_max: int) -> list[list[R]]:
    """Group sorted ranges (start, stop) that are read as one: gaps have at most `gap_bytes`, groups of several at most `bytes_max`."""
    groups: list[list[R]] = []
    start = stop = 0
    for one in ranges:
        if groups and one[0] <= stop + gap_bytes and one[1] - start <= bytes_max:
            groups[-1].append(one)
            stop = max(stop, one[1])
        else:
            groups.append([one])
            start, stop = one
    return groups


def is_key(key: str) -> bool:
    """Whether an object can have this key."""
    return _KEY.fullmatch(key) is not None and len(key.encode()) <= KEY_BYTES_MAX


def key_fault(key: str) -> str:
    """Why no object can have this key, as a sentence; empty if one can."""
    # Commits and deletions check each key on the event loop: one search, and the reasons only for a key that has one.
    if is_key(key):
        return ""
    key_bytes = len(key.encode(errors="surrogatepass"))
    if not 0 < key_bytes <= KEY_BYTES_MAX:
        return f"object key has {key_bytes} bytes; it must have 1 to {KEY_BYTES_MAX}"
    if _CONTROL.search(key) is not None:
        return f"object key {key!r} must not contain control characters"
    if _NOT_LISTED.search(key) is not None:
        return f"object key {key!r} must not contain U+FFFD, U+FFFE or U+FFFF, which stands for what a listing cannot say"
    return f"object key {key!r} must be a relative path of non-empty segments without . and .."


def check_key(key: str) -> str:
    """Return the key, or raise `InvalidKey`."""
    if fault := key_fault(key):
        raise InvalidKey(fault)
    return key


def check_prefix(prefix: str) -> str:
    """Return the prefix, or raise `InvalidKey`."""
    if prefix and not prefix.endswith("/"):
        raise InvalidKey(f"prefix {prefix!r}: must be empty or end with '/'")
    if prefix:
        check_key(prefix[:-1])
    return prefix
