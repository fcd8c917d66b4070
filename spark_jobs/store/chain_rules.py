"""The rules of chains, in the one place where links are joined: what is known of a user partition or a producer, and a link.

Pure. A chain follows what the log says even where it is wrong, so that one fault is one finding and not an endless row.
Rules of producers are those by which a coordinator accepts batches: anything from a producer it does not know; in a known
epoch the next sequence (31 bits, wrapping to 0); in a newer epoch sequence 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from records.model import DisklessLogInitialized, DisklessLogReset, RecordsDeleted
from spark_jobs.scan.summary import FindingRow, LinkRow, ProducerLinkRow

SEQUENCE_MASK = 0x7FFFFFFF


@dataclass(slots=True)
class PartitionState:
    """A user partition. `chained` False: entries were lost, the next link may begin anywhere. `frames` are not written yet."""

    start: int
    next: int
    since: int
    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    append_ms: int = 0
    base: int | None = None
    chained: bool = True
    block_offset: int | None = None
    block_bytes: int = 0
    frames: list[LinkRow] = field(default_factory=list)
    is_changed: bool = False


@dataclass(slots=True)
class ProducerState:
    """A producer in one user partition."""

    epoch: int
    next_sequence: int
    append_time_ms: int
    is_changed: bool = True


def check_link(state: PartitionState | None, row: LinkRow) -> list[FindingRow]:
    """Return what is wrong with a link that follows on a state; None: the partition is new."""
    found: list[FindingRow] = []
    if state is not None and state.chained:
        if row.base_offset != state.next:
            found.append(_offset_finding(row, state.next))
        if row.log_start < state.start:
            message = "the log start of the partition is behind what it was"
            found.append(_finding(row, "log-start-backwards", message, state.start, row.log_start))
    if row.log_start > row.base_offset and (state is None or row.log_start != state.start):
        message = "the log start of the partition is past its high watermark"
        found.append(_finding(row, "log-start-above-high-watermark", message, row.base_offset, row.log_start))
    return found


def _offset_finding(row: LinkRow, expected: int) -> FindingRow:
    found = row.base_offset
    if found > expected:
        return _finding(row, "offset-gap", f"offsets {expected} to {found - 1} are missing", expected, found)
    if row.first_end > expected:
        return _finding(row, "offset-overlap", f"offsets {found} to {expected - 1} are assigned again", expected, found)
    return _finding(row, "offset-regression", f"offsets {found} to {row.first_end - 1} are assigned again", expected, found)


def _finding(row: LinkRow, rule: str, message: str, expected: int, found: int) -> FindingRow:
    return FindingRow(row.kpart, row.offset, rule, message, row.topic_id, row.partition, expected=expected, found=found)


def follow_link(state: PartitionState, row: LinkRow) -> None:
    """Let a state follow a link."""
    state.start, state.next, state.append_ms = row.log_start, row.next_offset, row.append_ms
    state.batches += row.batches
    state.records += row.records
    state.size_bytes += row.size_bytes
    state.chained = state.is_changed = True
    state.frames.append(row)


def check_producer(state: ProducerState | None, row: ProducerLinkRow) -> FindingRow | None:
    """Return what is wrong with a link that follows on a state; None: the producer is not known."""
    if state is None:
        return None
    if row.epoch < state.epoch:
        message = f"a batch of epoch {row.epoch} was accepted after epoch {state.epoch}"
        return _producer_finding(row, "producer-epoch-regression", message, state.epoch, row.epoch)
    if row.epoch > state.epoch:
        if row.base_sequence == 0:
            return None
        message = f"epoch {row.epoch} begins with sequence {row.base_sequence}"
        return _producer_finding(row, "sequence-gap", message, 0, row.base_sequence)
    ahead = (row.base_sequence - state.next_sequence) & SEQUENCE_MASK
    if not ahead:
        return None
    expected, found = state.next_sequence, row.base_sequence
    if ahead <= SEQUENCE_MASK // 2:
        return _producer_finding(row, "sequence-gap", f"sequences from {expected} to before {found} are missing", expected, found)
    return _producer_finding(row, "sequence-duplicate", f"sequence {found} was accepted again, {expected} was due", expected, found)


def _producer_finding(row: ProducerLinkRow, rule: str, message: str, expected: int, found: int) -> FindingRow:
    text = f"producer {row.producer_id}: {message}"
    return FindingRow(row.kpart, row.offset, rule, text, row.topic_id, row.partition, row.producer_id, None, expected, found)


def delete_records(state: PartitionState, kpart: int, offset: int, record: RecordsDeleted) -> FindingRow | None:
    """Move the log start; returns what is wrong with it."""
    target, finding = record.new_log_start_offset, None
    name = (record.topic_id, record.partition)
    if target > state.next and state.chained:
        message = "records are deleted past the high watermark"
        finding = FindingRow(kpart, offset, "log-start-above-high-watermark", message, *name, expected=state.next, found=target)
    elif target < state.start and state.chained:
        message = "the log start moves backwards"
        finding = FindingRow(kpart, offset, "log-start-backwards", message, *name, expected=state.start, found=target)
    state.start = max(state.start, target)
    state.is_changed = True
    return finding


def initialize(state: PartitionState, kpart: int, offset: int, record: DisklessLogInitialized) -> FindingRow | None:
    """Set where a migrated partition's diskless log begins; returns what is wrong with it."""
    name, found, finding = (record.topic_id, record.partition), record.base_offset, None
    if state.base is not None and state.base != found:
        message = "the partition's diskless log began elsewhere"
        finding = FindingRow(kpart, offset, "diskless-base-moved", message, *name, expected=state.base, found=found)
    elif state.base is None and state.batches and state.chained and found != state.next:
        message = "the partition has diskless batches before its diskless log began"
        finding = FindingRow(kpart, offset, "diskless-base-moved", message, *name, expected=state.next, found=found)
    if not state.batches or not state.chained:
        state.next, state.start, state.chained = found, record.prefix_start_offset, True
    state.base = found
    state.is_changed = True
    return finding


def reset(state: PartitionState, kpart: int, offset: int, record: DisklessLogReset) -> FindingRow | None:
    """Unset where the diskless log begins; returns what is wrong with it."""
    base, state.base, state.is_changed = state.base, None, True
    if base is None or not state.batches or state.next <= base:
        return None
    message = "the start of the diskless log is unset though there are batches after it"
    name = (record.topic_id, record.partition)
    return FindingRow(kpart, offset, "diskless-base-moved", message, *name, expected=base, found=state.next)
