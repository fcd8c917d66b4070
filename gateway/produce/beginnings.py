"""Producers whose first batch in a partition was given up with its file, or came where the partition is not, as before or after a move.

A coordinator takes whatever comes first of a producer that it does not know, and refuses what should have come before it ever after. So
while a producer may not have learned that its first batch is to be repeated, nothing else of it is committed in that partition.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

LEARNED_S: Final = 5.0
"""Producers have learned of a refusal then. It may not last for ever: the first batch may have been repeated at another gateway."""
LOST_MAX: Final = 10_000
"""The oldest are forgotten when there are more."""

Rows = npt.NDArray[np.void]
_Producer = tuple[bytes, int, int]


class LostBeginnings:
    """First batches that were given up, by partition, producer id and epoch. Rows have the dtype BATCH."""

    def __init__(self) -> None:
        self._until_s: dict[_Producer, float] = {}

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._until_s)

    def lose(self, rows: Rows, now_s: float) -> None:
        """Note the first batches among those that are given up, or refused where their partitions are not."""
        for row in rows[(rows["producer_id"] >= 0) & (rows["base_sequence"] == 0)]:
            producer = _producer(row)
            self._until_s.pop(producer, None)
            self._until_s[producer] = now_s + LEARNED_S
        while len(self._until_s) > LOST_MAX:
            del self._until_s[next(iter(self._until_s))]

    def are_missing(self, rows: Rows, now_s: float) -> npt.NDArray[np.bool_]:
        """Return which batches, in the order of the log, would be committed before the first one of their producer."""
        missing = np.zeros(len(rows), bool)
        while self._until_s and next(iter(self._until_s.values())) <= now_s:
            del self._until_s[next(iter(self._until_s))]
        for place in np.flatnonzero(rows["producer_id"] >= 0).tolist() if self._until_s else ():
            producer = _producer(rows[place])
            if producer not in self._until_s:
                continue
            if rows[place]["base_sequence"] == 0:
                del self._until_s[producer]
            else:
                missing[place] = True
        return missing


def _producer(row: np.void) -> _Producer:
    return row["topic_partition"].tobytes(), int(row["producer_id"]), int(row["producer_epoch"])
