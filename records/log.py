"""The grammar of the log: which entries count, which take effect together, and which are void by their form alone.

*Fence* (KIP-1164, "Leadership"). A *term* is one leadership of one process, named by a random 64-bit id. A claim is in force iff its
key has seq 0, its epoch is exactly the successor of the epoch in force, and its body is a LeadershipClaimed of the same epoch and
term. Any other entry counts iff its term and epoch are in force and its seq is the successor of the last one that counted.
Everything else is void for everybody. Two consequences carry the design: of two rival claims of an epoch the first in the log wins
for all readers, and a leader that was overtaken cannot add anything, because Kafka orders its late entries after the claim. The
rule looks at the key alone, so void entries are never decoded (a claim's body apart).

*Restore*. A log that goes on from a snapshot of another one begins with `Restored`, alone in the entry at offset 0, whose key is all
zero. It puts its floor of epochs in force with term 0, which no process uses: no entry counts until the claim of the epoch after the floor.
Anywhere else `Restored` is void.

*Transactions* (KIP-868) are entries that take effect together: `TransactionBegan` alone in its entry, the chunks,
`TransactionEnded` alone in its entry, all of one term, with nothing of others in between but void entries. A chunk's records take
effect at their own offset, once the end was read. A claim in force ends an open transaction: nothing of it counts. So does
`TransactionAborted`.

*Contradictions*. An entry that counts by its key uses up its seq and is void, and so is the transaction that is open, when its form
is wrong: bytes that cannot be decoded, a file or a claim among other records, a `Restored`, markers of transactions in the wrong
place, a number of partitions that no topic has. The next entry counts by itself again. Whether an entry contradicts the *state*
before it is not told here: the service has `coordinator.core.contradiction`, the monitor `spark_jobs.contradiction`.

Pure. The service, `diskless log`, the monitor's scan and the archive read logs by these rules. The checkers of the rules have rules of
their own: the model of the core's tests, the simulator's fold, `spark_jobs.verify`, and the reader of the integration tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey
from records.errors import UnknownSchema, UnreadableEntry
from records.model import (
    LeadershipClaimed,
    PartitionCreated,
    Record,
    Restored,
    TopicPlaced,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)

TOPIC_PARTITIONS_MAX = 10_000_000
"""No topic has more partitions, whatever `max.partitions.per.topic` allows: every replica builds them all in memory."""

RESTORED_KEY: Final = EntryKey(0, 0, 0)
"""The key of the entry at offset 0 of a restored log: of no term."""

C = TypeVar("C")


# ---- which entries count


class Verdict(Enum):
    """The meaning of an entry to its log. `Fence.judge` looks at keys: it never says RESTORED or VOID_CONTRADICTION."""

    APPLY = "apply"
    CLAIM = "claim"
    RESTORED = "restored"
    VOID_FOREIGN = "foreign"
    VOID_STALE = "stale"
    VOID_GAP = "gap"
    VOID_DUPLICATE = "duplicate"
    VOID_CONTRADICTION = "contradiction"


VOID_REASONS = {verdict: verdict.value for verdict in Verdict if verdict.name.startswith("VOID_")}


@dataclass(frozen=True, slots=True)
class Fence:
    """The term in force and the last entry of it that counted. `term` 0: no claim is in force since the log began."""

    epoch: int = 0
    term: int = 0
    seq: int = 0

    def judge(self, key: EntryKey | None) -> Verdict:
        """Judge an entry by its key. CLAIM only means "may be one": see `claim_in`."""
        if key is None:
            return Verdict.VOID_FOREIGN
        if key.seq == 0:
            return Verdict.CLAIM if key.epoch == self.epoch + 1 else Verdict.VOID_STALE
        if key.epoch != self.epoch or key.term != self.term or self.term == 0:
            # No leader has term 0: without this a stray message could count in a log without a claim.
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


def restored_in(offset: int, key: EntryKey | None, records: Sequence[Record]) -> Restored | None:
    """The restore that an entry begins the log with; None for any other entry."""
    match records:
        case [Restored() as restored] if offset == 0 and key == RESTORED_KEY and restored.epoch_floor > 0 and restored.file_id_base >= 0:
            return restored
    return None


def fence_of(restored: Restored) -> Fence:
    """The fence after the entry that begins a restored log."""
    return Fence(restored.epoch_floor)


def claim_in(key: EntryKey | None, records: Sequence[Record]) -> LeadershipClaimed | None:
    """The claim that an entry makes; None when it makes none, or when key and body disagree, so that the entry is void."""
    match records:
        case [LeadershipClaimed() as claim] if key == (claim.epoch, claim.term, 0):
            return claim
    return None


# ---- what an entry that counts does


class BrokenRule(NamedTuple):
    """A fault of an entry: the rule's name, a text, what was expected and what was found, the topic if there is one."""

    rule: str
    message: str
    expected: int | None = None
    found: int | None = None
    topic_id: bytes | None = None


class Role(Enum):
    """The role of an entry that counts in the transaction around it."""

    ALONE = "takes effect by itself"
    BEGINS = "begins a transaction"
    CHUNK = "is of the open transaction"
    ENDS = "ends the open transaction, which takes effect"
    ABORTS = "ends the open transaction, of which nothing counts"
    ENDS_UNKNOWN = "ends a transaction that began in entries that were not read"


@dataclass(slots=True)
class OpenTransaction(Generic[C]):
    """A transaction that began at `offset` and has not ended. `num_chunks` is what its beginning says, -1: nothing."""

    name: str
    offset: int
    num_chunks: int
    chunks: list[C] = field(default_factory=list)


def begun_by(records: Sequence[Record], offset: int) -> OpenTransaction[C]:
    """The transaction that an entry with the role BEGINS opens."""
    [began] = records
    assert isinstance(began, TransactionBegan), began
    return OpenTransaction(began.name, offset, began.num_chunks)


def role_of(
    records: Sequence[Record], offset: int, opened: OpenTransaction[C] | None, *, may_have_begun: bool = False
) -> Role | BrokenRule:
    """Tell what an entry that counts is to the open transaction, or the rule that its form breaks, so that both are void.

    Records of chunks are judged by `composition_fault` when the transaction ends. `may_have_begun`: earlier entries of the log were
    not read, so that an end without a beginning is no fault.
    """
    match records:
        case [TransactionBegan()]:
            return Role.BEGINS if opened is None else _fault_of_second(opened, offset)
        case [TransactionEnded(num_chunks=count)] if opened is not None:
            return Role.ENDS if count == len(opened.chunks) else _fault_of_count(opened, offset, count)
        case [TransactionEnded()]:
            unopened = BrokenRule("transaction-unopened", f"entry {offset} ends a transaction that never began")
            return Role.ENDS_UNKNOWN if may_have_begun else unopened
        case [TransactionAborted()] if opened is not None:
            return Role.ABORTS
    if any(isinstance(record, TransactionBegan | TransactionEnded) for record in records):
        message = f"entry {offset} begins or ends a transaction among other records; it must be alone in its entry"
        return BrokenRule("misplaced-transaction", message)
    return (composition_fault(records) or Role.ALONE) if opened is None else Role.CHUNK


def _fault_of_second(opened: OpenTransaction[C], offset: int) -> BrokenRule:
    message = f"a transaction begins at {offset} inside transaction {opened.name!r}"
    return BrokenRule("transaction-unclosed", message, expected=opened.offset, found=offset)


def _fault_of_count(opened: OpenTransaction[C], offset: int, count: int) -> BrokenRule:
    found = len(opened.chunks)
    message = f"transaction {opened.name!r} ends at {offset} with {count} chunks, {found} were read"
    return BrokenRule("transaction-chunks", message, expected=count, found=found)


def composition_fault(records: Sequence[Record], *, in_transaction: bool = False) -> BrokenRule | None:
    """Find the fault in the records of an entry, or of a transaction, that needs no knowledge of the log before them."""
    for record in records:
        match record:
            case FileCommitted() if in_transaction or len(records) > 1:
                message = f"file {record.object_key} is committed beside other records; a file is alone in its entry"
                files = sum(isinstance(one, FileCommitted) for one in records)
                return BrokenRule("misplaced-file", message, *((1, files) if files > 1 else ()))
            case LeadershipClaimed():
                return BrokenRule("misplaced-claim", f"a claim of epoch {record.epoch} is not at seq 0")
            case Restored():
                return BrokenRule("misplaced-restore", f"a restore from topic id {record.old_topic_id.hex()} is not at the beginning")
            case PartitionCreated():
                fault = _range_fault(record.topic_id, record.name, record.first_partition, record.num_partitions)
                if fault is not None:
                    return fault
            case TopicPlaced():
                for placed in record.ranges:
                    fault = _range_fault(record.topic_id, record.name, placed.first_partition, placed.num_partitions)
                    if fault is not None:
                        return fault
            case _:
                continue
    return None


def _range_fault(topic_id: bytes, name: str, first: int, count: int) -> BrokenRule | None:
    if first >= 0 and count >= 0 and first + count <= TOPIC_PARTITIONS_MAX:
        return None
    message = f"topic {name} gets partitions {first} to {first + count - 1}; a topic has at most {TOPIC_PARTITIONS_MAX}"
    return BrokenRule("absurd-partition-count", message, TOPIC_PARTITIONS_MAX, first + count, topic_id)


def undecodable(error: UnreadableEntry) -> BrokenRule:
    """The fault of an entry that counts and whose bytes are no entry."""
    return BrokenRule("undecodable-entry", str(error))


# ---- a whole log


class EntryRecords(NamedTuple):
    """An entry of a transaction, decoded."""

    offset: int
    records: Sequence[Record]


class Judgement(NamedTuple):
    """The meaning of an entry to its log: its role if it counts, its fault if it contradicts the log by its form.

    `closed` is the transaction that was open until this entry: it takes effect now if the role is ENDS, and else never.
    """

    verdict: Verdict
    role: Role | None = None
    fault: BrokenRule | None = None
    closed: OpenTransaction[EntryRecords] | None = None


class LogGrammar:
    """Reads the entries of one partition of the log in order. `may_have_begun`: see `role_of`."""

    def __init__(self, fence: Fence | None = None, *, may_have_begun: bool = False) -> None:
        self.fence = fence or Fence()
        self.opened: OpenTransaction[EntryRecords] | None = None
        self._may_have_begun = may_have_begun

    def read(self, offset: int, key: EntryKey | None, entry: Sequence[Record] | UnreadableEntry) -> Judgement:
        """Judge the next entry, given its records or why it cannot be decoded.

        Raises `UnknownSchema` when only a newer version can read the entry, and it counts or may be a claim or a restore: there
        replicas stop.
        """
        verdict = self.fence.judge(key)
        if offset == 0 and key == RESTORED_KEY:
            if isinstance(entry, UnknownSchema):
                raise entry
            restored = None if isinstance(entry, UnreadableEntry) else restored_in(offset, key, entry)
            if restored is not None:
                self.fence = fence_of(restored)
                return Judgement(Verdict.RESTORED)
        if isinstance(entry, UnknownSchema) and verdict in (Verdict.APPLY, Verdict.CLAIM):
            raise entry
        if verdict is Verdict.CLAIM and key is not None:
            claim = None if isinstance(entry, UnreadableEntry) else claim_in(key, entry)
            if claim is None:
                return Judgement(Verdict.VOID_FOREIGN)
            self.fence = self.fence.claimed_by(claim)
            return Judgement(Verdict.CLAIM, closed=self.close())
        if verdict is not Verdict.APPLY:
            return Judgement(verdict)
        self.fence = self.fence.advanced()
        return self._void(undecodable(entry)) if isinstance(entry, UnreadableEntry) else self._take(offset, entry)

    def close(self) -> OpenTransaction[EntryRecords] | None:
        """End the open transaction, for an entry that contradicts the state; returns it."""
        opened, self.opened = self.opened, None
        return opened

    def _take(self, offset: int, records: Sequence[Record]) -> Judgement:
        role, opened = role_of(records, offset, self.opened, may_have_begun=self._may_have_begun), self.opened
        match role:
            case BrokenRule():
                return self._void(role)
            case Role.BEGINS:
                self.opened = begun_by(records, offset)
            case Role.CHUNK if opened is not None:
                opened.chunks.append(EntryRecords(offset, records))
            case Role.ENDS if opened is not None:
                fault = composition_fault([record for chunk in opened.chunks for record in chunk.records], in_transaction=True)
                return self._void(fault) if fault is not None else Judgement(Verdict.APPLY, role, closed=self.close())
            case Role.ABORTS:
                return Judgement(Verdict.APPLY, role, closed=self.close())
            case _:
                pass
        return Judgement(Verdict.APPLY, role)

    def _void(self, fault: BrokenRule) -> Judgement:
        return Judgement(Verdict.VOID_CONTRADICTION, fault=fault, closed=self.close())
