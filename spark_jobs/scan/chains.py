"""Chains of offsets per user partition and of sequences per producer, cut into links.

A link is a stretch of a chain in which each piece continues the one before. Links are all that leaves the scan: wherever a
chain breaks, or something happens that changes what must come next (deletions, expiry), a new link begins, and whether
it continues the chain is judged in one place only, where links are joined (`spark_jobs.store.merge_chains`). So it makes
no difference how a log was cut into pieces, and a scan needs no state of user partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from records.committed_files.lines import (
    BASE_OFFSET,
    BASE_SEQUENCE,
    BYTE_SIZE,
    FILE,
    LOG_START,
    PARTITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TOPIC_HIGH,
    TOPIC_LOW,
)
from spark_jobs.scan.blocks import INDEX_BITS, pack, retention_times
from spark_jobs.scan.columns import Int64s, Mask, ScannedFiles
from spark_jobs.scan.summary import LinkRow, MinuteRow, ProducerLinkRow

SEQUENCE_MASK = 0x7FFFFFFF
MINUTE_MS = 60_000

PartitionName = tuple[bytes, int]

Cut = tuple[int, PartitionName]
"""A step at which something happened to the offsets of a user partition: the link before it does not go on after it."""


Columns = tuple[Int64s, Int64s, Int64s, Int64s]
"""Of batches in the order of their offsets: records less one, sizes, files, times; as `pack` takes them."""


@dataclass(slots=True)
class _Link:
    at: int
    offset: int
    base_offset: int
    first_end: int
    next_offset: int
    log_start: int
    batches: int
    records: int
    size_bytes: int
    first_append_ms: int
    append_ms: int
    last_at: int
    pieces: list[tuple[Columns, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _ProducerLink:
    at: int
    offset: int
    epoch: int
    base_sequence: int
    next_sequence: int
    append_time_ms: int
    base_offset: int


class Partitions(NamedTuple):
    """The user partition of each accepted batch of some files: a small number, and its meaning."""

    number: Int64s
    names: list[PartitionName]


def partitions_of(files: ScannedFiles, topic_codes: dict[bytes, int]) -> Partitions:
    """Number the user partitions of files. `topic_codes` numbers topics; new ones are added to it."""
    lines = files.batches
    if not len(lines):
        return Partitions(np.zeros(0, np.int64), [])
    halves = lines[:, TOPIC_HIGH : TOPIC_LOW + 1]
    is_first = np.ones(len(lines), bool)
    is_first[1:] = (halves[1:] != halves[:-1]).any(axis=1)
    ids = halves[is_first].astype(">i8").view(np.int64)
    topic = _topic_codes(ids, topic_codes)[is_first.cumsum() - 1]
    kinds, number = _number(topic, lines[:, PARTITION])
    topics = list(topic_codes)
    return Partitions(number, [(topics[kind >> 32], kind & 0xFFFFFFFF) for kind in kinds.tolist()])


_FEW_TOPICS = 24


def _topic_codes(ids: Int64s, codes: dict[bytes, int]) -> Int64s:
    """The number of each topic id; while there are few of them, comparing all at once beats looking each one up."""
    found = np.full(len(ids), -1, np.int64)
    for _ in range(_FEW_TOPICS):
        unknown = found < 0
        place = int(unknown.argmax()) if len(ids) else 0
        if not len(ids) or not unknown[place]:
            return found
        one = ids[place]
        found[(ids[:, 0] == one[0]) & (ids[:, 1] == one[1])] = codes.setdefault(one.tobytes(), len(codes))
    return np.array([codes.setdefault(one.tobytes(), len(codes)) for one in ids], np.int64)


_DENSE_MAX = 1 << 16


def _number(topic: Int64s, partition: Int64s) -> tuple[Int64s, Int64s]:
    """Distinct pairs as `topic << 32 | partition`, and the place of each pair among them; a table beats sorting where it fits."""
    width = int(partition.max()) + 1
    size = (int(topic.max()) + 1) * width
    if size > _DENSE_MAX:
        kinds, places = np.unique((topic << 32) | partition, return_inverse=True)
        return kinds, places
    dense = topic * width + partition
    used = np.zeros(size, bool)
    used[dense] = True
    place_of = used.cumsum() - 1
    which = used.nonzero()[0]
    return ((which // width) << 32) | (which % width), place_of[dense]


class Chains:
    """The links of one partition of the metadata topic in one micro-batch, and the activity of user partitions."""

    def __init__(self, kpart: int) -> None:
        self._kpart = kpart
        self._open: dict[PartitionName, _Link] = {}
        self._producers: dict[tuple[bytes, int, int], _ProducerLink] = {}
        self._activity: dict[tuple[int, PartitionName], list[int]] = {}
        self._cuts: Sequence[Cut] = ()
        self.links: list[LinkRow] = []
        self.producer_links: list[ProducerLinkRow] = []

    # ---- what ends links

    def close_partition(self, name: PartitionName) -> None:
        """Something happened to a user partition: what comes next is a new link. Its producers' links end, too."""
        self._close(name)
        for key in [key for key in self._producers if key[:2] == name]:
            self._close_producer(key)

    def close_topic(self, topic_id: bytes) -> None:
        """Like `close_partition`, for all partitions of a topic."""
        for name in [name for name in self._open if name[0] == topic_id]:
            self._close(name)
        for key in [key for key in self._producers if key[0] == topic_id]:
            self._close_producer(key)

    def close_idle_producers(self, before_ms: int) -> None:
        """Producers without a batch since a time are forgotten."""
        for key in [key for key, link in self._producers.items() if link.append_time_ms < before_ms]:
            self._close_producer(key)

    def close(self) -> None:
        """End all links."""
        for name in list(self._open):
            self._close(name)
        for key in list(self._producers):
            self._close_producer(key)

    def _close(self, name: PartitionName) -> None:
        link = self._open.pop(name, None)
        if link is None:
            return
        if len(link.pieces) == 1:
            columns, start, stop = link.pieces[0]
            frame = pack(link.base_offset, *(column[start:stop] for column in columns))
        else:
            parts = [[column[start:stop] for column in columns] for columns, start, stop in link.pieces]
            frame = pack(link.base_offset, *map(np.concatenate, zip(*parts, strict=True)))
        self.links.append(
            LinkRow(
                self._kpart, link.at, link.offset, *name, link.base_offset, link.first_end, link.next_offset, link.log_start,
                link.batches, link.records, link.size_bytes, link.first_append_ms, link.append_ms, frame,
            )
        )  # fmt: skip

    def _close_producer(self, key: tuple[bytes, int, int]) -> None:
        link = self._producers.pop(key)
        self.producer_links.append(
            ProducerLinkRow(
                self._kpart,
                link.at,
                link.offset,
                *key,
                link.epoch,
                link.base_sequence,
                link.next_sequence,
                link.append_time_ms,
                link.base_offset,
            )
        )

    def minutes(self) -> list[MinuteRow]:
        """The activity of user partitions."""
        return [MinuteRow(self._kpart, minute, *name, *numbers) for (minute, name), numbers in self._activity.items()]

    # ---- files

    def add(self, files: ScannedFiles, partitions: Partitions, cuts: Sequence[Cut] = ()) -> None:
        """Continue the chains with files between which nothing happened to a chain but `cuts`."""
        self._cuts = cuts
        if len(files.batches):
            self._add(files, partitions)
        for at, name in cuts:
            link = self._open.get(name)
            if link is not None and link.last_at < at:
                self._close(name)

    def _add(self, files: ScannedFiles, partitions: Partitions) -> None:
        minute = files.append_ms[files.batches[:, FILE]] // MINUTE_MS
        # Minutes change rarely, so pieces of one minute are large.
        edges = [0, *(np.flatnonzero(np.diff(minute)) + 1).tolist(), len(minute)]
        for start, stop in pairwise(edges):
            which = slice(start, stop)
            self._add_batches(files, files.batches[which], partitions.number[which], partitions.names, int(minute[start]))
        self._add_producers(files, partitions)

    def _add_batches(self, files: ScannedFiles, lines: Int64s, number: Int64s, names: list[PartitionName], minute: int) -> None:
        order = _order(number, len(names))
        partition, file = number[order], lines[:, FILE][order]
        base, count = lines[:, BASE_OFFSET][order], lines[:, RECORD_COUNT][order]
        sizes, log_start = lines[:, BYTE_SIZE][order], lines[:, LOG_START][order]
        end = base + count
        # A piece is batches of one partition, each of which continues the one before.
        is_first = np.ones(len(order), bool)
        is_first[1:] = (partition[1:] != partition[:-1]) | (base[1:] != end[:-1]) | (log_start[1:] != log_start[:-1])
        ats = files.at[file]
        is_cut = self._find_cuts(names, partition, ats)
        is_first |= is_cut
        starts = is_first.nonzero()[0]
        stops = np.append(starts[1:], len(order))
        lasts = stops - 1
        names_of_files = ((files.offset << INDEX_BITS) | files.number)[file]
        rows = zip(
            partition[starts].tolist(), is_cut[starts].tolist(), ats[starts].tolist(), ats[lasts].tolist(),
            files.offset[file[starts]].tolist(), base[starts].tolist(),
            end[starts].tolist(), end[lasts].tolist(), log_start[starts].tolist(), (stops - starts).tolist(),
            np.add.reduceat(count, starts).tolist(), np.add.reduceat(sizes, starts).tolist(),
            files.append_ms[file[starts]].tolist(), files.append_ms[file[lasts]].tolist(), stops.tolist(), strict=True,
        )  # fmt: skip
        times = retention_times(lines[:, TIMESTAMP], lines[:, TIMESTAMP_TYPE], files.append_time_ms, lines[:, FILE])
        columns = (count - 1, sizes, names_of_files, times[order])
        is_open, activity = self._open, self._activity
        for code, cut, at, last_at, offset, first, first_end, next_offset, start, batches, records, size, first_ms, append_ms, stop in rows:
            name = names[code]
            link = is_open.get(name)
            if link is None or cut or link.next_offset != first or link.log_start != start:
                if link is not None:
                    self._close(name)
                link = is_open[name] = _Link(
                    at, offset, first, first_end, next_offset, start, batches, records, size, first_ms, append_ms, last_at
                )
            else:
                link.next_offset, link.append_ms, link.last_at = next_offset, append_ms, last_at
                link.batches += batches
                link.records += records
                link.size_bytes += size
            link.pieces.append((columns, stop - batches, stop))
            numbers = activity.get((minute, name))
            if numbers is None:
                activity[(minute, name)] = [batches, records, size]
            else:
                numbers[0] += batches
                numbers[1] += records
                numbers[2] += size

    def _find_cuts(self, names: list[PartitionName], partition: Int64s, ats: Int64s) -> Mask:
        """Which of some sorted batches are the first of their partition after a cut."""
        is_cut = np.zeros(len(partition), bool)
        if not self._cuts:
            return is_cut
        codes = {name: code for code, name in enumerate(names)}
        for at, name in self._cuts:
            code = codes.get(name)
            if code is None:
                continue
            start, stop = np.searchsorted(partition, [code, code + 1]).tolist()
            place = start + int(np.searchsorted(ats[start:stop], at))
            if place < stop:
                is_cut[place] = True
        return is_cut

    def _add_producers(self, files: ScannedFiles, partitions: Partitions) -> None:
        lines = files.batches
        idempotent = (lines[:, PRODUCER_ID] >= 0).nonzero()[0]
        if not len(idempotent):
            return
        number, ids = partitions.number, lines[:, PRODUCER_ID]
        order = idempotent[_order_of_pairs(number[idempotent], ids[idempotent], len(partitions.names))]
        partition, producer_id, file = number[order], ids[order], lines[:, FILE][order]
        epoch, base = lines[:, PRODUCER_EPOCH][order], lines[:, BASE_SEQUENCE][order]
        next_sequence = (base + lines[:, RECORD_COUNT][order]) & SEQUENCE_MASK
        is_first = np.ones(len(order), bool)
        is_first[1:] = (
            (partition[1:] != partition[:-1]) | (producer_id[1:] != producer_id[:-1]) | (epoch[1:] != epoch[:-1])
            | (base[1:] != next_sequence[:-1])
        )  # fmt: skip
        starts = is_first.nonzero()[0]
        lasts = np.append(starts[1:], len(order)) - 1
        append_time_ms = files.append_time_ms
        rows = zip(
            partition[starts].tolist(), producer_id[starts].tolist(), files.at[file[starts]].tolist(),
            files.offset[file[starts]].tolist(), epoch[starts].tolist(), base[starts].tolist(), next_sequence[lasts].tolist(),
            append_time_ms[file[lasts]].tolist(), lines[:, BASE_OFFSET][order][starts].tolist(), strict=True,
        )  # fmt: skip
        names, is_open = partitions.names, self._producers
        for code, one, at, offset, its_epoch, first, following, appended_ms, base_offset in rows:
            key = (*names[code], one)
            link = is_open.get(key)
            if link is not None and link.epoch == its_epoch and link.next_sequence == first:
                link.next_sequence, link.append_time_ms = following, appended_ms
                continue
            if link is not None:
                self._close_producer(key)
            is_open[key] = _ProducerLink(at, offset, its_epoch, first, following, appended_ms, base_offset)


def _order(codes: Int64s, size: int) -> Int64s:
    """Sort small numbers, stable: 16 bits are sorted by counting."""
    narrow = codes.astype(np.uint16) if size <= 1 << 16 else codes
    order: Int64s = np.argsort(narrow, kind="stable")
    return order


def _order_of_pairs(codes: Int64s, ids: Int64s, size: int) -> Int64s:
    """Sort by code, then id, stable."""
    least = int(ids.min())
    if (int(ids.max()) - least + 1) * size <= 1 << 16:
        return _order(codes * (int(ids.max()) - least + 1) + ids - least, 1 << 16)
    by_id: Int64s = np.argsort(ids, kind="stable")
    return by_id[_order(codes[by_id], size)]
