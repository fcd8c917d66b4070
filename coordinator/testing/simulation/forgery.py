"""Entries that contradict a log: what a leader with a damaged state, or a stranger in its name, might write.

Each is made against the judge's fold of the log, so that it contradicts it for certain: replicas must all find it void.
"""

from __future__ import annotations

from dataclasses import replace

from coordinator.testing.simulation.fold import LogFold
from records.codec import encode_entry
from records.file_columns import iterate
from records.model import FileCommitted, Record, RecordsDeleted, TransactionEnded

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
    candidates = [record for record in fold.files.values() if record.byte_size and (kind != "sequence" or record.producer_index)]
    if not candidates:
        return None
    record = candidates[int(chance * len(candidates))]
    # Offsets that follow, wherever the partitions are still there; what is forged is something else then.
    following = replace(record, object_key=FORGED_KEY, append_time_ms=fold.log_time_ms, run_base_offset=_following(fold, record))
    match kind:
        case "offset":
            wrong = [offset + (-1 if offset and chance < 0.5 else 1) for offset in following.run_base_offset]
            return [replace(following, run_base_offset=wrong)]
        case "partition":
            return [replace(following, run_partition=[FAR + partition for partition in record.run_partition])]
        case "again":
            return [replace(following, object_key=record.object_key)]
        case "sequence":
            # Far from every sequence of the clients, and of epochs they know: beside what is remembered whoever wrote last.
            known = _producers_known(fold, record)
            return [replace(following, base_sequence=[FAR] * len(record.base_sequence))] if known else None
        case "two files":
            return [following, replace(following, object_key=FORGED_KEY + "-2")]
        case _:
            raise ValueError(f"no forgery {kind!r}")


def _following(fold: LogFold, record: FileCommitted) -> list[int]:
    due: dict[tuple[bytes, int], int] = {}
    offsets: list[int] = []
    at = 0
    for run, length in enumerate(record.run_length):
        where = (record.topic_ids[record.run_topic[run]], record.run_partition[run])
        known = fold.partitions.get(where)
        offsets.append(due.get(where, 0 if known is None else known.high_watermark))
        due[where] = offsets[-1] + sum(record.record_count_minus_one[at : at + length]) + length
        at += length
    return offsets


def _producers_known(fold: LogFold, record: FileCommitted) -> bool:
    """Whether every partition of a file is there, and each of its idempotent producers is remembered in its partition."""
    for batch in iterate(record):
        known = fold.partitions.get((record.topic_ids[batch.topic_index], batch.partition))
        if known is None or (batch.producer_id >= 0 and batch.producer_id not in known.producers):
            return False
    return True
