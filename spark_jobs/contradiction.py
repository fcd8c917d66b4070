"""Contradictions between an entry and the state before it: single rules for the monitor's scan and store, and for `verify`.

Pure, written anew and not shared with the coordinator. `records.log` decides what contradicts the log by its form alone, for all but
`verify`, which has its own rules of that (`spark_jobs.verify.contradictions`).
"""

from __future__ import annotations

from records.levels import LEVEL_LATEST
from records.log import BrokenRule
from records.model import (
    FeatureLevelSet,
    Record,
    RecordsDeleted,
)

SEQUENCE_MASK = 0x7FFFFFFF
BATCH_BYTE_MAX = (1 << 31) - 1
"""Where in its file a batch may begin."""


def offset_conflict(expected: int, found: int, end: int) -> BrokenRule | None:
    """Compare where offsets `[found, end)` must begin with where they do."""
    if found == expected:
        return None
    if found > expected:
        return BrokenRule("offset-gap", f"{_span(expected, found)} missing", expected, found)
    if end > expected:
        return BrokenRule("offset-overlap", f"{_span(found, expected)} assigned again", expected, found)
    return BrokenRule("offset-regression", f"{_span(found, end)} assigned again", expected, found)


def _span(first: int, end: int) -> str:
    return f"offset {first} is" if end == first + 1 else f"offsets {first} to {end - 1} are"


def producer_conflict(producer_id: int, epoch: int, next_sequence: int, found_epoch: int, found_sequence: int) -> BrokenRule | None:
    """Compare a batch of a producer with what must come next. Epochs grow; a new one begins with sequence 0."""
    named = f"producer {producer_id}"
    if found_epoch < epoch:
        message = f"{named}: a batch of epoch {found_epoch} was accepted after epoch {epoch}"
        return BrokenRule("producer-epoch-regression", message, epoch, found_epoch)
    if found_epoch > epoch:
        if found_sequence == 0:
            return None
        return BrokenRule("sequence-gap", f"{named}: epoch {found_epoch} begins with sequence {found_sequence}", 0, found_sequence)
    ahead = (found_sequence - next_sequence) & SEQUENCE_MASK
    if not ahead:
        return None
    if ahead <= SEQUENCE_MASK // 2:
        what = f"sequence {next_sequence} is" if ahead == 1 else f"sequences from {next_sequence} to before {found_sequence} are"
        return BrokenRule("sequence-gap", f"{named}: {what} missing", next_sequence, found_sequence)
    message = f"{named}: sequence {found_sequence} was accepted again, {next_sequence} was due"
    return BrokenRule("sequence-duplicate", message, next_sequence, found_sequence)


def first_sequence_conflict(producer_id: int, base_offset: int, found_sequence: int) -> BrokenRule | None:
    """Judge the first batch of a producer that has no state: only the first record of a partition has to begin with sequence 0."""
    if base_offset > 0 or found_sequence == 0:
        return None
    message = f"producer {producer_id}: the first record of the partition has sequence {found_sequence}"
    return BrokenRule("sequence-gap", message, 0, found_sequence)


def position_conflict(key: str, byte_offset: int) -> BrokenRule:
    """A batch that begins beyond what can be asked for."""
    message = f"a batch of file {key} begins at byte {byte_offset}, the last possible is {BATCH_BYTE_MAX}"
    found = min(byte_offset, (1 << 63) - 1)
    return BrokenRule("batch-beyond-limit", message, BATCH_BYTE_MAX, found)


def deletion_conflict(record: RecordsDeleted, high_watermark: int) -> BrokenRule | None:
    """Compare a deletion with the high watermark of its partition."""
    target = record.new_log_start_offset
    if target <= high_watermark:
        return None
    message = "records are deleted past the high watermark"
    return BrokenRule("log-start-above-high-watermark", message, high_watermark, target, record.topic_id)


def live_conflict(rule: str, key: str, live_batches: int) -> BrokenRule | None:
    """Return the broken rule if a file that is removed or handed over has live batches."""
    if live_batches <= 0:
        return None
    what = rule.removeprefix("live-file-").replace("-", " ")
    return BrokenRule(rule, f"file {key} is {what} though it has live batches", 0, live_batches)


def stops_replicas(record: Record) -> str | None:
    """Why replicas of this version cannot apply a record: they stop at its entry, and follow the log only with a newer version."""
    if isinstance(record, FeatureLevelSet) and record.level > LEVEL_LATEST:
        return f"it raises the schema level to {record.level}, replicas of this version have levels up to {LEVEL_LATEST}"
    return None
