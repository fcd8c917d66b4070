"""Entries of the metadata topic for people: judged by the rule every replica follows, decoded, as JSON values.

Pure. Void entries are decoded too where that is possible, for the reader's information; replicas never do. In a log whose
beginning was pruned nothing is known until a claim is seen, so entries before it have the verdict `unknown`. An entry inside a
transaction has the verdict `chunk`: whether it takes effect is said by the entry that ends the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import NamedTuple, Protocol, cast

from cli.output import term_text
from coordinator.kafka.names import topic_id_text
from records.codec import UnknownSchema, UnreadableEntry, decode_entry, decode_key
from records.committed_files.codec import CommittedBatch
from records.committed_files.lines import BatchVerdict
from records.entry_key import EntryKey
from records.log import EntryRecords, Fence, Judgement, LogGrammar, OpenTransaction, Role, Verdict, claim_in
from records.model import Record

UNKNOWN = "unknown"
VOID = "void"
CHUNK = "chunk"

REASONS: Mapping[str, str] = {
    "foreign": "its key is not that of an entry, or it is no proper claim",
    "stale": "its term is not in force",
    "gap": "an entry of its term is missing before it",
    "duplicate": "an entry of this place in the term counted already",
    "contradiction": "it says what the log before it rules out",
}


class LogMessage(NamedTuple):
    """A message of the log."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class StateFold(Protocol):
    """The judge of whether entries contradict the log before them: see `cli.log.fold`."""

    def take(self, message: LogMessage) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEntry:
    """A message, its verdict and its records; `error` says why it cannot be decoded."""

    message: LogMessage
    key: EntryKey | None
    verdict: str
    reason: str
    records: Sequence[Record]
    error: str


class EntryJudge:
    """Judges the messages of one partition in order. `from_start` is false where earlier entries were pruned or skipped.

    Only with a `fold`, which has to begin with the log, are entries found that contradict the state. It is not used in a restored log,
    whose first state is in an object store.
    """

    def __init__(self, *, from_start: bool, fold: StateFold | None = None) -> None:
        self._fold = fold
        self._grammar = LogGrammar(may_have_begun=not from_start)
        self._is_term_known = from_start
        self._epoch_seen = 0

    @property
    def is_folding(self) -> bool:
        """Whether entries that contradict the state are found."""
        return self._fold is not None

    def judge(self, message: LogMessage) -> JudgedEntry:
        """Judge and decode the next message."""
        key = decode_key(message.key)
        entry = _decode(message.value)
        records, error = ([], entry) if isinstance(entry, UnreadableEntry) else (entry, "")
        verdict, reason, closed = self._verdict(message.offset, key, entry)
        if verdict == Verdict.RESTORED.value:
            self._fold = None
        contradiction = None if self._fold is None else self._fold.take(message)
        if contradiction is not None:
            verdict, reason = VOID, _joined(f"contradiction: {contradiction}", _lost(self._grammar.close() or closed))
        return JudgedEntry(message=message, key=key, verdict=verdict, reason=reason, records=records, error=str(error))

    def _verdict(
        self, offset: int, key: EntryKey | None, entry: Sequence[Record] | UnreadableEntry
    ) -> tuple[str, str, OpenTransaction[EntryRecords] | None]:
        """Verdict, reason, and the transaction that was open until this entry."""
        if not self._is_term_known:
            return *self._first_claim(key, entry), None
        try:
            judged = self._grammar.read(offset, key, entry)
        except UnknownSchema:
            return Verdict.APPLY.value, "replicas of this version stop here", None
        return *_words(judged, self._grammar.opened), judged.closed

    def _first_claim(self, key: EntryKey | None, entry: Sequence[Record] | UnreadableEntry) -> tuple[str, str]:
        """Before a claim of a new epoch nothing is known."""
        claim = claim_in(key, () if isinstance(entry, UnreadableEntry) else entry)
        if claim is None or claim.epoch <= self._epoch_seen:
            self._epoch_seen = max(self._epoch_seen, 0 if key is None else key.epoch)
            return UNKNOWN, "no claim was seen before it"
        self._is_term_known = True
        self._grammar.fence = Fence().claimed_by(claim)
        return Verdict.CLAIM.value, "taken to be in force: the log before it is not known"


def _words(judged: Judgement, opened: OpenTransaction[EntryRecords] | None) -> tuple[str, str]:
    """The verdict of the grammar for people, and its reason."""
    verdict = judged.verdict
    if judged.fault is not None:
        return VOID, _joined(f"contradiction: {judged.fault.message}", _lost(judged.closed))
    if verdict is Verdict.RESTORED:
        return verdict.value, "the log goes on from a snapshot of another log"
    if verdict not in (Verdict.APPLY, Verdict.CLAIM):
        return VOID, f"{verdict.value}: {REASONS[verdict.value]}"
    match judged.role:
        case Role.ENDS:
            return verdict.value, f"{_named(judged.closed)} takes effect"
        case Role.CHUNK if opened is not None:
            said = f" of {opened.num_chunks}" if opened.num_chunks >= 0 else ""
            return CHUNK, f"{len(opened.chunks)}{said} of {_named(opened)}"
        case Role.ENDS_UNKNOWN:
            return verdict.value, "no transaction is open, as far as the log was read"
        case _:
            return verdict.value, _lost(judged.closed)


def _named(opened: OpenTransaction[EntryRecords] | None) -> str:
    return "" if opened is None else f"transaction {opened.name!r} of offset {opened.offset}"


def _lost(opened: OpenTransaction[EntryRecords] | None) -> str:
    return "" if opened is None else f"nothing of {_named(opened)} counts"


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _decode(value: bytes | None) -> Sequence[Record] | UnreadableEntry:
    try:
        return decode_entry(value or b"")
    except UnreadableEntry as error:
        return error


def entry_row(entry: JudgedEntry, time_text: str | None) -> dict[str, object]:
    """One entry as JSON values; `records` holds every field of every record."""
    key = entry.key
    return {
        "partition": entry.message.partition,
        "offset": entry.message.offset,
        "time": time_text,
        "epoch": None if key is None else key.epoch,
        "term": None if key is None else term_text(key.term),
        "seq": None if key is None else key.seq,
        "verdict": entry.verdict,
        "reason": entry.reason,
        "error": entry.error,
        "records": [{"type": type(record).__name__, **as_fields(record)} for record in entry.records],
    }


def entry_summary(entry: JudgedEntry) -> str:
    """The records of an entry in a few words, and what is wrong with it."""
    parts = [_summary(record) for record in entry.records]
    if entry.reason:
        parts.insert(0, f"[{entry.reason}]")
    if entry.error:
        parts.append(f"cannot be decoded: {entry.error}")
    return " ".join(parts)


def as_fields(record: object) -> dict[str, object]:
    """The fields of a record as JSON values: topic ids in Kafka's form, terms and other bytes in hexadecimal digits."""
    assert is_dataclass(record)
    return {field.name: _value(field.name, getattr(record, field.name)) for field in fields(record)}


def _value(name: str, value: object) -> object:
    match value:
        case bytes() if name.endswith(("topic_id", "topic_ids")):
            return topic_id_text(value)
        case bytes():
            return value.hex()
        case int() if name == "term":
            return term_text(value)
        case CommittedBatch():
            return {field: _value(field, item) for field, item in value._asdict().items()} | {
                "verdict": BatchVerdict(value.verdict).name.lower()
            }
        case list():
            return [_value(name, item) for item in cast(list[object], value)]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return as_fields(value)
        case _:
            return value


# The fields of each kind of record that a table shows besides its type.
_SHOWN: Mapping[str, tuple[str, ...]] = {
    "LeadershipClaimed": ("node_id", "rack"),
    "PartitionCreated": ("name", "first_partition", "num_partitions"),
    "TopicDeleted": ("topic_id",),
    "FileCommitted": ("object_key", "file_size"),
    "RecordsDeleted": ("topic_id", "partition", "new_log_start_offset"),
    "TopicPlaced": ("name", "confirmed"),
    "TopicDeleting": ("topic_id", "confirmed"),
    "NodeRegistered": ("node_id", "rack"),
    "ReplicasAssignedToDirs": ("node_id",),
    "FilesRemoved": ("object_keys",),
    "FilesFenced": ("object_keys",),
    "FilesHandedOver": ("object_keys", "next_owner_ids"),
    "ProducersExpired": ("before_ms",),
    "TombstonesExpired": ("keys_before_ms", "topics_before_ms"),
    "SnapshotCommitted": ("end_offset", "location"),
    "TransactionBegan": ("name", "num_chunks"),
    "TransactionEnded": ("num_chunks",),
    "TransactionAborted": ("reason",),
    "Restored": ("old_cluster_id", "old_topic_id", "old_end_offset", "epoch_floor", "file_id_base", "location"),
    "RestoreFinished": ("restore_id",),
    "TopicConfigured": ("topic_id", "names", "values"),
    "DisklessLogInitialized": ("topic_id", "partition", "base_offset", "prefix_start_offset", "leader_epoch"),
    "DisklessLogReset": ("topic_id", "partition", "leader_epoch"),
    "DisklessLogRepaired": ("topic_id", "partition", "base_offset", "leader_epoch"),
    "PartitionMoving": ("topic_id", "partition", "from_coordinator", "to_coordinator", "move_id"),
    "PartitionMoved": ("topic_id", "partition", "move_id"),
    "MovesSettled": ("last_move_id",),
    "PartitionReleased": ("topic_id", "partition", "to_coordinator", "move_id"),
    "PartitionAdopted": ("topic_id", "partition", "start_offset", "base_offset", "move_id"),
    "ProducersAdopted": ("topic_id", "partition"),
    "PrefixStartReported": ("topic_id", "partition", "prefix_start_offset", "leader_epoch"),
}


def _summary(record: Record) -> str:
    name = type(record).__name__
    values = as_fields(record)
    shown = " ".join(f"{field}={_short(values[field])}" for field in _SHOWN.get(name, ()))
    return f"{name}({shown})" if shown else name


def _short(value: object) -> str:
    if isinstance(value, list):
        items = cast(list[object], value)
        return ",".join(map(str, items[:3])) + (f",..({len(items)})" if len(items) > 3 else "")
    return str(value)
