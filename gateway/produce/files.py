"""WAL files of batches that came in requests: sorted by partition, one buffer, with the rows that commit them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from coordinator.kafka.batches import KEY_PARTS
from coordinator.kafka.coordinators import OWNERS_MAX
from coordinator.protocol.commit_file import BATCH
from gateway.produce.checks_loops import gather
from gateway.produce.request import Int64s, PendingProduce

Rows = npt.NDArray[np.void]


class FilePart(NamedTuple):
    """Batches of one request. `rows` have the dtype BATCH, without places in a file; `starts` says where each batch is in the request's
    bytes, `places` to which of its partitions it belongs, `coordinators` whose its partition is."""

    pending: PendingProduce
    rows: Rows
    starts: Int64s
    places: Int64s
    coordinators: Int64s
    size_bytes: int

    def cut(self, bytes_max: int, batches_max: int) -> Iterator[FilePart]:
        """Yield the part in pieces that are no larger, or have one batch."""
        if len(self.rows) <= batches_max and self.size_bytes <= bytes_max:
            yield self
            return
        ends = np.cumsum(self.rows["size"], dtype=np.int64)
        first, before = 0, 0
        while first < len(self.rows):
            stop = int(np.searchsorted(ends, before + bytes_max, "right"))
            stop = min(max(stop, first + 1), first + batches_max)
            cut, end = slice(first, stop), int(ends[stop - 1])
            yield FilePart(self.pending, self.rows[cut], self.starts[cut], self.places[cut], self.coordinators[cut], end - before)
            first, before = stop, end


class FileLoad(NamedTuple):
    """Batches of many requests as columns. `of_part` says from which of `pendings` each is."""

    pendings: Sequence[PendingProduce]
    rows: Rows
    of_part: Int64s
    starts: Int64s
    places: Int64s
    coordinators: Int64s

    def only(self, which: npt.NDArray[np.bool_] | Int64s) -> FileLoad:
        """Some of the batches, by a mask or by their indexes."""
        return FileLoad(
            self.pendings, self.rows[which], self.of_part[which], self.starts[which], self.places[which], self.coordinators[which]
        )

    def by_request(self) -> Iterator[tuple[PendingProduce, Int64s]]:
        """Yield the requests with the indexes of their batches, ascending."""
        order = np.argsort(self.of_part, kind="stable")
        numbers = self.of_part[order]
        starts = (np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist()
        for first, stop in pairwise([0, *starts, len(order)]):
            yield self.pendings[numbers[first]], order[first:stop]


def load_of(parts: Sequence[FilePart]) -> FileLoad:
    """Put parts together in order. There must be one."""
    counts = [len(part.rows) for part in parts]
    return FileLoad(
        [part.pending for part in parts],
        # Numpy does not concatenate rows whose fields overlap.
        np.frombuffer(bytearray(b"".join([part.rows.tobytes() for part in parts])), BATCH),
        np.repeat(np.arange(len(parts), dtype=np.int64), counts),
        np.concatenate([part.starts for part in parts]),
        np.concatenate([part.places for part in parts]),
        np.concatenate([part.coordinators for part in parts]),
    )


def by_owners(load: FileLoad) -> Iterator[FileLoad]:
    """Yield loads of no more coordinators than a file may have."""
    ids = np.unique(load.coordinators)
    if len(ids) <= OWNERS_MAX:
        yield load
        return
    for first in range(0, len(ids), OWNERS_MAX):
        yield load.only(np.isin(load.coordinators, ids[first : first + OWNERS_MAX]))


def sorted_load(load: FileLoad) -> FileLoad:
    """Sort batches by partition, those of one in the order in which they came, and give them their places in a file."""
    parts = load.rows.view(KEY_PARTS)
    order = np.lexsort([np.ascontiguousarray(parts[name]) for name in ("partition", "low", "high")])
    found = load.only(order)
    sizes = found.rows["size"].astype(np.int64)
    found.rows["byte_offset"] = np.cumsum(sizes) - sizes
    return found


def file_bytes(load: FileLoad) -> bytes:
    """The bytes of a file of a sorted load."""
    views = [memoryview(pending.request.data) for pending in load.pendings]
    sizes = load.rows["size"].astype(np.int64)
    return b"".join(gather(views, load.of_part.data, load.starts.data, sizes.data))
