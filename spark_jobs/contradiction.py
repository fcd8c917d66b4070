"""Which entries that are due contradict what the log said before, so that they are void for every replica.

An entry of the term in force with the next seq, or a whole transaction that ended, contradicts the log when its records are
no lawful composition, or when a commit or a deletion does not fit the state: an offset that is not the high watermark of its
partition, a partition that does not exist, a batch that its producer cannot have sent next, an object key that is known or has
a tombstone, records deleted beyond the high watermark, a file removed or handed over that has live batches. It uses up its seq
and has no other effect. What contradicts the transaction it stands in (another beginning, an end that counts other entries, bytes
that cannot be decoded) is void together with it, and the next entry stands for itself again.

Pure rules over a `Fold`, which says what is known; written anew and not shared with the coordinator. An entry that cannot be
decoded, though its schema is known, is void, too: that is told where entries are decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple, Protocol

from records.levels import LEVEL_LATEST
from records.model import (
    DisklessLogInitialized,
    DisklessLogReset,
    FeatureLevelSet,
    FileCommitted,
    FileHandedOver,
    FilesRemoved,
    LeadershipClaimed,
    NodeDirectoriesChanged,
    PartitionCreated,
    Record,
    RecordsDeleted,
    ReplicaDirectoryAssigned,
    Restored,
    TopicDeleted,
    TopicPlaced,
    TransactionBegan,
    TransactionEnded,
)

SEQUENCE_MASK = 0x7FFFFFFF
BATCH_BYTE_MAX = (1 << 31) - 1
"""Where in its file a batch may begin."""

TOPIC_PARTITIONS_MAX = 10_000_000
"""More partitions than that no topic has: every replica would have to make them."""

UNDECODABLE = "undecodable-entry"

NOT_APPLICABLE = (DisklessLogInitialized, DisklessLogReset, Restored, NodeDirectoriesChanged, ReplicaDirectoryAssigned)
"""Record types that a log may hold and replicas of this version cannot apply."""


class Contradiction(NamedTuple):
    """What is wrong with an entry: the rule, a text, what it is about, what was expected and what was found."""

    rule: str
    message: str
    topic_id: bytes | None = None
    partition: int | None = None
    producer_id: int | None = None
    object_key: str | None = None
    expected: int | None = None
    found: int | None = None


class Void(NamedTuple):
    """A contradiction, and the entry where it stands: of a transaction not its end, which names the transaction."""

    offset: int
    contradiction: Contradiction


class Conflict(NamedTuple):
    """A number that does not follow: the rule, a text, what was expected and what was found."""

    rule: str
    message: str
    expected: int
    found: int


class Fold(Protocol):
    """What the log said so far."""

    def missing(self, topic_id: bytes, partition: int) -> Contradiction | None:
        """Why a user partition does not exist; None when it does, or when that is not known."""

    def high_watermark(self, topic_id: bytes, partition: int) -> int | None:
        """The high watermark of a user partition; None when it is not known."""

    def producer(self, topic_id: bytes, partition: int, producer_id: int) -> tuple[int, int] | None:
        """The epoch and the next sequence of a producer; None when there is no state of it."""

    def known_key(self, object_key: str) -> Contradiction | None:
        """What is wrong with committing an object key; None when it is new."""

    def live_batches(self, object_key: str) -> int:
        """How many live batches a known file has, 0 also when it is not known; a fold that does not count them says 1 for some."""


def offset_conflict(expected: int, found: int, end: int) -> Conflict | None:
    """Compare where offsets `[found, end)` must begin with where they do."""
    if found == expected:
        return None
    if found > expected:
        return Conflict("offset-gap", f"{_span(expected, found)} missing", expected, found)
    if end > expected:
        return Conflict("offset-overlap", f"{_span(found, expected)} assigned again", expected, found)
    return Conflict("offset-regression", f"{_span(found, end)} assigned again", expected, found)


def _span(first: int, end: int) -> str:
    return f"offset {first} is" if end == first + 1 else f"offsets {first} to {end - 1} are"


def producer_conflict(producer_id: int, epoch: int, next_sequence: int, found_epoch: int, found_sequence: int) -> Conflict | None:
    """Compare a batch of a producer with what must come next. Epochs grow; a new one begins with sequence 0."""
    named = f"producer {producer_id}"
    if found_epoch < epoch:
        message = f"{named}: a batch of epoch {found_epoch} was accepted after epoch {epoch}"
        return Conflict("producer-epoch-regression", message, epoch, found_epoch)
    if found_epoch > epoch:
        if found_sequence == 0:
            return None
        return Conflict("sequence-gap", f"{named}: epoch {found_epoch} begins with sequence {found_sequence}", 0, found_sequence)
    ahead = (found_sequence - next_sequence) & SEQUENCE_MASK
    if not ahead:
        return None
    if ahead <= SEQUENCE_MASK // 2:
        what = f"sequence {next_sequence} is" if ahead == 1 else f"sequences from {next_sequence} to before {found_sequence} are"
        return Conflict("sequence-gap", f"{named}: {what} missing", next_sequence, found_sequence)
    message = f"{named}: sequence {found_sequence} was accepted again, {next_sequence} was due"
    return Conflict("sequence-duplicate", message, next_sequence, found_sequence)


def position_conflict(key: str, byte_offset: int) -> Contradiction:
    """A batch that begins beyond what can be asked for."""
    message = f"a batch of file {key} begins at byte {byte_offset}, the last possible is {BATCH_BYTE_MAX}"
    found = min(byte_offset, (1 << 63) - 1)
    return Contradiction("batch-beyond-limit", message, object_key=key, expected=BATCH_BYTE_MAX, found=found)


def deletion_conflict(record: RecordsDeleted, high_watermark: int) -> Contradiction | None:
    """Compare a deletion with the high watermark of its partition."""
    target = record.new_log_start_offset
    if target <= high_watermark:
        return None
    message = "records are deleted past the high watermark"
    return Contradiction(
        "log-start-above-high-watermark", message, record.topic_id, record.partition, expected=high_watermark, found=target
    )


def check_file(record: FileCommitted, fold: Fold) -> Contradiction | None:
    """What a file that stands alone in its entry contradicts."""
    return _check_positions(record) or fold.known_key(record.object_key) or _check_runs(record, fold) or _check_producers(record, fold)


def _check_positions(record: FileCommitted) -> Contradiction | None:
    position = 0
    for size, gap in zip_longest(record.byte_size, record.byte_gap, fillvalue=0):
        position += gap
        if position > BATCH_BYTE_MAX:
            return position_conflict(record.object_key, position)
        position += size
    return None


def _check_runs(record: FileCommitted, fold: Fold) -> Contradiction | None:
    following: dict[tuple[bytes, int], int | None] = {}
    at = 0
    for topic, partition, length, base in zip(
        record.run_topic, record.run_partition, record.run_length, record.run_base_offset, strict=True
    ):
        name = (record.topic_ids[topic], partition)
        if name not in following:
            missing = fold.missing(*name)
            if missing is not None:
                return missing
            following[name] = fold.high_watermark(*name)
        end = base + sum(record.record_count_minus_one[at : at + length]) + length
        expected = following[name]
        conflict = None if expected is None else offset_conflict(expected, base, end)
        if conflict is not None:
            return Contradiction(conflict.rule, conflict.message, *name, expected=conflict.expected, found=conflict.found)
        following[name] = end
        at += length
    return None


def _check_producers(record: FileCommitted, fold: Fold) -> Contradiction | None:
    if not record.producer_index:
        return None
    names = [
        (record.topic_ids[topic], partition)
        for topic, partition, length in zip(record.run_topic, record.run_partition, record.run_length, strict=True)
        for _ in range(length)
    ]
    following: dict[tuple[bytes, int, int], tuple[int, int] | None] = {}
    batch = 0
    columns = (record.producer_index, record.producer_id, record.producer_epoch, record.base_sequence)
    for distance, producer_id, epoch, first in zip(*columns, strict=True):
        batch += distance
        name = (*names[batch], producer_id)
        state = following[name] if name in following else fold.producer(*name)
        conflict = None if state is None else producer_conflict(producer_id, *state, epoch, first)
        if conflict is not None:
            return Contradiction(
                conflict.rule, conflict.message, *names[batch], producer_id, expected=conflict.expected, found=conflict.found
            )
        following[name] = (epoch, (first + record.record_count_minus_one[batch] + 1) & SEQUENCE_MASK)
    return None


def check_composition(records: Sequence[Record], *, in_transaction: bool = False) -> Contradiction | None:
    """What is unlawful about the records of one entry, whatever came before it."""
    files = sum(isinstance(record, FileCommitted) for record in records)
    if files > 1:
        return Contradiction("misplaced-file", f"{files} files in one entry, each must be alone in its own", expected=1, found=files)
    if files and len(records) > 1:
        return Contradiction("misplaced-file", "a file stands among other records, it must be alone in its entry")
    if files and in_transaction:
        return Contradiction("misplaced-file", "a file is committed inside a transaction")
    for record in records:
        match record:
            case LeadershipClaimed():
                return Contradiction("misplaced-claim", f"a claim of epoch {record.epoch} stands inside a term")
            case PartitionCreated():
                wrong = _check_range(record.topic_id, record.first_partition, record.num_partitions)
                if wrong is not None:
                    return wrong
            case TopicPlaced():
                for one in record.ranges:
                    wrong = _check_range(record.topic_id, one.first_partition, one.num_partitions)
                    if wrong is not None:
                        return wrong
            case _:
                continue
    return None


def check_marks(records: Sequence[Record]) -> Contradiction | None:
    """Beginnings and ends of transactions stand alone; this is told as soon as the entry is read."""
    for record in records:
        if isinstance(record, TransactionBegan | TransactionEnded) and len(records) > 1:
            return Contradiction("misplaced-transaction", f"a {type(record).__name__} stands among other records")
    return None


def _check_range(topic_id: bytes, first: int, count: int) -> Contradiction | None:
    if first >= 0 and count >= 0 and first + count <= TOPIC_PARTITIONS_MAX:
        return None
    message = f"partitions {first} to {first + count - 1} are created, a topic has at most {TOPIC_PARTITIONS_MAX}"
    return Contradiction("absurd-partition-count", message, topic_id, expected=TOPIC_PARTITIONS_MAX, found=first + count)


def check_effects(entries: Sequence[tuple[int, Sequence[Record]]], fold: Fold) -> Void | None:
    """What entries that take effect together contradict, apart from files: deletions, and files that go with live batches."""
    gone: set[bytes] = set()
    created: dict[bytes, list[range]] = {}
    for offset, records in entries:
        for record in records:
            wrong: Contradiction | None = None
            match record:
                case TopicDeleted():
                    gone.add(record.topic_id)
                    created.pop(record.topic_id, None)
                case PartitionCreated():
                    first = record.first_partition
                    created.setdefault(record.topic_id, []).append(range(first, first + record.num_partitions))
                case RecordsDeleted():
                    high_watermark = _high_watermark_at(record, fold, gone, created)
                    wrong = None if high_watermark is None else deletion_conflict(record, high_watermark)
                case FilesRemoved():
                    conflicts = (live_conflict("live-file-removed", key, fold.live_batches(key)) for key in record.object_keys)
                    wrong = next(filter(None, conflicts), None)
                case FileHandedOver():
                    wrong = live_conflict("live-file-handed-over", record.object_key, fold.live_batches(record.object_key))
                case _:
                    continue
            if wrong is not None:
                return Void(offset, wrong)
    return None


def live_conflict(rule: str, key: str, live_batches: int) -> Contradiction | None:
    """Only an empty file may be removed or handed over."""
    if live_batches <= 0:
        return None
    what = rule.removeprefix("live-file-").replace("-", " ")
    return Contradiction(rule, f"file {key} is {what} though it has live batches", object_key=key, expected=0, found=live_batches)


def _high_watermark_at(record: RecordsDeleted, fold: Fold, gone: set[bytes], created: dict[bytes, list[range]]) -> int | None:
    """None: a partition that does not exist, where a deletion has no effect, or of which nothing is known."""
    topic_id, partition = record.topic_id, record.partition
    if topic_id not in gone and fold.missing(topic_id, partition) is None:
        return fold.high_watermark(topic_id, partition)
    return 0 if any(partition in one for one in created.get(topic_id, ())) else None


def stops_replicas(record: Record) -> str | None:
    """Why replicas of this version cannot apply a record: they stop at its entry, and follow the log only with a newer version."""
    if isinstance(record, NOT_APPLICABLE):
        return f"it holds a {type(record).__name__}, which replicas of this version cannot apply"
    if isinstance(record, FeatureLevelSet) and record.level > LEVEL_LATEST:
        return f"it raises the schema level to {record.level}, replicas of this version have levels up to {LEVEL_LATEST}"
    return None
