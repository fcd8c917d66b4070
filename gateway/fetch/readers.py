"""Which readers go through old data in order: what they will ask for next may be read before they ask."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from coordinator.client.model import FetchFrom, PartitionBatches, PartitionId

READERS_MAX: Final = 16_384
_ANSWERS_AHEAD: Final = 3


class _Due(NamedTuple):
    """The offset from which a reader of a partition will ask next; two readers at one place are one."""

    partition: PartitionId
    offset: int


class Readers:
    """Where readers of old data are expected next."""

    def __init__(self) -> None:
        self._due: OrderedDict[_Due, int] = OrderedDict()
        """And for how many more of their answers enough was read ahead."""

    def __len__(self) -> int:
        return len(self._due)

    def bytes_ahead(self, wanted: FetchFrom, bytes_max: int) -> int:
        """How many bytes beyond those that are asked for should be found and read: none for a reader that was not expected here."""
        answers = self._due.get(_Due(wanted.partition, wanted.offset))
        return 0 if answers is None or answers > 1 else min(_ANSWERS_AHEAD * wanted.bytes_max, bytes_max)

    def note(self, partition: PartitionId, found: PartitionBatches, count: int, is_old: bool) -> None:
        """Note that a reader was given the first batches that were found, old ones or not."""
        first, last = found.batches[0], found.batches[count - 1]
        answers = self._due.pop(_Due(partition, first.base_offset), 0)
        if not is_old or last.last_offset + 1 >= found.high_watermark:
            return
        ahead = len(found.batches) - count
        self._due[_Due(partition, last.last_offset + 1)] = _ANSWERS_AHEAD if ahead > count else max(0, answers - 1)
        if len(self._due) > READERS_MAX:
            self._due.popitem(last=False)
