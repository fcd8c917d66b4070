"""Lines: batches of committed files as rows of numbers, and the names of their columns.

A line is one batch of a CommitFile request; the lines of a file are in the order of the request. Brokers' requests, the
log and the tables of a replica all use this form (`records.committed_files.codec.FileTable`). Numbers are int64; the columns are these:

- FILE: the number of the batch's file in its table. ROW: the row of its partition in the tables of a replica, -1 while unknown;
  it is local to a process and in no record.
- TOPIC_HIGH, TOPIC_LOW, PARTITION: the topic id as two signed numbers (most significant byte first), and the partition index.
- VERDICT: what the coordinator decided on it (`BatchVerdict`).
- BASE_OFFSET: the assigned offset; of a duplicate, that of the first commit; -1 if it was refused. RECORD_COUNT: offsets it takes.
- BYTE_OFFSET, BYTE_SIZE: its place in the file.
- TIMESTAMP (ms), TIMESTAMP_TYPE: 0 is CreateTime, 1 LogAppendTime.
- PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE: -1 in all three if the batch is not idempotent.
- LOG_START: the log start offset of the partition at the commit.
- DETAIL: 0 if accepted; else the number that goes with the verdict.
"""

from __future__ import annotations

from enum import IntEnum

(
    FILE, ROW, TOPIC_HIGH, TOPIC_LOW, PARTITION, VERDICT, BASE_OFFSET, RECORD_COUNT, BYTE_OFFSET, BYTE_SIZE, TIMESTAMP, TIMESTAMP_TYPE,
    PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, LOG_START, DETAIL,
) = range(17)  # fmt: skip
LINE_WIDTH = 17


class BatchVerdict(IntEnum):
    """The decision on one batch; beside each, what DETAIL holds."""

    ACCEPTED = 0
    DUPLICATE = 1
    """The append time that the first commit was answered with, -1 for CreateTime."""
    SEQUENCE_GAP = 2
    """The sequence that was expected."""
    NEW_EPOCH_GAP = 3
    """A new epoch must begin with sequence 0: the epoch in use."""
    FENCED = 4
    """The epoch in use, which is newer."""
    WRONG_SPAN = 5
    """The last sequence that the request gave; its sequences are not as many as its records."""
    NO_ROOM = 6
    """The next offset, after which the partition has no room for the batch."""
