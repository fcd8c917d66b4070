"""What the loops of `commit_loops` say of a file."""

from __future__ import annotations

BAD_MAGIC, BAD_RANGE, BAD_OFFSETS, BAD_TYPE, BAD_TIME, OUT_OF_ORDER = range(1, 7)
"""Of `read_requests`: what is wrong with a batch; or the batches are lawful, and do not stand in the order of their bytes."""

DECIDED, HAS_REFUSALS, UNKNOWN_PARTITION = range(3)
"""Of `decide_files`: all batches accepted or duplicates; some refused; nothing decided, because a partition is not here or
its log is not initialised."""

NO_PARTITION, WRONG_OFFSET, FAR_BYTES, OLD_EPOCH, WRONG_SEQUENCE, PENDING = range(1, 7)
"""Of `apply_files`: why a file cannot be applied."""

UNDO_WIDTH = 14
"""Cells that `apply_files` needs to take one batch back."""
