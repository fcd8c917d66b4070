"""Holds the state of a replica against the meaning of the log, as `LogFold` has it: bounds, producers, files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from coordinator.core.state.replica_state import ShardState
from coordinator.kafka.batches import split_partition_key
from simulation.fold import LogFold, Where

SHOWN = 3


def differences(fold: LogFold, state: ShardState) -> str:
    """List the differences between the log and a replica that has applied every entry that counts; empty when there are none."""
    return "; ".join(islice(_differences(fold, state), SHOWN))


def _differences(fold: LogFold, state: ShardState) -> Iterator[str]:
    table, producers = state.hot.partitions, state.hot.producers
    index = {split_partition_key(table.keys[row]): row for row in table.rows.rows().tolist()}
    producers_of: dict[int, dict[int, tuple[int, int]]] = {}
    for slot in producers.rows.rows().tolist():
        newest = next(producers.remembered(slot))
        of_partition = producers_of.setdefault(producers.owner.cells[slot], {})
        of_partition[producers.producer.cells[slot]] = (producers.epoch.cells[slot], newest.last_sequence)
    yield from _sets("partitions", index, fold.partitions)
    for where, row in index.items():
        known = fold.partitions.get(where)
        if known is None:
            continue
        has, wants = (table.high_watermark.cells[row], table.log_start.cells[row]), (known.high_watermark, known.log_start)
        if has != wants:
            yield f"{where[0].hex()[:6]}-{where[1]} ends and starts at {has}, by the log at {wants}"
        told = producers_of.get(row, {})
        logged = {producer_id: (one.epoch, one.last_sequence) for producer_id, one in known.producers.items()}
        if told != logged:
            yield f"{where[0].hex()[:6]}-{where[1]} has producers {told}, by the log {logged}"
    if state.hot.log_time_ms != fold.log_time_ms:
        yield f"its time is {state.hot.log_time_ms}, the log's {fold.log_time_ms}"
    not_fenced = [key for key in fold.tombstones if state.find_tombstone(key) is None]
    if not_fenced:
        yield f"it does not know that the files {not_fenced[:SHOWN]} may not be committed"
    unknown = [key for key in fold.files if not state.may_know(key)]
    if unknown:
        yield f"it does not know the files {unknown[:SHOWN]}"


def _sets(what: str, has: Iterable[Where], wants: Iterable[Where]) -> Iterator[str]:
    """Whether two sets of partitions are the same."""
    odd = set(has) ^ set(wants)
    if odd:
        yield f"other {what} than in the log: {sorted(f'{topic_id.hex()[:6]}-{partition}' for topic_id, partition in odd)[:SHOWN]}"
