"""Which entries count, judged as every replica judges them, for a whole piece of the log at once.

The rule is `records.log.Fence`; a restored log begins at a floor of epochs.

A scan that begins in the middle of a log has not seen the claim. It *adopts* the term of the first entry it meets, and
takes another one when two entries of that follow each other, as long as no claim was seen; this is reported.
The verdicts never depend on how the log was cut into pieces: they depend only on the fields that `Head` keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from records.entry_key import EntryKey
from records.log import RESTORED_KEY, Fence, Verdict, claim_in, fence_of, restored_in
from records.model import LeadershipClaimed, Record
from spark_jobs.scan.head import Head

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Keys(NamedTuple):
    """The keys of a piece of the log; where `is_well_formed` is false the numbers mean nothing."""

    epoch: Int64s
    term: Int64s
    seq: Int64s
    is_well_formed: Mask


class Suspect(NamedTuple):
    """A void entry that must not be: `rule` is the finding's, `entry` counts those of the piece, `what` is expected and found."""

    entry: int
    rule: str
    what: str
    expected: int
    found: int


@dataclass(slots=True)
class Verdicts:
    """The verdicts on the entries of a piece. `claims` are those that came into force, by index; `adopted` likewise.

    `is_restored`: the first entry begins a restored log.
    """

    counts: Mask
    claims: dict[int, LeadershipClaimed] = field(default_factory=dict)
    suspects: list[Suspect] = field(default_factory=list)
    adopted: list[int] = field(default_factory=list)
    is_restored: bool = False


class UnknownClaim(NamedTuple):
    """Stands for a possible claim of a schema that this version does not know: its key is believed until another term shows itself."""


ReadClaim = Callable[[int], Sequence[Record] | UnknownClaim]
"""Decodes entry number i of the piece, which may be a claim; bytes that cannot be decoded have no records."""


class Force:
    """The claim in force while a log is read; see the module's text."""

    def __init__(self, head: Head) -> None:
        self.fence = None if head.term is None or head.seq is None else Fence(head.epoch or 0, head.term, head.seq)
        self._epoch_min = head.epoch
        self.is_adopted, self.is_confirmed = head.is_adopted, head.is_confirmed
        self.rival = head.rival
        self.void: Counter[str] = Counter()

    @property
    def epoch(self) -> int | None:
        """The epoch in force; while no term is known the least that may be."""
        return self._epoch_min if self.fence is None else self.fence.epoch

    def forget(self) -> None:
        """Entries were lost: whatever term comes next is adopted."""
        self.fence = self._epoch_min = self.rival = None
        self.is_adopted = self.is_confirmed = False

    def judge(self, keys: Keys, read_claim: ReadClaim, first_offset: int) -> Verdicts:
        """Judge the next piece of the log, whose entries begin at `first_offset`."""
        size = len(keys.epoch)
        if self._is_all_of_term(keys):
            self.fence = Fence(*(int(column[-1]) for column in keys[:3]))
            self.is_confirmed, self.rival = True, None
            return Verdicts(np.ones(size, bool))
        verdicts = Verdicts(np.zeros(size, bool))
        rows = zip(keys.is_well_formed.tolist(), keys.epoch.tolist(), keys.term.tolist(), keys.seq.tolist(), strict=True)
        for index, (is_well_formed, epoch, term, seq) in enumerate(rows):
            if first_offset + index == 0 and is_well_formed and (epoch, term, seq) == RESTORED_KEY and self._is_restored(read_claim(index)):
                verdicts.counts[index] = verdicts.is_restored = True
            elif is_well_formed:
                verdicts.counts[index] = self._judge(EntryKey(epoch, term, seq), index, read_claim, verdicts)
            else:
                self.void[Verdict.VOID_FOREIGN.value] += 1
        return verdicts

    def _is_all_of_term(self, keys: Keys) -> bool:
        """Whether every entry of the piece continues the term in force: nearly always."""
        fence = self.fence
        if fence is None or not fence.term or not bool(keys.is_well_formed.all()) or int(keys.seq[0]) != fence.seq + 1:
            return False
        is_same = (keys.term == fence.term) & (keys.epoch == fence.epoch)
        return bool(is_same.all()) and bool((np.diff(keys.seq) == 1).all())

    def _is_restored(self, entry: Sequence[Record] | UnknownClaim) -> bool:
        """Judge the entry that may begin a restored log; after one that cannot be read nothing is known."""
        if isinstance(entry, UnknownClaim):
            self.forget()
            return True
        restored = restored_in(0, RESTORED_KEY, entry)
        if restored is not None:
            self.fence = fence_of(restored)
        return restored is not None

    def _judge(self, key: EntryKey, index: int, read_claim: ReadClaim, verdicts: Verdicts) -> bool:
        fence = self.fence
        if fence is None:
            return self._adopt(key, index, read_claim, verdicts)
        verdict = fence.judge(key)
        if verdict is Verdict.APPLY:
            self.fence = fence.advanced()
            self.is_confirmed, self.rival = True, None
            return True
        if key.seq == 0:
            return self._judge_claim(key, fence, index, read_claim, verdicts)
        if verdict is Verdict.VOID_STALE:
            return self._judge_other_term(key, fence, index, verdicts)
        self._void(verdict, key, index, verdicts)
        return False

    def _judge_claim(self, key: EntryKey, fence: Fence, index: int, read_claim: ReadClaim, verdicts: Verdicts) -> bool:
        if fence.judge(key) is not Verdict.CLAIM:
            if key.epoch > fence.epoch + 1 and not self.is_adopted:
                verdicts.suspects.append(Suspect(index, "epoch-jump", "epoch", fence.epoch + 1, key.epoch))
            self._void(Verdict.VOID_STALE, key, index, verdicts)
            return False
        return self._take_claim(key, index, read_claim(index), verdicts, is_adopted=False)

    def _take_claim(
        self, key: EntryKey, index: int, entry: Sequence[Record] | UnknownClaim, verdicts: Verdicts, *, is_adopted: bool
    ) -> bool:
        """Bring a claim into force if key and body agree."""
        is_unknown = isinstance(entry, UnknownClaim)
        claim = None if isinstance(entry, UnknownClaim) else claim_in(key, entry)
        if claim is not None:
            verdicts.claims[index] = claim
        elif not is_unknown:
            self._void(Verdict.VOID_FOREIGN, key, index, verdicts)
            return False
        self._come_into_force(key, is_adopted=is_adopted or is_unknown)
        if self.is_adopted:
            verdicts.adopted.append(index)
        return True

    def _judge_other_term(self, key: EntryKey, fence: Fence, index: int, verdicts: Verdicts) -> bool:
        """Void; but where no claim was seen, the second of two entries that follow each other shows which term leads."""
        rival = self.rival
        may_win = self.is_adopted and (key.epoch > fence.epoch or not self.is_confirmed)
        if may_win and rival is not None and key == (rival.epoch, rival.term, rival.seq + 1):
            self._come_into_force(key, is_adopted=True)
            self.is_confirmed = True
            verdicts.adopted.append(index)
            return True
        self.rival = key if self.is_adopted else None
        self._void(Verdict.VOID_STALE, key, index, verdicts)
        return False

    def _adopt(self, key: EntryKey, index: int, read_claim: ReadClaim, verdicts: Verdicts) -> bool:
        if self._epoch_min is not None and key.epoch < self._epoch_min:
            # A snapshot named the epoch that was in force here.
            self._void(Verdict.VOID_STALE, key, index, verdicts)
            return False
        if key.seq == 0:
            return self._take_claim(key, index, read_claim(index), verdicts, is_adopted=True)
        self._come_into_force(key, is_adopted=True)
        verdicts.adopted.append(index)
        return True

    def _come_into_force(self, key: EntryKey, *, is_adopted: bool) -> None:
        self.fence = Fence(*key)
        self.is_adopted, self.is_confirmed, self.rival = is_adopted, not is_adopted, None

    def _void(self, verdict: Verdict, key: EntryKey, index: int, verdicts: Verdicts) -> None:
        self.void[verdict.value] += 1
        fence = self.fence
        is_sure = self.is_confirmed or not self.is_adopted
        if fence is not None and fence.term and key.term == fence.term and is_sure:
            suspect = Suspect(index, "void-carries-live-term", "seq", fence.seq + 1, key.seq)
            if key.epoch != fence.epoch:
                suspect = suspect._replace(what="epoch", expected=fence.epoch, found=key.epoch)
            verdicts.suspects.append(suspect)
