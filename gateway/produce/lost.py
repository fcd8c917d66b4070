"""Batches of producers that were given up with their files, or came where the partition is not, as before or after a move.

Their producers repeat them, but may have sent later ones already. A coordinator refuses those as out of order, upon which librdkafka begins
a new epoch and sends everything without an outcome again, in all partitions: what was told to have timed out, and is committed yet, would
be there twice. If it knows nothing of the producer, it takes the later one for the first, and refuses the right one ever after. So while a
producer may not have learned that a batch is to be repeated, nothing later of it is committed in that partition.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

LEARNED_S: Final = 5.0
"""Producers have learned of a refusal then. It may not last for ever: the batch may have been repeated at another gateway."""
LOST_MAX: Final = 10_000
"""The oldest are forgotten when there are more."""
SEQUENCES: Final = 1 << 31
"""Behind the last sequence comes 0."""

Rows = npt.NDArray[np.void]
_Producer = tuple[bytes, int, int]


class _Lost(NamedTuple):
    sequence: int
    until_s: float


class LostBatches:
    """The first batch that each producer has to repeat, by partition, producer id and epoch. Rows have the dtype BATCH."""

    def __init__(self) -> None:
        self._lost: dict[_Producer, _Lost] = {}

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._lost)

    def lose(self, rows: Rows, now_s: float) -> None:
        """Note batches that are given up, or refused where their partitions are not."""
        for row in rows[rows["producer_id"] >= 0]:
            producer, sequence = _producer(row), int(row["base_sequence"])
            known = self._lost.pop(producer, None)
            first = known.sequence if known is not None and _is_later(sequence, known.sequence) else sequence
            self._lost[producer] = _Lost(first, now_s + LEARNED_S)
        while len(self._lost) > LOST_MAX:
            del self._lost[next(iter(self._lost))]

    def are_missing(self, rows: Rows, now_s: float) -> npt.NDArray[np.bool_]:
        """Return which batches, in the order of the log, would be committed before one that their producer has to repeat."""
        missing = np.zeros(len(rows), bool)
        while self._lost and next(iter(self._lost.values())).until_s <= now_s:
            del self._lost[next(iter(self._lost))]
        for place in np.flatnonzero(rows["producer_id"] >= 0).tolist() if self._lost else ():
            producer, sequence = _producer(rows[place]), int(rows[place]["base_sequence"])
            lost = self._lost.get(producer)
            if lost is None:
                continue
            if _is_later(sequence, lost.sequence):
                missing[place] = True
            elif sequence == lost.sequence:
                del self._lost[producer]
        return missing


def _producer(row: np.void) -> _Producer:
    return row["topic_partition"].tobytes(), int(row["producer_id"]), int(row["producer_epoch"])


def _is_later(sequence: int, than: int) -> bool:
    return 0 < (sequence - than) % SEQUENCES < SEQUENCES // 2
