"""The object store over obstore: S3, GCS, Azure, and memory for tests.

Owns the translation of obstore's errors and of our keys (the path of the URL is put before each key here, so that
listing and its `after` mean the same in every store). It never retries beyond obstore's own retries, which end with the
deadline of the request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Literal

import obstore
from obstore import exceptions as obstore_errors
from obstore.store import ObjectStore as RawStore
from obstore.store import S3Store

from coordinator.adapters.objectstore.s3_pages import PageError, S3Pages
from coordinator.object_store import (
    Deleted,
    ObjectExists,
    ObjectMissing,
    StoreDenied,
    StoredObject,
    StoreError,
    StoreUnavailable,
    check_key,
    check_prefix,
    is_key,
)

DELETE_CHUNK = 1_000  # what S3 takes in one request
LIST_CHUNK = 1_000
HEADS_AT_ONCE = 16
PART_BYTES = 8 * 1024 * 1024
"""A larger object is put in parts of this size, several at the same time."""
PING_TIMEOUT = timedelta(seconds=5)
_DENIED = re.compile(r"status code: 40[13]\b")


class UnusualKey(StoreError):
    """An object's key is no plain path, and the store's client refuses the page of a listing that has it."""


class ObstoreStore:
    """An `ObjectStore` (see `port`) over an obstore store."""

    def __init__(self, raw: RawStore, probe: RawStore, *, location: str, base: str, request_timeout_ms: int) -> None:
        """`probe` is the same store without retries, for `ping`; `base` is put before every key, empty or ending with '/'."""
        self._raw = raw
        self._probe = probe
        self._location = location
        self._base = check_prefix(base)
        self._timeout_s = request_timeout_ms / 1000
        self._s3_pages = S3Pages(raw, self._timeout_s) if isinstance(raw, S3Store) else None

    @property
    def location(self) -> str:
        return self._location

    async def put(self, key: str, data: bytes | memoryview | Path, *, create_only: bool = False) -> None:
        with self._errors(f"put {check_key(key)}", needs_object=False):
            async with asyncio.timeout(self._timeout_s):
                # Multipart uploads know no create-only mode; otherwise obstore decides by the size of a part.
                mode: Literal["create", "overwrite"] = "create" if create_only else "overwrite"
                multipart = False if create_only else None
                await obstore.put_async(self._raw, self._base + key, data, mode=mode, use_multipart=multipart, chunk_size=PART_BYTES)

    async def get(self, key: str) -> bytes:
        with self._errors(f"get {check_key(key)}"):
            async with asyncio.timeout(self._timeout_s):
                answer = await obstore.get_async(self._raw, self._base + key)
                return bytes(await answer.buffer_async())

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Sequence[memoryview]:
        for start, size_bytes in ranges:
            _check_range(key, start, size_bytes)
        starts, sizes = [start for start, _ in ranges], [size_bytes for _, size_bytes in ranges]
        if not ranges:
            return []
        what = f"get {check_key(key)} [{starts[0]}, +{sizes[0]})" + (f" and {len(ranges) - 1} ranges more" if len(ranges) > 1 else "")
        with self._errors(what):
            async with asyncio.timeout(self._timeout_s):
                found = [
                    memoryview(one) for one in await obstore.get_ranges_async(self._raw, self._base + key, starts=starts, lengths=sizes)
                ]
        for (start, size_bytes), one in zip(ranges, found, strict=True):
            if len(one) != size_bytes:
                raise StoreError(f"{self._location}: {key} ends at {start + len(one)}, before {start + size_bytes}")
        return found

    async def get_up_to(self, key: str, start: int, size_bytes: int) -> bytes:
        _check_range(key, start, size_bytes)
        with self._errors(f"get {check_key(key)} [{start}, at most +{size_bytes})"):
            async with asyncio.timeout(self._timeout_s):
                answer = await obstore.get_async(self._raw, self._base + key, options={"range": (start, start + size_bytes)})
                return bytes(await answer.buffer_async())

    async def read(self, key: str) -> AsyncIterator[bytes]:
        check_key(key)
        with self._errors(f"get {key}"):
            async with asyncio.timeout(self._timeout_s):
                stream = aiter((await obstore.get_async(self._raw, self._base + key)).stream())
        while True:
            with self._errors(f"get {key}"):
                # The deadline is per chunk: an object may be large, silence may not be long.
                async with asyncio.timeout(self._timeout_s):
                    chunk = await anext(stream, None)
            if chunk is None:
                return
            yield bytes(chunk)

    async def head(self, key: str) -> StoredObject | None:
        try:
            with self._errors(f"head {check_key(key)}"):
                async with asyncio.timeout(self._timeout_s):
                    return self._stored(await obstore.head_async(self._raw, self._base + key))
        except ObjectMissing:
            return None

    async def delete_many(self, keys: Sequence[str]) -> Deleted:
        for key in keys:
            check_key(key)
        confirmed: set[str] = set()
        for first in range(0, len(keys), DELETE_CHUNK):
            chunk = keys[first : first + DELETE_CHUNK]
            try:
                with self._errors(f"delete {len(chunk)} objects from {chunk[0]}", needs_object=False):
                    async with asyncio.timeout(self._timeout_s):
                        await self._delete_chunk(chunk)
            except StoreError as error:
                return Deleted(confirmed=frozenset(confirmed), error=error)
            confirmed.update(chunk)
        return Deleted(confirmed=frozenset(confirmed), error=None)

    async def _delete_chunk(self, keys: Sequence[str]) -> None:
        await obstore.delete_async(self._raw, [self._base + key for key in keys])

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        check_prefix(prefix)
        while True:
            # obstore continues only after keys.
            if self._s3_pages is None or not after or is_key(after):
                try:
                    async for found in self._list(prefix, after):
                        yield found
                        after = found[-1].key if found else after
                    return
                except UnusualKey:
                    if self._s3_pages is None:
                        raise
            with self._errors(f"list {prefix or '/'}", needs_object=False):
                page = await self._s3_pages.read(self._base + prefix, self._base + after if after else "")
            yield [replace(one, key=one.key.removeprefix(self._base)) for one in page.objects]
            if page.is_last:
                return
            after = page.objects[-1].key.removeprefix(self._base)

    async def _list(self, prefix: str, after: str) -> AsyncIterator[Sequence[StoredObject]]:
        """List as obstore does, up to the first page with a key that it refuses. Raises `UnusualKey` there, and other errors of a store."""
        offset = self._base + after if is_key(after) else None
        stream = obstore.list(self._raw, self._base + prefix or None, offset=offset, chunk_size=LIST_CHUNK)
        while True:
            with self._errors(f"list {prefix or '/'}", needs_object=False):
                async with asyncio.timeout(self._timeout_s):
                    chunk = await anext(stream, None)
            if chunk is None:
                return
            found = await self._with_markers([self._stored(meta) for meta in chunk])
            yield found if offset is not None else [stored for stored in found if stored.key > after]

    async def _with_markers(self, listed: Sequence[StoredObject]) -> Sequence[StoredObject]:
        """Give markers of folders, which obstore lists without their last slash, their whole keys; they are empty, and have no head."""
        found = [*listed]
        places = [place for place, stored in enumerate(found) if not stored.size_bytes]
        for first in range(0, len(places), HEADS_AT_ONCE):
            some = places[first : first + HEADS_AT_ONCE]
            heads = await asyncio.gather(*(self.head(found[place].key) for place in some))
            for place, stored in zip(some, heads, strict=True):
                if stored is None or stored.size_bytes:
                    found[place] = replace(found[place], key=f"{found[place].key}/")
        return found

    async def ping(self) -> None:
        with suppress(UnusualKey), self._errors("ping", needs_object=False):
            async with asyncio.timeout(min(self._timeout_s, PING_TIMEOUT.total_seconds())):
                # A listing needs the bucket and the permission; a head would not tell a missing bucket from a missing key.
                async for _chunk in obstore.list(self._probe, self._base or None, chunk_size=1):
                    break

    def _stored(self, meta: obstore.ObjectMeta) -> StoredObject:
        return StoredObject(
            key=meta["path"].removeprefix(self._base),
            size_bytes=meta["size"],
            modified_ms=int(meta["last_modified"].timestamp() * 1000),
        )

    @contextmanager
    def _errors(self, what: str, *, needs_object: bool = True) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise StoreUnavailable(f"{self._location}: {what}: no answer within {self._timeout_s:g} s") from error
        except FileNotFoundError as error:
            if not needs_object:  # the call names no object: the bucket or folder is missing
                raise StoreUnavailable(f"{self._location}: {what}: the bucket or folder is missing; create it") from error
            raise ObjectMissing(f"{self._location}: {what}: not found") from error
        except obstore_errors.AlreadyExistsError as error:
            raise ObjectExists(f"{self._location}: {what}: exists already") from error
        except (obstore_errors.PermissionDeniedError, obstore_errors.UnauthenticatedError, PermissionError) as error:
            raise StoreDenied(f"{self._location}: {what}: {_first_line(error)}; check credentials and permissions") from error
        except obstore_errors.InvalidPathError as error:
            raise UnusualKey(
                f"{self._location}: {what}: {_first_line(error)}; no file has such a key: delete the object, which hides others"
            ) from error
        except PageError as error:
            if error.status in (401, 403):
                raise StoreDenied(f"{self._location}: {what}: {error}; check credentials and permissions") from error
            raise StoreUnavailable(f"{self._location}: {what}: {error}") from error
        except (obstore_errors.BaseError, OSError) as error:
            if _DENIED.search(str(error)):  # a listing does not tell these apart by type
                raise StoreDenied(f"{self._location}: {what}: {_first_line(error)}; check credentials and permissions") from error
            raise StoreUnavailable(f"{self._location}: {what}: {_first_line(error)}") from error


def _check_range(key: str, start: int, size_bytes: int) -> None:
    if start < 0 or size_bytes <= 0:
        raise ValueError(f"range [{start}, +{size_bytes}) of {key}: the start must not be negative, the size positive")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
