"""The record of orphan scans: one small object in the store, which says how far the round below a prefix is.

It lies beside what it tells of, so that the next leader, on whichever node, goes on where the last one stopped, and a round of
a million objects needs no entry in the log. Nothing depends on the position: one that is old repeats pages, one that is
ahead leaves them to the next round, and without one that can be read a round begins at the first object.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final, cast

from coordinator.object_store import ObjectMissing, ObjectStore
from coordinator.store_mark import SCANS

LOG = logging.getLogger("coordinator.files")

UNUSUAL_TOLD_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCounts:
    """Objects of one round, or of one page: `skipped` are not those of files, `orphans` are those that were found.

    `unusual` ones have keys that no file can have; they stay.
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
class ScanRecord:
    """The content of the record. A round is under way while `started_ms` is not -1: it has looked at all keys up to `after`."""

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
    return f"{SCANS}{prefix}record.json"


async def load_record(store: ObjectStore, prefix: str) -> ScanRecord:
    """Read the record; one that says nothing where there is none, or one that cannot be read. Raises `StoreError` and its kinds."""
    key = record_key(prefix)
    try:
        return decode_record(await store.get(key))
    except ObjectMissing:
        return ScanRecord()
    except ValueError as error:
        LOG.warning("the record of orphan scans cannot be read and is begun anew key=%r reason=%r", key, str(error))
        return ScanRecord()


async def save_record(store: ObjectStore, prefix: str, record: ScanRecord) -> None:
    """Write the record. Raises `StoreError` and its kinds."""
    await store.put(record_key(prefix), encode_record(record))


def encode_record(record: ScanRecord) -> bytes:
    """The record as it lies in the store."""
    return (json.dumps(asdict(record), indent=1) + "\n").encode()


def decode_record(data: bytes) -> ScanRecord:
    """Read a record. Raises ValueError."""
    try:
        read = cast(Mapping[str, object], json.loads(data))
        counts = ScanCounts(**{name: _int64(value) for name, value in cast(dict[str, int], read["counts"]).items()})
        times = {name: _int64(cast(int, read[name])) for name in ("started_ms", "finished_ms")}
        unusual_keys = tuple(map(str, cast(list[str], read["unusual_keys"])))[:UNUSUAL_TOLD_MAX]
        return ScanRecord(after=str(read["after"]), counts=counts, unusual_keys=unusual_keys, **times)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"this is no record of scans: {error!r}") from error


def _int64(value: float) -> int:
    """Raises ValueError, ArithmeticError for a number that no answer can tell."""
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{number} has more than 64 bits")
    return number
