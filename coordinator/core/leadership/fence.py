"""Which entries of the log count: the rule every replica follows in the same way (KIP-1164, "Leadership").

A *term* is one leadership of one process, named by a random 64-bit id. A claim is in force iff its key has seq 0, its
epoch is exactly the successor of the epoch in force, and its body is a LeadershipClaimed of the same epoch and term.
Any other entry counts iff its term and epoch are in force and its seq is the successor of the last one that counted.
Everything else is void for everybody. Two consequences carry the design: of two rival claims of an epoch the first in
the log wins for all readers, and a leader that was overtaken cannot add anything, because Kafka orders its late
entries behind the claim. The rule looks at the key alone, so void entries are never decoded (a claim's body apart).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from records.entry_key import EntryKey
from records.model import LeadershipClaimed


class Verdict(Enum):
    """What an entry means to the log it stands in. VOID_CONTRADICTION is not the fence's to say: see `core.contradiction`."""

    APPLY = "apply"
    CLAIM = "claim"
    VOID_FOREIGN = "foreign"
    VOID_STALE = "stale"
    VOID_GAP = "gap"
    VOID_DUPLICATE = "duplicate"
    VOID_CONTRADICTION = "contradiction"


VOID_REASONS = {verdict: verdict.value for verdict in Verdict if verdict.name.startswith("VOID_")}


@dataclass(frozen=True, slots=True)
class Fence:
    """The term in force and the last entry of it that counted. `term` 0 with epoch 0: nobody ever led."""

    epoch: int = 0
    term: int = 0
    seq: int = 0

    def judge(self, key: EntryKey | None) -> Verdict:
        """Judge an entry by its key. CLAIM only means "may be one": see `admits`."""
        if key is None:
            return Verdict.VOID_FOREIGN
        if key.seq == 0:
            return Verdict.CLAIM if key.epoch == self.epoch + 1 else Verdict.VOID_STALE
        if key.epoch != self.epoch or key.term != self.term or self.epoch == 0:
            # Epoch 0 is nobody's: without this a stray message could count in a log without a claim.
            return Verdict.VOID_STALE
        if key.seq == self.seq + 1:
            return Verdict.APPLY
        return Verdict.VOID_DUPLICATE if key.seq <= self.seq else Verdict.VOID_GAP

    def advanced(self) -> Fence:
        """The fence after one more entry of the term in force."""
        return Fence(self.epoch, self.term, self.seq + 1)

    def claimed_by(self, claim: LeadershipClaimed) -> Fence:
        """The fence after a claim came into force."""
        return Fence(claim.epoch, claim.term, 0)


def admits(key: EntryKey, claim: LeadershipClaimed) -> bool:
    """Whether the body of a possible claim agrees with its key; if not, the entry is void."""
    return claim.epoch == key.epoch and claim.term == key.term
