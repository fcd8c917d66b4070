"""Entries that contradict a log: what a leader with a damaged state, or a stranger in its name, might write.

Each is made against the judge's fold of the log, so that it contradicts it for certain: replicas must all find it void.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from records.codec import encode_entry
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.model import Record, RecordsDeleted, TransactionEnded
from simulation.fold import LogFold

FORGED_KEY = "forged"
FAR = 1_000_000


def forged_entry(fold: LogFold, kind: str, chance: float) -> bytes | None:
    """The value of an entry that contradicts the log; None where this kind needs a file or a partition and there is none yet.

    `chance` picks the file it is made from.
    """
    if kind == "garbage":
        return b"?"
    if kind == "end":
        # A transaction that is open has other chunks, if any is.
        return encode_entry([TransactionEnded(num_chunks=FAR)])
    if kind == "far deletion":
        if not fold.partitions:
            return None
        (topic_id, partition), known = list(fold.partitions.items())[int(chance * len(fold.partitions))]
        return encode_entry([RecordsDeleted(topic_id=topic_id, partition=partition, new_log_start_offset=known.high_watermark + 1)])
    records = _forged_file(fold, kind, chance)
    return None if records is None else encode_entry(records)


def _forged_file(fold: LogFold, kind: str, chance: float) -> list[Record] | None:
    candidates = [
        record
        for record in fold.files.values()
        if record.accepted and (kind != "sequence" or any(one.producer_id >= 0 for one in record.accepted))
    ]
    if not candidates:
        return None
    record = candidates[int(chance * len(candidates))]
    # Offsets that follow, wherever the partitions are still there; what is forged is something else then.
    following = replace(record, object_key=FORGED_KEY, append_time_ms=fold.log_time_ms, batches=_following(fold, record))
    match kind:
        case "offset":
            shift = -1 if chance < 0.5 and all(one.base_offset for one in following.batches) else 1
            return [_changed(following, lambda one: one._replace(base_offset=one.base_offset + shift))]
        case "partition":
            return [_changed(following, lambda one: one._replace(partition=FAR + one.partition))]
        case "again":
            return [replace(following, object_key=record.object_key)]
        case "sequence":
            # Far from every sequence of the clients, and of epochs they know: beside what is remembered of any writer.
            known = _producers_known(fold, record)
            return [_changed(following, lambda one: one if one.producer_id < 0 else one._replace(base_sequence=FAR))] if known else None
        case "two files":
            return [following, replace(following, object_key=FORGED_KEY + "-2")]
        case _:
            raise ValueError(f"no forgery {kind!r}")


def _changed(record: FileCommitted, change: Callable[[CommittedBatch], CommittedBatch]) -> FileCommitted:
    return replace(record, batches=[change(one) for one in record.batches])


def _following(fold: LogFold, record: FileCommitted) -> list[CommittedBatch]:
    """The accepted batches of a file with the offsets that are due now."""
    due: dict[tuple[bytes, int], int] = {}
    following = []
    for batch in record.accepted:
        where = (batch.topic_id, batch.partition)
        known = fold.partitions.get(where)
        base_offset = due.get(where, 0 if known is None else known.high_watermark)
        following.append(batch._replace(base_offset=base_offset))
        due[where] = base_offset + batch.record_count
    return following


def _producers_known(fold: LogFold, record: FileCommitted) -> bool:
    """Whether every partition of a file is there, and each of its idempotent producers is remembered in its partition."""
    for batch in record.accepted:
        known = fold.partitions.get((batch.topic_id, batch.partition))
        if known is None or (batch.producer_id >= 0 and batch.producer_id not in known.producers):
            return False
    return True
