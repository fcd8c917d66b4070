"""The record of orphan scans: one small object in the store, which says whose files are below a prefix and how far the round is.

It lies beside what it tells of, so that the next leader, on whichever node, goes on where the last one stopped, and a round of
a million objects needs no entry in the log. Nothing rests on the position: one that is old repeats pages, one that is
ahead leaves them to the next round. The service that is named is what keeps two services from sharing a prefix (`scan_rivals`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, cast

from coordinator.object_store import ObjectExists, ObjectMissing, ObjectStore, StoreError

FOLDER: Final = "orphan-scan/"
RECORD: Final = "record.json"
UNUSUAL_TOLD_MAX: Final = 10


class PrefixTaken(StoreError):
    """The files below the prefix are another service's, or the record cannot be read; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCounts:
    """Objects of one round, or of one page: `skipped` are not those of files, `orphans` are those that were found.

    `unusual` ones have keys that no file can have, whoever stored them; they stay.
    """

    examined: int = 0
    young: int = 0
    known: int = 0
    skipped: int = 0
    unusual: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    deleted: int = 0
    deleted_bytes: int = 0

    def __add__(self, other: ScanCounts) -> ScanCounts:
        return ScanCounts(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The log whose files are below a prefix; `topic_id` is text."""

    cluster_id: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRecord:
    """The content of the record. A round is under way while `started_ms` is not -1: it has looked at all keys up to `after`."""

    service: Service
    after: str = ""
    started_ms: int = -1
    finished_ms: int = -1
    counts: ScanCounts = ScanCounts()
    """The counts of the round under way, else of the last one."""
    unusual_keys: tuple[str, ...] = ()
    """The first of the unusual keys."""

    @property
    def is_under_way(self) -> bool:
        """Whether a round was begun and not finished."""
        return self.started_ms >= 0


def record_key(prefix: str) -> str:
    """Return the key of the record of scans below a prefix."""
    return f"{FOLDER}{prefix}{RECORD}"


async def load_record(store: ObjectStore, prefix: str, service: Service, restored_from: Service | None) -> ScanRecord:
    """Read the record; where there is none, make one. One of the service that this one was restored from is taken over.

    That of another service is returned as it is. Raises `PrefixTaken` when it cannot be read, and `StoreError` and its kinds.
    """
    key = record_key(prefix)
    try:
        found = decode_record(await store.get(key), f"{store.location}: {key}")
    except ObjectMissing:
        record = ScanRecord(service=service)
        try:
            await store.put(key, encode_record(record), create_only=True)
        except ObjectExists:
            return await load_record(store, prefix, service, restored_from)
        return record
    if restored_from is not None and found.service == restored_from:
        found = ScanRecord(service=service)
        await store.put(key, encode_record(found))
    return found


async def save_record(store: ObjectStore, prefix: str, record: ScanRecord) -> None:
    """Write the record. Raises `StoreError` and its kinds."""
    await store.put(record_key(prefix), encode_record(record))


def encode_record(record: ScanRecord) -> bytes:
    """The record as it lies in the store."""
    return (json.dumps(asdict(record), indent=1) + "\n").encode()


def decode_record(data: bytes, where: str) -> ScanRecord:
    """Read a record; `where` names it in an error. Raises `PrefixTaken`."""
    try:
        read = cast(Mapping[str, object], json.loads(data))
        service = Service(**cast(dict[str, str], read["service"]))
        counts = ScanCounts(**{name: _int64(value) for name, value in cast(dict[str, int], read["counts"]).items()})
        times = {name: _int64(cast(int, read[name])) for name in ("started_ms", "finished_ms")}
        unusual_keys = tuple(map(str, cast(list[str], read["unusual_keys"])))[:UNUSUAL_TOLD_MAX]
        return ScanRecord(service=service, after=str(read["after"]), counts=counts, unusual_keys=unusual_keys, **times)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
        raise PrefixTaken(f"{where} is no record of scans: {error!r}; delete it if no other service writes below its prefix") from error


def _int64(value: float) -> int:
    """Raises ValueError, ArithmeticError for a number that no answer can tell."""
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{number} has more than 64 bits")
    return number
