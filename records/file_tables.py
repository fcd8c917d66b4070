"""Which row of a table of numbers is what, where loops take the columns of `FileNumbers` together: one table per kind.

Taking a column costs a loop a fifth of a microsecond, and there are seventeen.
"""

from __future__ import annotations

RUNS_OF_FILE, BATCHES_OF_FILE, PRODUCERS_OF_FILE = range(3)
"""Of files."""

RUN_TOPIC, RUN_PARTITION, RUN_LENGTH, RUN_BASE_OFFSET, RUN_LOG_START = range(5)
"""Of runs."""

BYTE_GAP, BYTE_SIZE, RECORD_COUNT_MINUS_ONE, TIMESTAMP_AGE, TIMESTAMP_TYPE = range(5)
"""Of batches."""

PRODUCER_INDEX, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE = range(4)
"""Of idempotent batches."""
