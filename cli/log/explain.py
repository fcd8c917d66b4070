"""The effect of one entry of the metadata log and its reason, for `diskless log explain`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cli.log.entries import CHUNK, EntryJudge, JudgedEntry, LogMessage, entry_row
from cli.log.fold import Bounds, FoldedReplica, touched_partitions
from cli.log.kafka import LogConsumer
from cli.outcome import Exit, Failed
from cli.output import print_fields, tell, time_text
from cli.progress import doing
from coordinator.kafka.names import topic_id_text
from records.codec import UnreadableEntry, decode_entry
from records.model import Record, TransactionAborted, TransactionEnded

OFFSET_MAX = (1 << 63) - 1

MEANINGS = {
    "apply": "It counts: every replica has applied it.",
    "claim": "It begins a leadership term.",
    "restored": "It begins the log, which goes on from a snapshot of another one.",
    "void": "It has no effect, on any replica, now and whenever the log is read again.",
    "chunk": "It is part of a transaction and takes effect only when that ends.",
    "unknown": "The log before the first claim is not known, so nothing can be said.",
}


@dataclass(frozen=True, slots=True)
class Change:
    """The bounds of a user partition before and after an entry; None where the partition does not exist."""

    partition: str
    before: Bounds | None
    after: Bounds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An entry with its verdict, what it changed, what became of its transaction, and why replicas stop, if they do."""

    entry: JudgedEntry
    changes: list[Change]
    transaction: str
    failure: str


def parse_place(text: str) -> tuple[int, int]:
    """Read `PARTITION@OFFSET`. Raises `Failed`."""
    found = re.fullmatch(r"(\d{1,10})@(\d{1,19})", text)
    if found is None or int(found[2]) > OFFSET_MAX:
        raise Failed(f"{text!r} is not PARTITION@OFFSET, such as 3@1042", Exit.USAGE)
    return int(found[1]), int(found[2])


def explain_entry(consumer: LogConsumer, partition: int, offset: int) -> Explanation:
    """Fold the log up to an entry, on to the end of its transaction if it is in one. Raises `Failed`."""
    existing = consumer.partitions()
    if partition not in existing:
        raise Failed(f"topic {consumer.topic} has no partition {partition}; it has 0 to {existing[-1]}", Exit.NOT_FOUND)
    low, end = consumer.log_range(partition)
    if not low <= offset < end:
        raise Failed(f"metadata partition {partition} has offsets {low} to {end - 1}, not {offset}", Exit.NOT_FOUND)
    if low > 0:
        raise Failed(
            f"metadata partition {partition} begins at offset {low}: the state before it cannot be folded from the log", Exit.NOT_FOUND
        )
    with FoldedReplica(partition) as fold, doing(f"reading {consumer.topic}-{partition}", offset + 1) as work:
        return explain_message(consumer.read({partition: 0}, {partition: end}), fold, offset, work.step)


def explain_message(messages: Iterator[LogMessage], fold: FoldedReplica, offset: int, step: Callable[[], None]) -> Explanation:
    """Explain the entry at an offset; `messages` are those from the log's beginning to the end of its transaction. Raises `Failed`."""
    judge = EntryJudge(from_start=True, fold=fold)
    target: JudgedEntry | None = None
    touched: list[tuple[bytes, int]] = []
    before: list[tuple[str, Bounds | None]] = []
    transaction = ""
    for message in messages:
        if message.offset == offset and judge.is_folding:
            touched = touched_partitions(_records_of(message))
            before = [(_name(fold, *where), fold.bounds(*where)) for where in touched]
        entry = judge.judge(message)
        if message.offset <= offset:
            step()
        if message.offset == offset:
            target = entry
        if target is None:
            continue
        if target.verdict != CHUNK:
            break
        if message.offset > offset and _closes(entry):
            transaction = f"its transaction was closed by entry {message.offset} ({entry.verdict}): {entry.reason}"
            break
    if target is None:
        raise Failed(f"offset {offset} holds no message: a broker lost it, or it is a control record", Exit.NOT_FOUND)
    if target.verdict == CHUNK and not transaction:
        transaction = "its transaction has not ended in the log as it is now"
    changes = [Change(name, was, fold.bounds(*where)) for where, (name, was) in zip(touched, before, strict=True)]
    return Explanation(entry=target, changes=changes, transaction=transaction, failure=fold.failure or "")


def _records_of(message: LogMessage) -> list[Record]:
    try:
        return list(decode_entry(message.value or b""))
    except UnreadableEntry:
        return []


def _closes(entry: JudgedEntry) -> bool:
    """Whether an entry after a chunk ends the chunk's transaction."""
    is_marker = any(isinstance(record, TransactionEnded | TransactionAborted) for record in entry.records)
    return entry.verdict == "claim" or (entry.verdict == "apply" and is_marker) or entry.reason.startswith("contradiction")


def _name(fold: FoldedReplica, topic_id: bytes, partition: int) -> str:
    return f"{fold.topic_name(topic_id) or topic_id_text(topic_id)}-{partition}"


def print_explanation(explanation: Explanation, output: str) -> None:
    """Print for people, or every field for machines."""
    entry = explanation.entry
    row = entry_row(entry, time_text(entry.message.timestamp_ms))
    if output == "table":
        for line in _lines(explanation, row):
            tell(line)
        return
    changes = [
        {"partition": change.partition, "before": _bounds(change.before), "after": _bounds(change.after)} for change in explanation.changes
    ]
    print_fields(
        row
        | {
            "meaning": MEANINGS[entry.verdict],
            "changes": changes,
            "transaction": explanation.transaction,
            "failure": explanation.failure,
        },
        output,
    )


def _lines(explanation: Explanation, row: dict[str, object]) -> list[str]:
    entry = explanation.entry
    records = ", ".join(type(record).__name__ for record in entry.records) or "none that can be read"
    lines = [
        f"entry {entry.message.partition}@{entry.message.offset} of {row['time']}",
        f"epoch {row['epoch']}, term {row['term']}, seq {row['seq']}",
        f"records: {records}{f' ({entry.error})' if entry.error else ''}",
        f"verdict: {entry.verdict}. {MEANINGS[entry.verdict]}",
    ]
    if entry.reason:
        lines.append(f"reason: {entry.reason}")
    if explanation.transaction:
        lines.append(f"transaction: {explanation.transaction}")
    if explanation.failure:
        lines.append(f"replicas of this version stop: {explanation.failure}")
    lines += [f"{change.partition}: {_text(change.before)} -> {_text(change.after)}" for change in explanation.changes]
    return lines


def _bounds(bounds: Bounds | None) -> dict[str, int] | None:
    return None if bounds is None else bounds._asdict()


def _text(bounds: Bounds | None) -> str:
    return "does not exist" if bounds is None else f"offsets {bounds.log_start} to {bounds.high_watermark}"
