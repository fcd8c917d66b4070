"""When the entries of a metadata partition take effect, for readers that take them in order: transactions (KIP-868) resolved.

What `judged` lets count takes effect at once, or, between TransactionBegan and TransactionEnded, when the end is read: in
order, each entry at its own offset. A claim that comes into force, or TransactionAborted, ends an open transaction, and
nothing of it counts. An entry that contradicts the log is void, together with its transaction
(`contradictions`): what needs no state is found here. Apart on purpose from `records.log`, like `judged`: a fault of the
grammar that all others share is found here.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from records.codec import UndecodableEntry
from records.committed_files.codec import FileCommitted, begins_like_a_file
from records.model import Record, TransactionAborted, TransactionBegan, TransactionEnded
from spark_jobs.verify.contradictions import check_composition, check_marks
from spark_jobs.verify.judged import PLAIN_COMMIT, TermJudge, records_of


class Effective(NamedTuple):
    """An entry that takes effect. `records` None: a plain commit, which is not decoded yet."""

    offset: int
    value: bytes
    records: Sequence[Record] | None


@dataclass(slots=True)
class UnendedTransaction:
    """A transaction without its end. `before` is epoch, term and seq of the last entry that counted before it."""

    name: str
    offset: int
    before: tuple[int, int, int]
    chunks: list[Effective] = field(default_factory=list)


class EffectiveUnit(NamedTuple):
    """Entries that take effect together: one, or those of a transaction. `offset` is the entry that makes them."""

    offset: int
    entries: Sequence[Effective]


@dataclass(slots=True)
class EffectiveLog:
    """Follows one metadata partition from its first entry. `known_void` contradict the state, as another walk found out.

    `contradictions` says of every entry that was found to contradict the log what is wrong with it.
    """

    known_void: Set[int] = frozenset()
    judge: TermJudge = field(default_factory=TermJudge)
    opened: UnendedTransaction | None = None
    contradictions: dict[int, str] = field(default_factory=dict)

    @property
    def position(self) -> tuple[int, int, int]:
        """Epoch, term and seq of the last entry that took effect or was a claim: a state never ends inside a transaction."""
        judge = self.judge
        return (judge.epoch, judge.term, judge.seq) if self.opened is None else self.opened.before

    def read(self, offset: int, key: bytes | None, value: bytes | None) -> EffectiveUnit | None:
        """Take the next entry; returns what takes effect now. `PLAIN_COMMIT` may replace plain commits. Raises `LogFault`."""
        judge = self.judge
        epoch = judge.epoch
        if not judge.counts(offset, key, value):
            if judge.epoch == epoch:
                return None
            self.opened = None
            if judge.term:
                return None
            # No term is in force yet: the log begins with a restore.
            return EffectiveUnit(offset, (Effective(offset, value or b"", records_of(offset, value)),))
        if offset in self.known_void:
            self.opened = None
            return None
        if self.opened is None and value is not None and begins_like_a_file(value):
            return EffectiveUnit(offset, (Effective(offset, value, None),))
        try:
            # Replicas decode every entry when they read it, also those of a transaction that never ends.
            records = () if value == PLAIN_COMMIT else records_of(offset, value)
        except UndecodableEntry as error:
            return self._refuse(offset, f"it cannot be decoded: {error}")
        return self._resolve(Effective(offset, value or b"", records), records)

    def _refuse(self, offset: int, why: str) -> EffectiveUnit | None:
        """An entry contradicts the log: it is void, and a transaction that is open. Nothing takes effect."""
        self.contradictions[offset] = why
        self.opened = None
        return None

    def _resolve(self, entry: Effective, records: Sequence[Record]) -> EffectiveUnit | None:
        opened, offset = self.opened, entry.offset
        match records:
            case [TransactionBegan(name=name)]:
                if opened is not None:
                    return self._refuse(offset, f"it begins a transaction inside that of entry {opened.offset}")
                judge = self.judge
                self.opened = UnendedTransaction(name, offset, (judge.epoch, judge.term, judge.seq - 1))
                return None
            case [TransactionEnded(num_chunks=count)]:
                if opened is None:
                    return self._refuse(offset, "it ends a transaction that never began")
                return self._end(opened, offset, count)
            case [TransactionAborted()]:
                self.opened = None
                return None
        wrong = check_marks(records) or (check_composition(records) if opened is None else None)
        if wrong is not None:
            return self._refuse(offset, wrong.message)
        if opened is None:
            return EffectiveUnit(offset, (entry,))
        opened.chunks.append(entry)
        return None

    def _end(self, opened: UnendedTransaction, offset: int, count: int) -> EffectiveUnit | None:
        if count != len(opened.chunks):
            text = f"it ends the transaction of entry {opened.offset} with {count} chunks, but there are {len(opened.chunks)}"
            return self._refuse(offset, text)
        for chunk in opened.chunks:
            # A plain commit without its body is not decoded.
            is_file = not chunk.value or any(isinstance(record, FileCommitted) for record in chunk.records or ())
            wrong = check_composition(chunk.records or (), in_transaction=True)
            if is_file or wrong is not None:
                why = "a file is committed inside a transaction" if wrong is None else wrong.message
                return self._refuse(offset, f"it ends a transaction whose entry {chunk.offset} is wrong: {why}")
        self.opened = None
        return EffectiveUnit(offset, opened.chunks)
