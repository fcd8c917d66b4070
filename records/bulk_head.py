"""The heads of many `FileCommitted` entries at once: everything before the columns of numbers.

Fields are read one after the other, each for all messages together. Reading never leaves the buffer and never fails:
a message that does not fit is marked, and its further numbers mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from records.bulk_files import ID_SIZE_BYTES
from records.fast import PREFIX_OF_LEVEL
from records.varints import Bytes, Int64s
from records.wire import INT_MAX, INT_MIN

Mask = npt.NDArray[np.bool_]

OWNERS_MAX = 64
"""A file with more owners is left to the codec: every owner is a step for all messages."""

_PREFIXES = [np.frombuffer(prefix, np.uint8) for prefix in PREFIX_OF_LEVEL.values()]
_SEVEN_BITS = 0x7F
_SHIFT_MAX = 63


@dataclass(slots=True)
class Heads:
    """Columns of heads, one value per message; `owners` has a row per place in the list of owners.

    Positions and `end` are in the buffer: the columns begin at `columns_start`.
    """

    message: Int64s
    end: Int64s
    key_start: Int64s
    key_size: Int64s
    object_format: Int64s
    file_size: Int64s
    uploader_broker_id: Int64s
    owner_count: Int64s
    owners: Int64s
    created_ms: Int64s
    append_time_ms: Int64s
    hash_start: Int64s
    topic_count: Int64s
    topics_start: Int64s
    columns_start: Int64s

    def keep(self, mask: Mask) -> Heads:
        """The heads where a mask holds."""
        return self if mask.all() else Heads(*(getattr(self, field.name)[..., mask] for field in fields(self)))


def find_candidates(data: Bytes, starts: Int64s, ends: Int64s) -> Int64s:
    """The messages that begin as an entry of a single `FileCommitted` of a known level does."""
    found = np.zeros(len(starts), bool)
    if len(data):
        for prefix in _PREFIXES:
            first = data.take(starts[:, None] + np.arange(len(prefix)), mode="clip")
            found |= (first == prefix).all(axis=1) & (ends - starts > len(prefix))
    return found.nonzero()[0]


def read_heads(data: Bytes, message: Int64s, start: Int64s, end: Int64s) -> Heads:
    """The heads of those candidates that have a sound one and something after it."""
    cursor = _Cursor(data, start + len(_PREFIXES[0]), end)
    key_size = cursor.read_count()
    key_start = cursor.skip(key_size)
    object_format, file_size, uploader = cursor.read_int(), cursor.read_long(), cursor.read_int()
    owner_count, owners = cursor.read_ints(OWNERS_MAX)
    created_ms, append_time_ms = cursor.read_long(), cursor.read_long()
    hash_start = cursor.skip(np.full(len(message), ID_SIZE_BYTES))
    topic_count = cursor.read_count(ID_SIZE_BYTES)
    topics_start = cursor.skip(topic_count * ID_SIZE_BYTES)
    cursor.end_array(topic_count)
    heads = Heads(
        message=message,
        end=end,
        key_start=key_start,
        key_size=key_size,
        object_format=object_format,
        file_size=file_size,
        uploader_broker_id=uploader,
        owner_count=owner_count,
        owners=owners,
        created_ms=created_ms,
        append_time_ms=append_time_ms,
        hash_start=hash_start,
        topic_count=topic_count,
        topics_start=topics_start,
        columns_start=cursor.at,
    )
    return heads.keep(cursor.sound & (cursor.at < end))


class _Cursor:
    """A place in every message, which moves from field to field; `sound` is cleared for messages that do not fit."""

    __slots__ = ("at", "data", "ends", "sound")

    def __init__(self, data: Bytes, at: Int64s, ends: Int64s) -> None:
        self.data, self.at, self.ends = data, at, ends
        self.sound: Mask = np.ones(len(at), bool)

    def read_long(self) -> Int64s:
        """Read a number."""
        values, self.at, sound = _read(self.data, self.at)
        self.sound &= sound
        return values

    def read_int(self) -> Int64s:
        """Read a number of 32 bits."""
        values = self.read_long()
        self.sound &= (values >= INT_MIN) & (values <= INT_MAX)
        return values

    def read_count(self, item_size_bytes: int = 1) -> Int64s:
        """Read how many items of a size follow; 0 where they do not fit, so that no place overflows."""
        values = self.read_long()
        fits = (values >= 0) & (values <= (self.ends - self.at) // item_size_bytes)
        self.sound &= fits
        return np.where(fits, values, 0)

    def skip(self, size_bytes: Int64s) -> Int64s:
        """Step over bytes; returns where they start."""
        start = self.at
        self.at = start + size_bytes
        return start

    def read_ints(self, count_max: int) -> tuple[Int64s, Int64s]:
        """Read an array of numbers of 32 bits: how many there are, and a row for each place in it."""
        counts = self.read_count()
        self.sound &= counts <= count_max
        places = int(counts[self.sound].max(initial=0))
        rows = np.zeros((places, len(counts)), np.int64)
        for place, row in enumerate(rows):
            which = (counts > place).nonzero()[0]
            values, self.at[which], sound = _read(self.data, self.at[which])
            self.sound[which] &= sound & (values >= INT_MIN) & (values <= INT_MAX)
            row[which] = values
        self.end_array(counts)
        return counts, rows

    def end_array(self, counts: Int64s) -> None:
        """Step over the end of an array, which an empty one is itself."""
        filled = counts > 0
        self.sound &= ~filled | (self.data.take(self.at, mode="clip") == 0)
        self.at = self.at + filled


def _read(data: Bytes, at: Int64s) -> tuple[Int64s, Int64s, Mask]:
    """The number at each place, the place after it, and whether it has at most 64 bits and no byte too many."""
    byte = data.take(at, mode="clip")
    unsigned = (byte & _SEVEN_BITS).astype(np.int64)
    sound = np.ones(len(at), bool)
    at = at + 1
    more = (byte > _SEVEN_BITS).nonzero()[0]
    shift = 7
    while len(more) and shift <= _SHIFT_MAX:
        byte = data.take(at[more], mode="clip")
        at[more] += 1
        unsigned[more] |= (byte & _SEVEN_BITS).astype(np.int64) << shift
        # A last byte of 0 adds nothing; a tenth byte has one bit left to add.
        sound[more[(byte == 0) if shift < _SHIFT_MAX else (byte != 1)]] = False
        more = more[byte > _SEVEN_BITS]
        shift += 7
    return (unsigned.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(unsigned & 1), at, sound
