"""Entries that contradict the log they would be written to: lies a leader with a damaged state could tell.

Each lie is a list of values, one for each entry, made for the state of a log as the checker's own reader has it. All but the
last entry may be lawful; the last one contradicts, and nothing of any of them may ever have an effect.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from integration_tests.log_fold import BYTE_OFFSET_MAX, LogFold, Where
from records.codec import encode_entry
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.levels import LEVEL_LATEST
from records.model import (
    LeadershipClaimed,
    NoOp,
    PartitionCreated,
    Record,
    RecordsDeleted,
    TransactionBegan,
    TransactionEnded,
)

Lie = Callable[[LogFold, Random], list[bytes]]
TOO_FAR: Final = 1_000


class NothingToContradict(Exception):
    """The log does not yet hold what the lie is about."""


def _written_to(fold: LogFold, rng: Random) -> Where:
    """A partition that has records."""
    found = sorted(where for where, end in fold.high_watermarks.items() if end > 0)
    if not found:
        raise NothingToContradict("no partition has records")
    return rng.choice(found)


def _file(
    fold: LogFold,
    rng: Random,
    where: Where,
    base_offset: int,
    *,
    key: str | None = None,
    producer: tuple[int, int, int] | None = None,
    sizes: tuple[int, ...] = (100,),
    is_empty: bool = False,
) -> FileCommitted:
    """A file with one run of one record a batch; `producer` is id, epoch and sequence of the first."""
    now_ms = max((one.append_time_ms for one in fold.producers.values()), default=1)
    batches = [
        CommittedBatch(
            *where, 0, base_offset + at, 1, sum(sizes[:at]), size, now_ms, 0, *(producer if producer and not at else (-1, -1, -1))
        )
        for at, size in enumerate(() if is_empty else sizes)
    ]
    return FileCommitted(
        object_key=key or f"wal/forged/{rng.randbytes(8).hex()}",
        object_format=1,
        file_size=sum(sizes),
        uploader_broker_id=-1,
        owner_ids=[0],
        created_ms=-1,
        append_time_ms=now_ms,
        content_hash=rng.randbytes(16),
        batches=batches,
    )


def _entry(*records: Record) -> bytes:
    return encode_entry(list(records), LEVEL_LATEST)


def _offset_again(fold: LogFold, rng: Random) -> list[bytes]:
    return [_entry(_file(fold, rng, _written_to(fold, rng), 0))]


def _offset_before(fold: LogFold, rng: Random) -> list[bytes]:
    where = _written_to(fold, rng)
    return [_entry(_file(fold, rng, where, fold.high_watermarks[where] - 1))]


def _offset_ahead(fold: LogFold, rng: Random) -> list[bytes]:
    where = _written_to(fold, rng)
    return [_entry(_file(fold, rng, where, fold.high_watermarks[where] + rng.choice((1, TOO_FAR))))]


def _unknown_partition(fold: LogFold, rng: Random) -> list[bytes]:
    topic_id = _written_to(fold, rng)[0]
    return [_entry(_file(fold, rng, (rng.choice((topic_id, rng.randbytes(16))), 99_999), 0))]


def _known_key(fold: LogFold, rng: Random) -> list[bytes]:
    where = _written_to(fold, rng)
    key = rng.choice(sorted(fold.files))
    return [_entry(_file(fold, rng, where, fold.high_watermarks[where], key=key, is_empty=rng.random() < 0.5))]


def _sequence(fold: LogFold, rng: Random) -> list[bytes]:
    known = sorted(fold.producers)
    if not known:
        raise NothingToContradict("no producer is remembered")
    where, producer_id = rng.choice(known)
    last = fold.producers[where, producer_id]
    wrong = rng.choice(((last.epoch, last.last_sequence + 2), (last.epoch, last.last_sequence), (last.epoch + 1, 7)))
    return [_entry(_file(fold, rng, where, fold.high_watermarks[where], producer=(producer_id, *wrong)))]


def _far_byte(fold: LogFold, rng: Random) -> list[bytes]:
    where = _written_to(fold, rng)
    return [_entry(_file(fold, rng, where, fold.high_watermarks[where], sizes=(BYTE_OFFSET_MAX, 1, 1)))]


def _deletion(fold: LogFold, rng: Random) -> list[bytes]:
    where = _written_to(fold, rng)
    beyond = RecordsDeleted(topic_id=where[0], partition=where[1], new_log_start_offset=fold.high_watermarks[where] + 1)
    whole = RecordsDeleted(topic_id=where[0], partition=where[1], new_log_start_offset=fold.high_watermarks[where])
    return [_entry(*rng.choice(((beyond,), (whole, beyond))))]


def _two_files(fold: LogFold, rng: Random) -> list[bytes]:
    where = _written_to(fold, rng)
    end = fold.high_watermarks[where]
    first = _file(fold, rng, where, end)
    return [_entry(*rng.choice(((first, _file(fold, rng, where, end + 1)), (first, NoOp()), (NoOp(), first))))]


def _claim_inside(fold: LogFold, rng: Random) -> list[bytes]:
    return [_entry(LeadershipClaimed(epoch=1, term=rng.getrandbits(60), node_id=99, rack="", endpoints=[]))]


def _undecodable(fold: LogFold, rng: Random) -> list[bytes]:
    whole = _entry(_file(fold, rng, _written_to(fold, rng), 0))
    return [rng.choice((b"", whole[: rng.randrange(10, len(whole))], rng.randbytes(60), whole + b"\0"))]


def _transaction(fold: LogFold, rng: Random) -> list[bytes]:
    where = _written_to(fold, rng)
    lawful = RecordsDeleted(topic_id=where[0], partition=where[1], new_log_start_offset=fold.high_watermarks[where])
    beyond = RecordsDeleted(topic_id=where[0], partition=where[1], new_log_start_offset=fold.high_watermarks[where] + 1)
    began, ended = TransactionBegan(name="forged", num_chunks=1), TransactionEnded(num_chunks=1)
    return rng.choice(
        (
            [_entry(ended)],
            [_entry(began), _entry(lawful), _entry(TransactionEnded(num_chunks=2))],
            [_entry(began), _entry(lawful, beyond), _entry(ended)],
            [_entry(began, lawful)],
        )
    )


def _created_and_lied(fold: LogFold, rng: Random) -> list[bytes]:
    where = _written_to(fold, rng)
    created = PartitionCreated(topic_id=rng.randbytes(16), name="forged", first_partition=0, num_partitions=1, order_offset=1)
    beyond = RecordsDeleted(topic_id=where[0], partition=where[1], new_log_start_offset=fold.high_watermarks[where] + TOO_FAR)
    return [_entry(created, beyond)]


LIES: Final[dict[str, Lie]] = {
    "offset 0 once more": _offset_again,
    "the last offset once more": _offset_before,
    "an offset ahead": _offset_ahead,
    "a partition that is not there": _unknown_partition,
    "a known object key": _known_key,
    "a wrong sequence": _sequence,
    "a byte beyond 2^31-1": _far_byte,
    "records deleted that never were": _deletion,
    "two files in one entry": _two_files,
    "a claim inside a term": _claim_inside,
    "bytes that are no entry": _undecodable,
    "a broken transaction": _transaction,
    "a creation beside a contradiction": _created_and_lied,
}
