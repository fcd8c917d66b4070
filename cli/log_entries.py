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
from coordinator.core.leadership.fence import VOID_REASONS, Fence, Verdict, admits
from coordinator.kafka.names import topic_id_text
from records.codec import UnknownSchema, UnreadableEntry, decode_entry, decode_key
from records.entry_key import EntryKey
from records.model import LeadershipClaimed, Record, TransactionAborted, TransactionBegan, TransactionEnded

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


class Message(NamedTuple):
    """A message as it stands in the log."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Fold(Protocol):
    """What says whether entries contradict the log before them: see `cli.log_fold`."""

    def take(self, message: Message) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEntry:
    """A message, its verdict and its records; `error` says why it cannot be decoded."""

    message: Message
    key: EntryKey | None
    verdict: str
    reason: str
    records: Sequence[Record]
    error: str


@dataclass(slots=True)
class OpenTransaction:
    """A transaction that was not ended yet. `said` is how many chunks its beginning announced, -1: none."""

    name: str
    offset: int
    said: int
    chunks: int = 0

    def __str__(self) -> str:
        return f"transaction {self.name!r} of offset {self.offset}"


class Judge:
    """Judges the messages of one partition in order. `from_start` is false where earlier entries were pruned or skipped.

    Only with a `fold`, which has to begin with the log, are entries found that contradict the state.
    """

    def __init__(self, *, from_start: bool, fold: Fold | None = None) -> None:
        self._fold = fold
        self._from_start = from_start
        self._fence: Fence | None = Fence() if from_start else None
        self._epoch_seen = 0
        self._opened: OpenTransaction | None = None

    def judge(self, message: Message) -> JudgedEntry:
        """Judge and decode the next message."""
        key = decode_key(message.key)
        records, error = _decode(message.value)
        verdict, reason = self._verdict(key, records)
        if verdict == Verdict.CLAIM.value:
            reason = "; ".join(filter(None, (reason, self._abort())))
        elif verdict == Verdict.APPLY.value:
            verdict, reason = self._in_transaction(message.offset, records, error)
        contradiction = None if self._fold is None else self._fold.take(message)
        if contradiction is not None:
            verdict, reason = VOID, "; ".join(filter(None, (f"contradiction: {contradiction}", self._abort())))
        return JudgedEntry(message=message, key=key, verdict=verdict, reason=reason, records=records, error=str(error or ""))

    def _verdict(self, key: EntryKey | None, records: Sequence[Record]) -> tuple[str, str]:
        claim = _proper_claim(key, records)
        if self._fence is None:
            if claim is None or claim.epoch <= self._epoch_seen:
                self._epoch_seen = max(self._epoch_seen, key.epoch if key is not None else 0)
                return UNKNOWN, "no claim was seen before it"
            self._fence = Fence().claimed_by(claim)
            return Verdict.CLAIM.value, "taken to be in force: the log before it is not known"
        verdict = self._fence.judge(key)
        if verdict is Verdict.APPLY:
            self._fence = self._fence.advanced()
            return verdict.value, ""
        if verdict is Verdict.CLAIM and claim is not None:
            self._fence = self._fence.claimed_by(claim)
            return verdict.value, ""
        word = VOID_REASONS.get(verdict, Verdict.VOID_FOREIGN.value)
        return VOID, f"{word}: {REASONS[word]}"

    def _in_transaction(self, offset: int, records: Sequence[Record], error: UnreadableEntry | None) -> tuple[str, str]:
        """What an entry of the term in force does to the open transaction, or is of it."""
        verdict, opened = Verdict.APPLY.value, self._opened
        if isinstance(error, UnknownSchema):
            return verdict, "replicas of this version stop here"
        if error is not None:
            return self._contradiction("it cannot be decoded")
        match records:
            case [TransactionBegan(name=name, num_chunks=said)] if opened is None:
                self._opened = OpenTransaction(name, offset, said)
                return verdict, ""
            case [TransactionBegan()]:
                return self._contradiction(f"it begins a transaction while {opened} is open")
            case [TransactionEnded()] if opened is None:
                if self._from_start:
                    return self._contradiction("it ends a transaction that never began")
                return verdict, "no transaction is open, as far as the log was read"
            case [TransactionEnded(num_chunks=count)] if opened is not None and count != opened.chunks:
                return self._contradiction(f"it ends {opened} with {count} chunks, {opened.chunks} were read")
            case [TransactionEnded()]:
                self._opened = None
                return verdict, f"{opened} takes effect"
            case [TransactionAborted()]:
                return verdict, self._abort()
        if any(isinstance(record, TransactionBegan | TransactionEnded) for record in records):
            return self._contradiction("it begins or ends a transaction among other records")
        if opened is None:
            return verdict, ""
        opened.chunks += 1
        return CHUNK, f"{opened.chunks}{f' of {opened.said}' if opened.said >= 0 else ''} of {opened}"

    def _contradiction(self, what: str) -> tuple[str, str]:
        return VOID, "; ".join(filter(None, (f"contradiction: {what}", self._abort())))

    def _abort(self) -> str:
        opened, self._opened = self._opened, None
        return "" if opened is None else f"nothing of {opened} counts"


def _proper_claim(key: EntryKey | None, records: Sequence[Record]) -> LeadershipClaimed | None:
    if key is None or key.seq != 0 or len(records) != 1:
        return None
    record = records[0]
    return record if isinstance(record, LeadershipClaimed) and admits(key, record) else None


def _decode(value: bytes | None) -> tuple[Sequence[Record], UnreadableEntry | None]:
    try:
        return decode_entry(value or b""), None
    except UnreadableEntry as error:
        return [], error


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
        case list():
            return [_value(name, item) for item in cast(list[object], value)]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return as_fields(value)
        case _:
            return value


# What a table shows of each kind of record, besides its type.
_SHOWN: Mapping[str, tuple[str, ...]] = {
    "LeadershipClaimed": ("node_id", "rack"),
    "PartitionCreated": ("name", "first_partition", "num_partitions"),
    "TopicDeleted": ("topic_id",),
    "FileCommitted": ("object_key", "file_size", "run_length", "run_base_offset"),
    "RecordsDeleted": ("topic_id", "partition", "new_log_start_offset"),
    "TopicPlaced": ("name", "confirmed"),
    "TopicDeleting": ("topic_id", "confirmed"),
    "NodeRegistered": ("node_id", "rack"),
    "FilesRemoved": ("object_keys",),
    "FilesFenced": ("object_keys",),
    "FileHandedOver": ("object_key", "next_owner_id"),
    "ProducersExpired": ("before_ms",),
    "TombstonesExpired": ("before_ms",),
    "SnapshotCommitted": ("end_offset", "location"),
    "TransactionBegan": ("name", "num_chunks"),
    "TransactionEnded": ("num_chunks",),
    "TransactionAborted": ("reason",),
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
