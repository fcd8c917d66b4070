"""Which entries count, judged as every replica judges them, for a whole piece of the log at once.

The rule: a claim is in force iff its key has seq 0, its epoch is the successor of the one in force (or of a restored
log's floor), and its body is a LeadershipClaimed of the same epoch and term. Any other entry counts iff it has the term
and epoch in force and its seq is the successor of the last one that counted. Everything else is void, by reason.

A scan that begins in the middle of a log has not seen the claim. It *adopts* the term of the first entry it meets, and
takes another one when two entries of that follow each other, as long as no claim was seen; an operator is told.
What was judged never depends on how the log was cut into pieces: all it rests on is in the fields that `Head` keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from records.entry_key import EntryKey
from records.model import LeadershipClaimed
from spark_jobs.scan.head import Head

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

STALE, GAP, DUPLICATE, FOREIGN, CONTRADICTION = "stale", "gap", "duplicate", "foreign", "contradiction"
VOID_REASONS = (STALE, GAP, DUPLICATE, FOREIGN, CONTRADICTION)
"""The last one is not told from keys: see `spark_jobs.contradiction`."""


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
    """What became of the entries of a piece. `claims` are those that came into force, by index; `adopted` likewise."""

    counts: Mask
    claims: dict[int, LeadershipClaimed] = field(default_factory=dict)
    suspects: list[Suspect] = field(default_factory=list)
    adopted: list[int] = field(default_factory=list)


class UnknownClaim(NamedTuple):
    """Stands for a possible claim of a schema that this version does not know: its key is believed until another term shows itself."""


ReadClaim = Callable[[int], LeadershipClaimed | UnknownClaim | None]
"""Decodes entry number i of the piece; None when it is no single claim."""


class Force:
    """The claim in force while a log is read; see the module's text."""

    def __init__(self, head: Head) -> None:
        self.epoch, self.term, self.seq = head.epoch, head.term, head.seq
        self.epoch_floor = head.epoch_floor
        self.is_adopted, self.is_confirmed = head.is_adopted, head.is_confirmed
        self.rival = head.rival
        self.void: Counter[str] = Counter()

    def forget(self) -> None:
        """Entries were lost: whatever term comes next is adopted."""
        self.epoch = self.term = self.seq = self.rival = None
        self.is_adopted = self.is_confirmed = False

    def judge(self, keys: Keys, read_claim: ReadClaim) -> Verdicts:
        """Judge the next piece of the log."""
        size = len(keys.epoch)
        if self._is_all_of_term(keys):
            self.seq = int(keys.seq[-1])
            self.is_confirmed, self.rival = True, None
            return Verdicts(np.ones(size, bool))
        verdicts = Verdicts(np.zeros(size, bool))
        rows = zip(keys.is_well_formed.tolist(), keys.epoch.tolist(), keys.term.tolist(), keys.seq.tolist(), strict=True)
        for index, (is_well_formed, epoch, term, seq) in enumerate(rows):
            if is_well_formed:
                verdicts.counts[index] = self._judge(EntryKey(epoch, term, seq), index, read_claim, verdicts)
            else:
                self.void[FOREIGN] += 1
        return verdicts

    def _is_all_of_term(self, keys: Keys) -> bool:
        """Whether every entry of the piece continues the term in force: nearly always."""
        if self.term is None or self.seq is None or not self.epoch:
            return False
        if not bool(keys.is_well_formed.all()) or int(keys.seq[0]) != self.seq + 1:
            return False
        is_same = (keys.term == self.term) & (keys.epoch == self.epoch)
        return bool(is_same.all()) and bool((np.diff(keys.seq) == 1).all())

    def _judge(self, key: EntryKey, index: int, read_claim: ReadClaim, verdicts: Verdicts) -> bool:
        if self.term is None or self.seq is None or self.epoch is None:
            return self._adopt(key, index, read_claim, verdicts)
        if key.seq == 0:
            return self._judge_claim(key, index, read_claim, verdicts)
        if key.epoch != self.epoch or key.term != self.term or self.epoch == 0:
            return self._judge_other_term(key, index, verdicts)
        if key.seq == self.seq + 1:
            self.seq = key.seq
            self.is_confirmed, self.rival = True, None
            return True
        self._void(DUPLICATE if key.seq <= self.seq else GAP, key, index, verdicts)
        return False

    def _judge_claim(self, key: EntryKey, index: int, read_claim: ReadClaim, verdicts: Verdicts) -> bool:
        epoch = self.epoch or 0
        successors = (epoch + 1, self.epoch_floor + 1) if self.epoch_floor > epoch else (epoch + 1,)
        if key.epoch not in successors:
            if key.epoch > max(successors) and not self.is_adopted:
                verdicts.suspects.append(Suspect(index, "epoch-jump", "epoch", epoch + 1, key.epoch))
            self._void(STALE, key, index, verdicts)
            return False
        claim = read_claim(index)
        if isinstance(claim, UnknownClaim):
            self._come_into_force(key, is_adopted=True)
            verdicts.adopted.append(index)
            return True
        if claim is None or claim.epoch != key.epoch or claim.term != key.term:
            self._void(FOREIGN, key, index, verdicts)
            return False
        self._come_into_force(key, is_adopted=False)
        verdicts.claims[index] = claim
        return True

    def _judge_other_term(self, key: EntryKey, index: int, verdicts: Verdicts) -> bool:
        """Void; but where no claim was seen, the second of two entries that follow each other shows which term leads."""
        rival = self.rival
        may_win = self.is_adopted and (key.epoch > (self.epoch or 0) or not self.is_confirmed)
        if may_win and rival is not None and key == (rival.epoch, rival.term, rival.seq + 1):
            self._come_into_force(key, is_adopted=True)
            self.is_confirmed = True
            verdicts.adopted.append(index)
            return True
        self.rival = key if self.is_adopted else None
        self._void(STALE, key, index, verdicts)
        return False

    def _adopt(self, key: EntryKey, index: int, read_claim: ReadClaim, verdicts: Verdicts) -> bool:
        if self.epoch is not None and key.epoch < self.epoch:
            # A snapshot named the epoch that was in force here.
            self._void(STALE, key, index, verdicts)
            return False
        if key.seq == 0:
            claim = read_claim(index)
            if claim is None or (not isinstance(claim, UnknownClaim) and (claim.epoch, claim.term) != (key.epoch, key.term)):
                self._void(FOREIGN, key, index, verdicts)
                return False
            if isinstance(claim, LeadershipClaimed):
                verdicts.claims[index] = claim
        self._come_into_force(key, is_adopted=True)
        verdicts.adopted.append(index)
        return True

    def _come_into_force(self, key: EntryKey, *, is_adopted: bool) -> None:
        self.epoch, self.term, self.seq = key
        self.is_adopted, self.is_confirmed, self.rival = is_adopted, not is_adopted, None

    def _void(self, reason: str, key: EntryKey, index: int, verdicts: Verdicts) -> None:
        self.void[reason] += 1
        is_sure = self.epoch and (self.is_confirmed or not self.is_adopted)
        if self.term is not None and key.term == self.term and is_sure:
            suspect = Suspect(index, "void-carries-live-term", "seq", (self.seq or 0) + 1, key.seq)
            if key.epoch != self.epoch:
                suspect = suspect._replace(what="epoch", expected=self.epoch or 0, found=key.epoch)
            verdicts.suspects.append(suspect)
