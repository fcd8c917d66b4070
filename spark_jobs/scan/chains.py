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

from records.bulk_files import ragged
from spark_jobs.scan.blocks import INDEX_BITS, pack
from spark_jobs.scan.columns import Int64s, Mask, ScannedFiles, starts_of
from spark_jobs.scan.summary import LinkRow, MinuteRow, ProducerLinkRow

SEQUENCE_MASK = 0x7FFFFFFF
MINUTE_MS = 60_000

PartitionName = tuple[bytes, int]

Cut = tuple[int, PartitionName]
"""A step at which something happened to the offsets of a user partition: the link before it does not go on after it."""


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
    pieces: list[tuple[Int64s, Int64s, Int64s, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _ProducerLink:
    at: int
    offset: int
    epoch: int
    base_sequence: int
    next_sequence: int
    append_time_ms: int


class Runs(NamedTuple):
    """The runs of some files, one value per run; `first` is its first batch among all batches."""

    file: Int64s
    partition: Int64s
    base_offset: Int64s
    log_start: Int64s
    first: Int64s
    length: Int64s
    records: Int64s
    size_bytes: Int64s
    names: list[PartitionName]
    """The user partition of each value in `partition`, which are small numbers."""

    def part(self, start: int, stop: int) -> Runs:
        """The runs `[start, stop)`."""
        which = slice(start, stop)
        return Runs(
            self.file[which], self.partition[which], self.base_offset[which], self.log_start[which], self.first[which],
            self.length[which], self.records[which], self.size_bytes[which], self.names,
        )  # fmt: skip


def runs_of(files: ScannedFiles, topic_codes: dict[bytes, int]) -> Runs:
    """Describe the runs of files. `topic_codes` numbers topics; new ones are added to it."""
    file = np.repeat(np.arange(len(files)), files.runs_of_file)
    codes = _topic_codes(files.topic_ids, topic_codes)
    topic = codes[starts_of(files.topics_of_file)[file] + files.run_topic]
    wide = (topic << 32) | files.run_partition
    kinds, partition = _number(wide, topic, files.run_partition)
    topics = list(topic_codes)
    names = [(topics[kind >> 32], kind & 0xFFFFFFFF) for kind in kinds.tolist()]
    first = records = size = starts_of(files.run_length)
    if len(first):
        records = np.add.reduceat(files.record_count_minus_one, first) + files.run_length
        size = np.add.reduceat(files.byte_size, first)
    return Runs(file, partition, files.run_base_offset, files.run_log_start, first, files.run_length, records, size, names)


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


def _number(wide: Int64s, topic: Int64s, partition: Int64s) -> tuple[Int64s, Int64s]:
    """Distinct values of `wide`, and the place of each value among them; a table beats sorting where it fits."""
    if not len(wide):
        return wide, wide
    width = int(partition.max()) + 1
    size = (int(topic.max()) + 1) * width
    if size > _DENSE_MAX:
        kinds, places = np.unique(wide, return_inverse=True)
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
            counts, sizes, files, start, stop = link.pieces[0]
            frame = pack(link.base_offset, counts[start:stop], sizes[start:stop], files[start:stop])
        else:
            counts = np.concatenate([piece[0][piece[3] : piece[4]] for piece in link.pieces])
            sizes = np.concatenate([piece[1][piece[3] : piece[4]] for piece in link.pieces])
            files = np.concatenate([piece[2][piece[3] : piece[4]] for piece in link.pieces])
            frame = pack(link.base_offset, counts, sizes, files)
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
                self._kpart, link.at, link.offset, *key, link.epoch, link.base_sequence, link.next_sequence, link.append_time_ms
            )
        )

    def minutes(self) -> list[MinuteRow]:
        """The activity of user partitions."""
        return [MinuteRow(self._kpart, minute, *name, *numbers) for (minute, name), numbers in self._activity.items()]

    # ---- files

    def add(self, files: ScannedFiles, runs: Runs, cuts: Sequence[Cut] = ()) -> None:
        """Continue the chains with files between which nothing happened to a chain but `cuts`."""
        self._cuts = cuts
        if len(runs.file):
            self._add(files, runs)
        for at, name in cuts:
            link = self._open.get(name)
            if link is not None and link.last_at < at:
                self._close(name)

    def _add(self, files: ScannedFiles, runs: Runs) -> None:
        minute = files.append_ms[runs.file] // MINUTE_MS
        first_minute = int(minute[0])
        if (minute == first_minute).all():
            self._add_runs(files, runs, first_minute)
        else:
            # Minutes change rarely, so pieces of one minute are large.
            edges = [0, *(np.flatnonzero(np.diff(minute)) + 1).tolist(), len(minute)]
            for start, stop in pairwise(edges):
                self._add_runs(files, runs.part(start, stop), int(minute[start]))
        if len(files.producer_index):
            self._add_producers(files, runs)

    def _add_runs(self, files: ScannedFiles, runs: Runs, minute: int) -> None:
        order = _order(runs.partition, len(runs.names))
        partition, length = runs.partition[order], runs.length[order]
        base, log_start = runs.base_offset[order], runs.log_start[order]
        end = base + runs.records[order]
        # A piece is runs of one partition, each of which continues the one before.
        is_first = np.ones(len(order), bool)
        np.not_equal(partition[1:], partition[:-1], out=is_first[1:])
        is_first[1:] |= (base[1:] != end[:-1]) | (log_start[1:] != log_start[:-1])
        ats = files.at[runs.file[order]]
        is_cut = self._find_cuts(runs.names, partition, ats)
        is_first |= is_cut
        starts = is_first.nonzero()[0]
        lasts = np.append(starts[1:], len(order)) - 1
        batch_counts = np.add.reduceat(length, starts)
        stops = batch_counts.cumsum()
        index = ragged(runs.first[order], length)
        counts, sizes = files.record_count_minus_one[index], files.byte_size[index]
        file = runs.file[order]
        names_of_files = ((files.offset << INDEX_BITS) | files.number)[np.repeat(file, length)]
        rows = zip(
            partition[starts].tolist(), is_cut[starts].tolist(), ats[starts].tolist(), ats[lasts].tolist(),
            files.offset[file[starts]].tolist(), base[starts].tolist(),
            end[starts].tolist(), end[lasts].tolist(), log_start[starts].tolist(), batch_counts.tolist(),
            np.add.reduceat(runs.records[order], starts).tolist(), np.add.reduceat(runs.size_bytes[order], starts).tolist(),
            files.append_ms[file[starts]].tolist(), files.append_ms[file[lasts]].tolist(), stops.tolist(), strict=True,
        )  # fmt: skip
        names, is_open, activity = runs.names, self._open, self._activity
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
            link.pieces.append((counts, sizes, names_of_files, stop - batches, stop))
            numbers = activity.get((minute, name))
            if numbers is None:
                activity[(minute, name)] = [batches, records, size]
            else:
                numbers[0] += batches
                numbers[1] += records
                numbers[2] += size

    def _find_cuts(self, names: list[PartitionName], partition: Int64s, ats: Int64s) -> Mask:
        """Which of some sorted runs are the first of their partition after a cut."""
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

    def _add_producers(self, files: ScannedFiles, runs: Runs) -> None:
        file = np.repeat(np.arange(len(files)), files.producers_of_file)
        steps = files.producer_index.cumsum()
        first_of_file = starts_of(files.producers_of_file)[file]
        before = steps[first_of_file] - files.producer_index[first_of_file]
        batch = starts_of(files.batches_of_file)[file] + steps - before
        # All batches of these files belong to runs, in order.
        partition = np.repeat(runs.partition, runs.length)[batch]
        order = _order_of_pairs(partition, files.producer_id, len(runs.names))
        partition, producer_id, epoch = partition[order], files.producer_id[order], files.producer_epoch[order]
        base = files.base_sequence[order]
        next_sequence = (base + files.record_count_minus_one[batch[order]] + 1) & SEQUENCE_MASK
        is_first = np.ones(len(order), bool)
        is_first[1:] = (
            (partition[1:] != partition[:-1]) | (producer_id[1:] != producer_id[:-1]) | (epoch[1:] != epoch[:-1])
            | (base[1:] != next_sequence[:-1])
        )  # fmt: skip
        starts = is_first.nonzero()[0]
        lasts = np.append(starts[1:], len(order)) - 1
        file = file[order]
        rows = zip(
            partition[starts].tolist(), producer_id[starts].tolist(), files.at[file[starts]].tolist(),
            files.offset[file[starts]].tolist(), epoch[starts].tolist(), base[starts].tolist(), next_sequence[lasts].tolist(),
            files.append_time_ms[file[lasts]].tolist(), strict=True,
        )  # fmt: skip
        names, is_open = runs.names, self._producers
        for code, one, at, offset, its_epoch, first, following, append_time_ms in rows:
            key = (*names[code], one)
            link = is_open.get(key)
            if link is not None and link.epoch == its_epoch and link.next_sequence == first:
                link.next_sequence, link.append_time_ms = following, append_time_ms
                continue
            if link is not None:
                self._close_producer(key)
            is_open[key] = _ProducerLink(at, offset, its_epoch, first, following, append_time_ms)


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
