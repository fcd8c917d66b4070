"""Room for what deciding a group needs only while it does, made once, because making arrays costs as much as filling them; and
which row of the tables of numbers is what, where the loops of `commit_loops.py` share them.

Those that `FileNumbers` has too are the first rows of their table, as `records.file_tables` names them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from records.file_tables import BASE_SEQUENCE, PRODUCERS_OF_FILE, RUN_LOG_START, TIMESTAMP_TYPE

FILE_SIZE = PRODUCERS_OF_FILE + 1
FILE_ROWS = FILE_SIZE + 1
"""A table of files."""

RUN_FIRST, SEGMENT_ROW = range(RUN_LOG_START + 1, RUN_LOG_START + 3)
RUN_ROWS = SEGMENT_ROW + 1
"""A table of runs: where each begins; and, by segment, the partition's row."""

ROW, SEGMENT = range(TIMESTAMP_TYPE + 1, TIMESTAMP_TYPE + 3)
BATCH_ROWS = SEGMENT + 1
"""A table of batches: the partition's row, and the place of the partition among the group's."""

PLACE, PRODUCER = range(BASE_SEQUENCE + 1, BASE_SEQUENCE + 3)
IDEMPOTENT_ROWS = PRODUCER + 1
"""A table of idempotent batches: where each is, and the place of its producer among the group's."""

SLOT, EPOCH, START, EXPECTED, CURSOR = range(5)
PRODUCER_ROWS = CURSOR + 1
"""A table of producers, of which `START` has one place more: where the last one's batches end."""

FILE_OF, BASE, COUNT, BYTE_OFFSET, SIZE, TIMESTAMP, TYPE, LOG_START, ORDER, STARTS, STOPS = range(11)
COLUMNS = STOPS + 1
"""Buffers that outlive the decision: the columns of a `CommitBlock`."""

AT, FIRST_SEQUENCE, LAST_SEQUENCE = range(3)
OF_BATCH = LAST_SEQUENCE + 1
PRODUCER_START, PRODUCER_SEGMENT, ITS_ID, ITS_SLOT, ITS_EPOCH = range(5)
OF_PRODUCER = ITS_EPOCH + 1
"""Buffers that outlive the decision: the two tables of `ProducerColumns`."""

_SEEN = 256
_PLACES_MIN = 256


class Scratch:
    """The tables, as long as the largest group so far or longer; what is in them means nothing before they are filled."""

    seen: memoryview[int]
    files: memoryview[int]
    runs: memoryview[int]
    batches: memoryview[int]
    idempotent: memoryview[int]
    producers: memoryview[int]
    segment_rows: npt.NDArray[np.int64]
    """A row of `runs`."""

    def __init__(self) -> None:
        self._places = 0
        self.seen = np.zeros(_SEEN, np.int64).data

    def reserve(self, places: int) -> None:
        """Make room for at least so many places in every table, and one more."""
        if places < self._places:
            return
        self._places = max(_PLACES_MIN, 2 * places)
        kinds = (FILE_ROWS, RUN_ROWS, BATCH_ROWS, IDEMPOTENT_ROWS, PRODUCER_ROWS)
        tables = [np.zeros((rows, self._places), np.int64) for rows in kinds]
        self.files, self.runs, self.batches, self.idempotent, self.producers = (table.data for table in tables)
        self.segment_rows = tables[1][SEGMENT_ROW]
