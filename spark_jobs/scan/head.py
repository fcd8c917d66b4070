"""The head of a scan of one partition of the metadata topic: all that a task must know of the entries before its own.

Everything larger (chains of user partitions and producers, files) stays in the store; a task sends links that are joined
there. Heads move in the very transaction that takes over what was derived from the entries below them.
"""

from __future__ import annotations

from dataclasses import dataclass

from records.entry_key import EntryKey
from records.levels import LEVEL_LATEST
from records.log import OpenTransaction

NOT_SAID = -1


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """An entry of a transaction that has not ended yet (KIP-868)."""

    offset: int
    append_ms: int
    value: bytes


@dataclass(frozen=True, slots=True)
class HeldTransaction:
    """An open transaction with its entries. When it grew too large to be held, its entries count at once (`is_applied`)."""

    opened: OpenTransaction[HeldEntry]
    append_ms: int
    is_applied: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The claim in force and its last entry below `next_offset`; `epoch` None: nothing is known of it yet.

    `is_adopted`: the claim itself was not seen, the term was taken from entries (two at least: `is_confirmed`); `rival` is
    then an entry of another term, which wins if the next entry follows it.
    With an `epoch` but no `term` only entries from that epoch on are adopted.
    `level` is the highest schema level that entries were seen to have or
    may have. `log_time_ms` is the append time of the newest file. `stopped_at` is the first entry that replicas of this
    version cannot apply.
    """

    next_offset: int
    epoch: int | None = None
    term: int | None = None
    seq: int | None = None
    is_adopted: bool = False
    is_confirmed: bool = True
    rival: EntryKey | None = None
    transaction: HeldTransaction | None = None
    level: int = LEVEL_LATEST
    log_time_ms: int = NOT_SAID
    stopped_at: int | None = None


START = Head(next_offset=0, epoch=0, term=0, seq=0, level=1)
"""The head of a log that is read from its first entry on: no node ever led."""
