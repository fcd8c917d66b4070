"""Logical rows of a state, summed up in groups, so that two states can be compared without moving their rows.

A row belongs to a kind and a group (a user partition, a stretch of files, ...). Equal groups have equal sums; only the
rows of groups that differ are ever looked at, which names what is wrong. Both sides of a comparison, the rebuilt log and
a replica, fill a `Tally` with the same functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from records.state_digest import (
    BATCH_COLUMNS,
    EMPTY,
    Digest,
    hash_batches,
    hash_bytes,
    hash_file,
    hash_item,
    hash_partition,
    hash_position,
    hash_producer,
    hash_tombstone,
    hash_topic,
    key_lanes,
)

FILES_PER_GROUP_BITS = 12

Row = dict[str, object]


class RowKind(StrEnum):
    """The subject of a row. The details are not covered by the service's digest: replicas compute them for themselves."""

    BATCH = "batch"
    PARTITION = "partition"
    PRODUCER = "producer"
    FILE = "file"
    PARTITION_DETAIL = "partition detail"
    FILE_DETAIL = "file detail"
    TOPIC = "topic"
    TOMBSTONE = "tombstone"
    DIRECTORY = "directory"
    HEADER = "header"


DIGESTED = frozenset(RowKind) - {RowKind.PARTITION_DETAIL, RowKind.FILE_DETAIL}

IDENTITY: Mapping[RowKind, tuple[str, ...]] = {
    RowKind.BATCH: ("topic_id", "partition", "base_offset"),
    RowKind.PARTITION: ("topic_id", "partition"),
    RowKind.PRODUCER: ("topic_id", "partition", "producer_id"),
    RowKind.FILE: ("object_key",),
    RowKind.PARTITION_DETAIL: ("topic_id", "partition"),
    RowKind.FILE_DETAIL: ("object_key",),
    RowKind.TOPIC: ("topic_id",),
    RowKind.TOMBSTONE: ("object_key",),
    RowKind.DIRECTORY: ("what", "id"),
    RowKind.HEADER: (),
}
"""The fields that name a row; the others are what it says."""

Group = tuple[RowKind, bytes]


@dataclass(slots=True)
class Sum:
    """The digest of the rows of a group, and how many they are."""

    digest: Digest = EMPTY
    rows: int = 0

    def add(self, digest: Digest, rows: int) -> None:
        """Take some more rows."""
        self.digest = self.digest.plus(digest)
        self.rows += rows


@dataclass(slots=True)
class Tally:
    """The sums of all groups, and the rows of the `wanted` ones."""

    wanted: Set[Group] = frozenset()
    groups: dict[Group, Sum] = field(default_factory=dict)
    rows: list[tuple[RowKind, bytes, Row]] = field(default_factory=list)

    def digest(self) -> Digest:
        """The state digest as the service counts it."""
        total = EMPTY
        for (kind, _), one in self.groups.items():
            if kind in DIGESTED:
                total = total.plus(one.digest)
        return total

    def add(self, kind: RowKind, group: bytes, row: Row, digest: Digest | None = None) -> None:
        """Take a row; without a digest it is hashed as JSON."""
        if digest is None:
            digest = hash_bytes(kind.encode(), json.dumps(row, sort_keys=True).encode())
        self._count(kind, group, digest, 1)
        if (kind, group) in self.wanted:
            self.rows.append((kind, group, row))

    def _count(self, kind: RowKind, group: bytes, digest: Digest, rows: int) -> None:
        self.groups.setdefault((kind, group), Sum()).add(digest, rows)

    # ---- what a state is made of

    def add_batches(self, key: bytes, batches: Mapping[str, npt.NDArray[np.int64]] | npt.NDArray[np.void]) -> None:
        """Take batches of one user partition, named by its key: the columns `BATCH_COLUMNS`."""
        count = len(batches["base"])
        if not count:
            return
        lane_low, lane_high = (np.full(count, lane, np.int64) for lane in key_lanes(key))
        low, high = hash_batches(lane_low, lane_high, batches)
        self.add_hashed_batches(key, Digest(int(low.sum()), int(high.sum())), count, batches)

    def add_hashed_batches(
        self, key: bytes, digest: Digest, count: int, batches: Mapping[str, npt.NDArray[np.int64]] | npt.NDArray[np.void] | None
    ) -> None:
        """Take batches of one user partition whose hashes were summed up already."""
        self._count(RowKind.BATCH, key, digest, count)
        if batches is not None and (RowKind.BATCH, key) in self.wanted:
            named = _of_partition(key)
            columns = [batches[name].tolist() for name in BATCH_COLUMNS]
            names = ("base_offset", "records", "byte_offset", "size_bytes", "file_offset", "place", "timestamp_ms", "timestamp_type")
            self.rows += [(RowKind.BATCH, key, named | dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def add_partition(
        self,
        key: bytes,
        *,
        high_watermark: int,
        log_start: int,
        first_offset: int,
        prefix_start: int,
        leader_epoch: int,
        max_timestamp_ms: int,
        max_timestamp_offset: int,
    ) -> None:
        """Take a user partition that exists."""
        named = _of_partition(key)
        says = {
            "high_watermark": high_watermark,
            "log_start": log_start,
            "first_offset": first_offset,
            "prefix_start": prefix_start,
            "leader_epoch": leader_epoch,
        }
        self.add(RowKind.PARTITION, key, named | says, Digest.from_bytes(hash_partition(key, *says.values())))
        self.add(
            RowKind.PARTITION_DETAIL, key, named | {"max_timestamp_ms": max_timestamp_ms, "max_timestamp_offset": max_timestamp_offset}
        )

    def add_producer(self, key: bytes, *, producer_id: int, epoch: int, last_append_ms: int, ring: bytes) -> None:
        """Take a producer of a user partition; `ring` are its remembered batches, oldest first, as `PRODUCER_RING`."""
        row = _of_partition(key) | {"producer_id": producer_id, "epoch": epoch, "last_append_ms": last_append_ms, "remembered": ring.hex()}
        self.add(RowKind.PRODUCER, key, row, Digest.from_bytes(hash_producer(key, producer_id, epoch, last_append_ms, ring)))

    def add_file(self, file: TalliedFile, live_batches: int, kept: KeptOfFile | None = None) -> None:
        """Take a known file; `live_batches` are those not deleted since, `kept` what a replica wrote beside it (default: what follows)."""
        group = (file.file_offset >> FILES_PER_GROUP_BITS).to_bytes(8, "big")
        row: Row = {
            "object_key": file.object_key,
            "file_offset": file.file_offset,
            "content_hash": file.content_hash.hex(),
            "size_bytes": file.size_bytes,
            "append_time_ms": file.append_time_ms,
            "batches": file.batches,
            "object_format": file.object_format,
            "uploader": file.uploader,
            "owner_ids": file.owner_ids,
            "created_ms": file.created_ms,
        }
        hashed = hash_file(
            file.file_offset,
            file.object_key,
            file.content_hash,
            file.object_format,
            file.size_bytes,
            file.uploader,
            file.owner_ids,
            file.created_ms,
            file.append_time_ms,
            file.batches,
        )
        self.add(RowKind.FILE, group, row, Digest.from_bytes(hashed))
        kept = kept or KeptOfFile(file.record_hash, file.record_hash, file.batches - live_batches, hashed)
        detail = {
            "object_key": file.object_key,
            "live_batches": live_batches,
            "lost_batches": kept.lost_batches,
            "record": kept.record_hash.hex(),
            "record_proof": kept.record_proof.hex(),
            "proof": kept.proof.hex(),
        }
        self.add(RowKind.FILE_DETAIL, group, detail)

    def add_topic(self, topic_id: bytes, *, name: str, order_offset: int, deleted_ms: int) -> None:
        """Take a topic; -1 means not deleted, 0 that no file came after the deletion."""
        row: Row = {"topic_id": topic_id.hex(), "name": name, "order_offset": order_offset, "deleted_ms": deleted_ms}
        self.add(RowKind.TOPIC, topic_id, row, hash_topic(topic_id, name, order_offset, deleted_ms))

    def add_tombstone(self, object_key: str, *, reason: str, time_ms: int, created_ms: int) -> None:
        """Take the tombstone of an object key."""
        group = blake2b(object_key.encode(), digest_size=1).digest()
        row: Row = {"object_key": object_key, "reason": reason, "time_ms": time_ms, "created_ms": created_ms}
        self.add(RowKind.TOMBSTONE, group, row, Digest.from_bytes(hash_tombstone(object_key, reason, time_ms, created_ms)))

    def add_directory(self, what: str, identity: str, says: Mapping[str, object]) -> None:
        """Take an item of the directory: a placement, a deletion, a node, the schema level; `says` are the fields of its record."""
        self.add(RowKind.DIRECTORY, what.encode(), {"what": what, "id": identity, **says}, hash_item(what, identity, says))

    def add_header(self, *, epoch: int, term: int, seq: int, log_time_ms: int) -> None:
        """Take the position of the state besides its offset: the claim in force, its last entry, the log's clock."""
        row: Row = {"epoch": epoch, "term": term, "seq": seq, "log_time_ms": log_time_ms}
        self.add(RowKind.HEADER, b"", row, hash_position(epoch, term, seq, log_time_ms))


class KeptOfFile(NamedTuple):
    """The private columns of a file in a replica: hashes of the kept results and of the file's row, and the batches that are gone."""

    record_hash: bytes
    record_proof: bytes
    lost_batches: int
    proof: bytes


class TalliedFile(NamedTuple):
    """A committed file. `owner_ids` is the list as text, separated by commas; `record_hash` is `hash_record` of its entry."""

    object_key: str
    file_offset: int
    content_hash: bytes
    size_bytes: int
    append_time_ms: int
    batches: int
    object_format: int
    uploader: int
    owner_ids: str
    created_ms: int
    record_hash: bytes


def _of_partition(key: bytes) -> Row:
    return {"topic_id": key[:16].hex(), "partition": int.from_bytes(key[16:], "big", signed=True)}


def differing(ours: Mapping[Group, Sum], theirs: Mapping[Group, Sum]) -> Iterator[Group]:
    """The groups whose sums differ, what the service's digest covers first."""
    for group in sorted(ours.keys() | theirs.keys(), key=lambda group: (list(RowKind).index(group[0]), group[1])):
        if ours.get(group) != theirs.get(group):
            yield group
