"""The grammar of the log, as tables: what entries are to the transaction around them, and which are void by their form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from records.entry_key import EntryKey
from records.errors import UndecodableEntry, UnknownSchema, UnreadableEntry
from records.log import (
    RESTORED_KEY,
    TOPIC_PARTITIONS_MAX,
    BrokenRule,
    EntryRecords,
    Fence,
    LogGrammar,
    OpenTransaction,
    Role,
    Verdict,
    claim_in,
    role_of,
)
from records.model import (
    LeadershipClaimed,
    NoOp,
    PartitionCreated,
    PlacedRange,
    Record,
    TopicPlaced,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)
from tests.records.examples import FILE, RESTORED

TERM = 30
CLAIM = LeadershipClaimed(epoch=1, term=TERM, node_id=1, rack="", endpoints=[])
BEGAN = TransactionBegan(name="t", num_chunks=2)
ENDED = TransactionEnded(num_chunks=2)
NOTE = TransactionAborted(reason="changed")


def opened() -> OpenTransaction[EntryRecords]:
    return OpenTransaction("t", 5, 2, [EntryRecords(6, [NoOp()]), EntryRecords(7, [NoOp()])])


def created(first: int, count: int) -> PartitionCreated:
    return PartitionCreated(topic_id=bytes(16), name="orders", first_partition=first, num_partitions=count, order_offset=1)


def placed(first: int, count: int) -> TopicPlaced:
    ranges = [PlacedRange(first_partition=first, num_partitions=count, coordinator_id=0)]
    return TopicPlaced(topic_id=bytes(16), name="orders", ranges=ranges, confirmed=False)


ROLES: dict[str, tuple[Sequence[Record], Role | str, Role | str]] = {
    # records, outside of a transaction, inside one; a text is the rule of a fault
    "nothing": ([], Role.ALONE, Role.CHUNK),
    "records": ([NoOp(), NoOp()], Role.ALONE, Role.CHUNK),
    "a file alone": ([FILE], Role.ALONE, Role.CHUNK),
    "a file among others": ([FILE, NoOp()], "misplaced-file", Role.CHUNK),
    "two files": ([FILE, FILE], "misplaced-file", Role.CHUNK),
    "a claim": ([CLAIM], "misplaced-claim", Role.CHUNK),
    "a restore": ([NoOp(), RESTORED], "misplaced-restore", Role.CHUNK),
    "all partitions": ([created(0, TOPIC_PARTITIONS_MAX)], Role.ALONE, Role.CHUNK),
    "more than all": ([NoOp(), created(1, TOPIC_PARTITIONS_MAX)], "absurd-partition-count", Role.CHUNK),
    "a negative partition": ([created(-1, 1)], "absurd-partition-count", Role.CHUNK),
    "more than all placed": ([placed(0, TOPIC_PARTITIONS_MAX + 1)], "absurd-partition-count", Role.CHUNK),
    "a beginning": ([BEGAN], Role.BEGINS, "transaction-unclosed"),
    "the end": ([ENDED], "transaction-unopened", Role.ENDS),
    "an end of other chunks": ([TransactionEnded(num_chunks=3)], "transaction-unopened", "transaction-chunks"),
    "a note": ([NOTE], Role.ALONE, Role.ABORTS),
    "a beginning among others": ([BEGAN, NoOp()], "misplaced-transaction", "misplaced-transaction"),
    "an end among others": ([NoOp(), ENDED], "misplaced-transaction", "misplaced-transaction"),
    "a note among others": ([NOTE, NoOp()], Role.ALONE, Role.CHUNK),
}


@pytest.mark.parametrize(("records", "outside", "inside"), ROLES.values(), ids=ROLES.keys())
def test_roles_and_faults(records: Sequence[Record], outside: Role | str, inside: Role | str) -> None:
    found = role_of(records, 8, None), role_of(records, 8, opened())
    assert tuple(one.rule if isinstance(one, BrokenRule) else one for one in found) == (outside, inside)


def test_an_end_whose_beginning_was_not_read_is_no_fault() -> None:
    assert role_of([ENDED], 8, None, may_have_begun=True) is Role.ENDS_UNKNOWN
    assert role_of([ENDED], 8, opened(), may_have_begun=True) is Role.ENDS


@pytest.mark.parametrize(
    ("key", "records", "is_claim"),
    [
        (EntryKey(1, TERM, 0), [CLAIM], True),
        (EntryKey(2, TERM, 0), [CLAIM], False),
        (EntryKey(1, 31, 0), [CLAIM], False),
        (EntryKey(1, TERM, 1), [CLAIM], False),
        (EntryKey(1, TERM, 0), [CLAIM, NoOp()], False),
        (EntryKey(1, TERM, 0), [NoOp()], False),
        (EntryKey(1, TERM, 0), [], False),
        (None, [CLAIM], False),
    ],
)
def test_key_and_body_of_a_claim_must_agree(key: EntryKey | None, records: Sequence[Record], is_claim: bool) -> None:
    assert (claim_in(key, records) is CLAIM) is is_claim


class Log:
    """A log whose first entry is a claim, read entry by entry."""

    def __init__(self) -> None:
        self.grammar = LogGrammar()
        self.seq = -1
        assert self.next([CLAIM]) == (Verdict.CLAIM, None)

    def next(self, entry: Sequence[Record] | UnreadableEntry) -> tuple[Verdict, Role | None]:
        """Read the next entry of the term; returns verdict and role."""
        self.seq += 1
        verdict, role, self.fault, self.closed = self.grammar.read(self.seq, EntryKey(1, TERM, self.seq), entry)
        return verdict, role


def test_a_transaction_takes_effect_with_its_end() -> None:
    log = Log()
    roles = [log.next(records)[1] for records in ([BEGAN], [NoOp()], [created(0, 1)], [ENDED])]
    assert roles == [Role.BEGINS, Role.CHUNK, Role.CHUNK, Role.ENDS]
    assert log.closed == OpenTransaction("t", 1, 2, [EntryRecords(2, [NoOp()]), EntryRecords(3, [created(0, 1)])])
    assert log.next([NoOp()]) == (Verdict.APPLY, Role.ALONE)


@pytest.mark.parametrize("chunk", [[FILE], [CLAIM], [created(-1, 1)]], ids=["file", "claim", "absurd"])
def test_chunks_are_judged_when_their_transaction_ends(chunk: Sequence[Record]) -> None:
    log = Log()
    assert [log.next(records)[0] for records in ([BEGAN], [NoOp()], chunk)] == [Verdict.APPLY] * 3
    assert log.next([ENDED]) == (Verdict.VOID_CONTRADICTION, None)
    assert log.closed is not None
    assert log.next([NoOp()]) == (Verdict.APPLY, Role.ALONE)


@pytest.mark.parametrize("wrong", [UndecodableEntry("?"), [BEGAN], [ENDED, NoOp()]], ids=["bytes", "beginning", "end among others"])
def test_what_breaks_a_transaction_is_void_with_it_and_uses_up_its_seq(wrong: Sequence[Record] | UnreadableEntry) -> None:
    log = Log()
    log.next([BEGAN])
    assert log.next(wrong) == (Verdict.VOID_CONTRADICTION, None)
    assert (log.fault is not None, log.closed) == (True, OpenTransaction("t", 1, 2))
    assert (log.grammar.opened, log.grammar.fence) == (None, Fence(1, TERM, 2))
    assert log.next([ENDED]) == (Verdict.VOID_CONTRADICTION, None)
    assert log.next([NoOp()]) == (Verdict.APPLY, Role.ALONE)


def test_a_claim_cuts_off_an_open_transaction_and_void_entries_do_not() -> None:
    log = Log()
    log.next([BEGAN])
    assert log.grammar.read(2, EntryKey(1, 31, 2), [NoOp()]).verdict is Verdict.VOID_STALE
    assert log.grammar.read(3, EntryKey(2, 31, 0), [NoOp()]).verdict is Verdict.VOID_FOREIGN
    assert log.grammar.read(4, EntryKey(2, 31, 0), UndecodableEntry("?")).verdict is Verdict.VOID_FOREIGN
    assert log.grammar.opened is not None
    rival = LeadershipClaimed(epoch=2, term=31, node_id=2, rack="", endpoints=[])
    judged = log.grammar.read(5, EntryKey(2, 31, 0), [rival])
    assert (judged.verdict, judged.closed) == (Verdict.CLAIM, OpenTransaction("t", 1, 2))


def test_what_only_a_newer_version_reads_is_raised_where_it_counts() -> None:
    grammar, unknown = Log().grammar, UnknownSchema(7)
    assert grammar.read(1, None, unknown).verdict is Verdict.VOID_FOREIGN
    assert grammar.read(2, EntryKey(1, TERM, 9), unknown).verdict is Verdict.VOID_GAP
    for key in (EntryKey(1, TERM, 1), EntryKey(2, 31, 0)):
        with pytest.raises(UnknownSchema):
            grammar.read(3, key, unknown)


@pytest.mark.parametrize(
    ("offset", "key", "records", "is_in_force"),
    [
        (0, RESTORED_KEY, [RESTORED], True),
        (1, RESTORED_KEY, [RESTORED], False),
        (0, EntryKey(RESTORED.epoch_floor, TERM, 0), [RESTORED], False),
        (0, RESTORED_KEY, [RESTORED, NoOp()], False),
        (0, RESTORED_KEY, [replace(RESTORED, epoch_floor=0)], False),
        (0, RESTORED_KEY, [replace(RESTORED, file_id_base=-1)], False),
        (0, RESTORED_KEY, UndecodableEntry("?"), False),
        (0, None, [RESTORED], False),
    ],
)
def test_a_restore_counts_only_as_the_first_entry(
    offset: int, key: EntryKey | None, records: Sequence[Record] | UnreadableEntry, is_in_force: bool
) -> None:
    grammar = LogGrammar()
    verdict = grammar.read(offset, key, records).verdict
    assert (verdict is Verdict.RESTORED) is is_in_force
    assert grammar.fence == (Fence(RESTORED.epoch_floor) if is_in_force else Fence())


def test_a_restored_log_is_nobodys_until_the_epoch_behind_its_floor_is_claimed() -> None:
    grammar, floor = LogGrammar(), RESTORED.epoch_floor
    grammar.read(0, RESTORED_KEY, [RESTORED])
    early = LeadershipClaimed(epoch=floor, term=TERM, node_id=1, rack="", endpoints=[])
    claim = replace(early, epoch=floor + 1)
    assert grammar.read(1, EntryKey(floor, 0, 1), [NoOp()]).verdict is Verdict.VOID_STALE
    assert grammar.read(2, EntryKey(1, TERM, 0), [CLAIM]).verdict is Verdict.VOID_STALE
    assert grammar.read(3, EntryKey(floor, TERM, 0), [early]).verdict is Verdict.VOID_STALE
    assert grammar.read(4, EntryKey(floor + 1, TERM, 0), [claim]).verdict is Verdict.CLAIM
    assert grammar.read(5, EntryKey(floor + 1, TERM, 1), [NoOp()]).verdict is Verdict.APPLY


def test_a_newer_versions_restore_stops_readers() -> None:
    with pytest.raises(UnknownSchema):
        LogGrammar().read(0, RESTORED_KEY, UnknownSchema(7))
