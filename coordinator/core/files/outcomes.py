"""The results that the loops of `request_loops` and `commit_loops` return."""

from __future__ import annotations

BAD_MAGIC, BAD_RANGE, BAD_OFFSETS, BAD_TYPE, BAD_TIME, OUT_OF_ORDER = range(1, 7)
"""Results of `read_requests`: the fault of a batch; OUT_OF_ORDER: all batches are lawful, but not in the order of their bytes."""

DECIDED, HAS_REFUSALS, UNKNOWN_PARTITION = range(3)
"""Results of `decide_files`: all batches are accepted or duplicates; some are refused; no batch is decided, because a partition is
unknown here or its log is not initialised."""

NO_PARTITION, WRONG_OFFSET, FAR_BYTES, OLD_EPOCH, WRONG_SEQUENCE, PENDING = range(1, 7)
"""Results of `apply_files`: the reason why a file cannot be applied."""

UNDO_WIDTH = 14
"""Cells that `apply_files` needs to take one batch back."""
