"""The cells of the tables' rows (`keyed_loops.KeyedRows`), by name. The first three are the key."""

from __future__ import annotations

CHANGED = 3
"""Whether the row is noted as changed: 1; 2 when that was taken back."""
VALUES = 4
"""The first cell after them."""

TOPIC_HALF_1, TOPIC_HALF_2, PARTITION_INDEX = range(3)
"""The key of a partition; see `records.committed_files.lines`."""

HIGH_WATERMARK, START_OFFSET, FIRST_OFFSET, PREFIX_START, LEADER_EPOCH, MAX_TIMESTAMP, MAX_TIMESTAMP_OFFSET = range(VALUES, VALUES + 7)
PARTITION_WIDTH = MAX_TIMESTAMP_OFFSET + 1
"""The cells of a partition after its key. START_OFFSET is the log start; FIRST_OFFSET, PREFIX_START and LEADER_EPOCH are of the migration
(`diskless_log`), FIRST_OFFSET is -1 while the partition takes no batches. MAX_TIMESTAMP is the greatest effective timestamp, -1 for none;
its offset is the last one of the first batch that has it."""

OWNER, PRODUCER = range(2)
"""The key of a producer: the row of its partition, and its id; the third number is 0."""

KNOWN_EPOCH, RING_HEAD, RING_COUNT, LAST_APPEND, RING = range(VALUES, VALUES + 5)
"""The cells of a producer after its key. RING_HEAD is the next place to write in the ring of batches, RING_COUNT their number; the ring
begins at RING."""

REMEMBERED_BATCHES = 5
"""Batches remembered per producer and partition, as in Kafka."""

RING_FIRST, RING_LAST, RING_BASE, RING_TIME = range(4)
"""The cells of a remembered batch in the ring: first and last sequence, base offset, append time (-1: CreateTime)."""
RING_WIDTH = 4
PRODUCER_WIDTH = RING + REMEMBERED_BATCHES * RING_WIDTH
