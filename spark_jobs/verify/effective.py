"""When the entries of a metadata partition take effect, for readers that take them in order: transactions (KIP-868) resolved.

What `judged` lets count takes effect at once, or, between TransactionBegan and TransactionEnded, when the end is read: in
order, each entry at its own offset. A claim that comes into force, or TransactionAborted, ends an open transaction, and
nothing of it counts. Written anew and not shared with the coordinator, like the rule which entries count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from records.fast import PLAIN_COMMIT_PREFIXES
from records.model import Record, TransactionAborted, TransactionBegan, TransactionEnded
from spark_jobs.verify.judged import PLAIN_COMMIT, Judge, LogFault, records_of


class Effective(NamedTuple):
    """An entry that takes effect. `records` None: a plain commit, which is not decoded yet."""

    offset: int
    value: bytes
    records: Sequence[Record] | None


@dataclass(slots=True)
class OpenTransaction:
    """A transaction without its end. `before` is epoch, term and seq of the last entry that counted before it."""

    name: str
    offset: int
    before: tuple[int, int, int]
    chunks: list[Effective] = field(default_factory=list)


@dataclass(slots=True)
class EffectiveLog:
    """Follows one metadata partition from its first entry."""

    judge: Judge = field(default_factory=Judge)
    opened: OpenTransaction | None = None

    @property
    def position(self) -> tuple[int, int, int]:
        """Epoch, term and seq of the last entry that took effect or was a claim: a state never ends inside a transaction."""
        judge = self.judge
        return (judge.epoch, judge.term, judge.seq) if self.opened is None else self.opened.before

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> Sequence[Effective]:
        """Take the next entry; returns those that take effect now. `PLAIN_COMMIT` may stand for plain commits. Raises `LogFault`."""
        judge = self.judge
        epoch = judge.epoch
        if not judge.counts(offset, key, value):
            if judge.epoch != epoch:
                self.opened = None
            return ()
        if self.opened is None and value is not None and value.startswith(PLAIN_COMMIT_PREFIXES):
            return (Effective(offset, value, None),)
        # Replicas decode every entry when they read it, also those of a transaction that never ends.
        records = () if value == PLAIN_COMMIT else records_of(offset, value)
        return self._resolve(Effective(offset, value or b"", records), records)

    def _resolve(self, entry: Effective, records: Sequence[Record]) -> Sequence[Effective]:
        opened = self.opened
        match records:
            case [TransactionBegan(name=name)]:
                if opened is not None:
                    raise LogFault(entry.offset, f"it begins a transaction inside that of entry {opened.offset}")
                judge = self.judge
                self.opened = OpenTransaction(name, entry.offset, (judge.epoch, judge.term, judge.seq - 1))
                return ()
            case [TransactionEnded(num_chunks=count)]:
                if opened is None:
                    raise LogFault(entry.offset, "it ends a transaction that never began")
                if count != len(opened.chunks):
                    text = f"it ends the transaction of entry {opened.offset} with {count} chunks, but there are {len(opened.chunks)}"
                    raise LogFault(entry.offset, text)
                self.opened = None
                return opened.chunks
            case [TransactionAborted()]:
                self.opened = None
                return ()
        if opened is None:
            return (entry,)
        opened.chunks.append(entry)
        return ()
