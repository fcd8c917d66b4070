"""A recorded history and what was left, as a file: gzipped JSON lines, one thing each, bytes as hexadecimal digits.

    write_recording(file, history, final)
    history, final = read_recording(file)

Invariant: what is read is equal to what was written, so that a run can be judged again at any time.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from integration_tests.history import (
    Attempt,
    BatchAnswer,
    Deletion,
    Description,
    FinalPartition,
    FinalState,
    Find,
    Forgery,
    FoundBatch,
    History,
    LogMessage,
    Origin,
    ReplicaDigest,
    SentBatch,
    SentFile,
    StartRead,
    StrictRead,
    TopicLife,
    Unknown,
    UserPartition,
)

Line = dict[str, Any]
"""JSON as it is read: parsed here and nowhere else."""


def write_recording(file: Path, history: History, final: FinalState | None) -> None:
    """Write everything; a run that came to no end has no final state."""
    with gzip.open(file, "wt", encoding="utf-8") as out:
        for line in (*_history_lines(history), *(_final_lines(final) if final is not None else ())):
            out.write(json.dumps(line, default=_plain, separators=(",", ":")) + "\n")


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    raise TypeError(f"{value!r} has no form in a recording")


def _history_lines(history: History) -> Iterator[Line]:
    for file in history.files.values():
        yield {"kind": "file", **asdict(file)}
    for kind, things in (
        ("attempt", history.attempts),
        ("read", history.reads),
        ("start_read", history.start_reads),
        ("deletion", history.deletions),
        ("find", history.finds),
        ("description", history.descriptions),
        ("topic", history.topics),
        ("forgery", history.forgeries),
    ):
        for thing in things:
            yield {"kind": kind, **asdict(thing)}
    for unknown in history.unknowns:
        yield {"kind": "unknown", **unknown._asdict()}


def _final_lines(final: FinalState) -> Iterator[Line]:
    for where, partition in final.partitions.items():
        yield {"kind": "partition", "where": where, **asdict(partition)}
    for coordinator_id, messages in final.logs.items():
        yield {"kind": "log", "coordinator_id": coordinator_id}
        for message in messages:
            yield {"kind": "message", "coordinator_id": coordinator_id, **message._asdict()}
    for digest in final.digests:
        yield {"kind": "digest", **digest._asdict()}
    for node_id, partitions in final.copies.items():
        for where, batches in partitions.items():
            yield {"kind": "copy", "node_id": node_id, "where": where, "batches": batches}


def read_recording(file: Path) -> tuple[History, FinalState | None]:
    """Read what `write_recording` wrote."""
    history = History()
    partitions: dict[UserPartition, FinalPartition] = {}
    logs: dict[int, list[LogMessage]] = {}
    digests: list[ReplicaDigest] = []
    copies: dict[int, dict[UserPartition, tuple[FoundBatch, ...]]] = {}
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for text in lines:
            line: Line = json.loads(text)
            match line.pop("kind"):
                case "partition":
                    where = _where(line)
                    partitions[where] = FinalPartition(**{**line, "batches": _found(line)})
                case "log":
                    logs[line["coordinator_id"]] = []
                case "message":
                    logs[line.pop("coordinator_id")].append(
                        LogMessage(**{**line, "key": _bytes(line["key"]), "value": _bytes(line["value"])})
                    )
                case "digest":
                    digests.append(ReplicaDigest(**{**line, "digest": bytes.fromhex(line["digest"])}))
                case "copy":
                    copies.setdefault(line["node_id"], {})[_where(line)] = _found(line)
                case kind:
                    _read_history_line(history, kind, line)
    if not partitions:
        return history, None
    return history, FinalState(
        partitions=partitions, logs={c: tuple(messages) for c, messages in logs.items()}, digests=tuple(digests), copies=copies
    )


def _read_history_line(history: History, kind: str, line: Line) -> None:
    match kind:
        case "file":
            batches = tuple(
                SentBatch(where=_where(one), repeats=None if (again := one.pop("repeats")) is None else Origin(*again), **one)
                for one in line["batches"]
            )
            history.files[line["object_key"]] = SentFile(object_key=line["object_key"], batches=batches)
        case "attempt":
            answers = tuple(BatchAnswer(*answer) for answer in line.pop("answers"))
            history.attempts.append(Attempt(places=tuple(line.pop("places")), answers=answers, **line))
        case "read":
            history.reads.append(StrictRead(where=_where(line), **line))
        case "start_read":
            history.start_reads.append(StartRead(where=_where(line), **line))
        case "deletion":
            history.deletions.append(Deletion(where=_where(line), **line))
        case "find":
            history.finds.append(Find(where=_where(line), **{**line, "batches": _found(line)}))
        case "description":
            history.descriptions.append(Description(**line))
        case "unknown":
            history.unknowns.append(Unknown(where=_where(line), **line))
        case "topic":
            history.topics.append(TopicLife(**{**line, "topic_id": bytes.fromhex(line["topic_id"])}))
        case "forgery":
            key, value = bytes.fromhex(line["key"]), bytes.fromhex(line["value"])
            history.forgeries.append(Forgery(coordinator_id=line["coordinator_id"], key=key, value=value))
        case other:
            raise ValueError(f"a line of the unknown kind {other!r}: this recording is of another version")


def _where(line: Line) -> UserPartition:
    topic_id, partition = line.pop("where")
    return UserPartition(bytes.fromhex(topic_id), partition)


def _found(line: Line) -> tuple[FoundBatch, ...]:
    return tuple(FoundBatch(*one) for one in line["batches"])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
