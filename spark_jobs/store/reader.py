"""Reading back what the store holds of the scan's own state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from records.entry_key import EntryKey
from records.levels import LEVEL_LATEST
from records.log import OpenTransaction
from spark_jobs.scan.head import NOT_SAID, Head, HeldEntry, HeldTransaction
from spark_jobs.store.engine import StoreConnection

_HEADS = "select kpart, next_offset, epoch, term, seq, state from head"
_HELD = "select kpart, entry_offset, append_ms, value from held_entry order by kpart, entry_offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadState:
    """The part of a head beyond its numbers. `has_held`: the entries held for a transaction are others than before."""

    is_adopted: bool
    is_confirmed: bool
    rival: EntryKey | None
    transaction: HeldTransaction | None
    has_held: bool
    level: int
    log_time_ms: int
    stopped_at: int | None


def read_state(text: str, held: Sequence[HeldEntry] = ()) -> HeadState:
    """Parse the JSON of a head row."""
    state = json.loads(text)
    rival, opened = state.get("rival"), state.get("transaction")
    transaction = None
    if opened is not None:
        name, offset, append_ms, is_applied, num_chunks = opened
        transaction = HeldTransaction(OpenTransaction(name, offset, num_chunks, list(held)), append_ms, is_applied)
    return HeadState(
        is_adopted=state.get("is_adopted", False),
        is_confirmed=state.get("is_confirmed", True),
        rival=None if rival is None else EntryKey(*rival),
        transaction=transaction,
        has_held=state.get("has_held", False),
        level=state.get("level", LEVEL_LATEST),
        log_time_ms=state.get("log_time_ms", NOT_SAID),
        stopped_at=state.get("stopped_at"),
    )


def read_heads(db: StoreConnection) -> dict[int, Head]:
    """Return the position of the scan in each partition of the metadata topic."""
    held: dict[int, list[HeldEntry]] = {}
    for kpart, offset, append_ms, value in db.execute(_HELD):
        held.setdefault(kpart, []).append(HeldEntry(offset, append_ms, value))
    heads = {}
    for kpart, next_offset, epoch, term, seq, text in db.execute(_HEADS):
        state = read_state(text, held.get(kpart, ()))
        heads[kpart] = Head(
            next_offset=next_offset,
            epoch=epoch,
            term=term,
            seq=seq,
            is_adopted=state.is_adopted,
            is_confirmed=state.is_confirmed,
            rival=state.rival,
            transaction=state.transaction,
            level=state.level,
            log_time_ms=state.log_time_ms,
            stopped_at=state.stopped_at,
        )
    return heads


def knows_all(db: StoreConnection, kpart: int) -> bool | None:
    """Whether all that exists in a partition of the metadata topic is known: by its entries, or by a snapshot and those after it.

    None: it was never read.
    """
    query = "select restarted_at is null and (from_offset = 0 or snapshot_offset is not null) from head where kpart = ?"
    found = db.execute(query, (kpart,)).fetchone()
    return None if found is None else bool(found[0])
