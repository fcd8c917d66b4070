"""The verdicts that `log dump` prints are those of the replicas."""

from __future__ import annotations

import json

from cli.log.entries import EntryJudge, JudgedEntry, LogMessage, entry_row, entry_summary
from cli.log.fold import FoldedReplica
from records.codec import encode_entry, encode_key
from records.entry_key import EntryKey
from records.log import RESTORED_KEY
from records.model import (
    LeadershipClaimed,
    NoOp,
    PartitionCreated,
    Record,
    RecordsDeleted,
    TopicDeleted,
    TransactionAborted,
    TransactionBegan,
    TransactionEnded,
)
from tests.records.examples import RESTORED

TERM = 7
RIVAL = -5


def claim(epoch: int, term: int, node_id: int = 1) -> LeadershipClaimed:
    return LeadershipClaimed(epoch=epoch, term=term, node_id=node_id, rack="", endpoints=[])


class Log:
    """Messages in order, judged as they come."""

    def __init__(self, *, from_start: bool = True) -> None:
        self._judge = EntryJudge(from_start=from_start)
        self._offset = 0

    def add(self, epoch: int, term: int, seq: int, *records: Record) -> JudgedEntry:
        return self.raw(encode_key(EntryKey(epoch, term, seq)), encode_entry(records or (NoOp(),)))

    def raw(self, key: bytes | None, value: bytes | None) -> JudgedEntry:
        self._offset += 1
        return self._judge.judge(LogMessage(0, self._offset - 1, 1_000, key, value))


def test_a_term_counts_from_its_claim_on() -> None:
    log = Log()
    verdicts = [log.add(1, TERM, 0, claim(1, TERM)).verdict, log.add(1, TERM, 1).verdict, log.add(1, TERM, 2).verdict]
    assert verdicts == ["claim", "apply", "apply"]


def test_entries_of_an_overtaken_term_are_void() -> None:
    log = Log()
    log.add(1, TERM, 0, claim(1, TERM))
    assert log.add(2, RIVAL, 0, claim(2, RIVAL)).verdict == "claim"
    late = log.add(1, TERM, 1)
    assert (late.verdict, late.reason.partition(":")[0]) == ("void", "stale")
    assert log.add(2, RIVAL, 1).verdict == "apply"


def test_of_two_claims_of_an_epoch_the_first_wins() -> None:
    log = Log()
    assert log.add(1, TERM, 0, claim(1, TERM)).verdict == "claim"
    assert log.add(1, RIVAL, 0, claim(1, RIVAL)).verdict == "void"


def test_gaps_and_repetitions_are_named() -> None:
    log = Log()
    log.add(1, TERM, 0, claim(1, TERM))
    log.add(1, TERM, 1)
    assert log.add(1, TERM, 1).reason.startswith("duplicate")
    assert log.add(1, TERM, 3).reason.startswith("gap")
    assert log.add(1, TERM, 2).verdict == "apply"


def test_a_claim_whose_body_disagrees_with_its_key_is_void() -> None:
    log = Log()
    wrong = log.add(1, TERM, 0, claim(1, RIVAL))
    assert (wrong.verdict, wrong.reason.partition(":")[0]) == ("void", "foreign")
    assert log.add(1, TERM, 1).verdict == "void"


def test_strangers_messages_are_void_and_do_not_stop_the_dump() -> None:
    log = Log()
    stranger = log.raw(b"not a key", b"not an entry")
    assert (stranger.verdict, stranger.key) == ("void", None)
    assert "cannot be decoded" in entry_summary(stranger)
    assert log.raw(None, None).error


def test_before_the_first_claim_of_a_pruned_log_nothing_is_known() -> None:
    log = Log(from_start=False)
    assert log.add(4, TERM, 9).verdict == "unknown"
    assert log.add(3, RIVAL, 0, claim(3, RIVAL)).verdict == "unknown"  # an older claim than what was seen: void or not, not in force
    taken = log.add(5, RIVAL, 0, claim(5, RIVAL))
    assert (taken.verdict, bool(taken.reason)) == ("claim", True)
    assert log.add(5, RIVAL, 1).verdict == "apply"
    assert log.add(4, TERM, 10).verdict == "void"


def test_a_transaction_shows_its_chunks_and_what_became_of_them() -> None:
    log = Log()
    log.add(1, TERM, 0, claim(1, TERM))
    told = [log.add(1, TERM, 1, TransactionBegan(name="move", num_chunks=2)), log.add(1, TERM, 2)]
    told += [log.raw(b"stray", None), log.add(1, TERM, 3), log.add(1, TERM, 4, TransactionEnded(num_chunks=2)), log.add(1, TERM, 5)]
    of = "of transaction 'move' of offset 1"
    assert [(one.verdict, one.reason) for one in told if one.key is not None] == [
        ("apply", ""),
        ("chunk", f"1 of 2 {of}"),
        ("chunk", f"2 of 2 {of}"),
        ("apply", "transaction 'move' of offset 1 takes effect"),
        ("apply", ""),
    ]
    assert entry_summary(told[0]) == "TransactionBegan(name=move num_chunks=2)"
    assert entry_summary(told[1]) == f"[1 of 2 {of}] NoOp"


def test_a_transaction_that_is_aborted_or_broken_is_told() -> None:
    log = Log()
    log.add(1, TERM, 0, claim(1, TERM))
    began = TransactionBegan(name="t")
    log.add(1, TERM, 1, began)
    assert log.add(1, TERM, 2).reason == "1 of transaction 't' of offset 1"
    note = TransactionAborted(reason="changed my mind")
    assert log.add(1, TERM, 3, note).reason == "nothing of transaction 't' of offset 1 counts"
    log.add(1, TERM, 4, began)
    cut = log.add(2, RIVAL, 0, claim(2, RIVAL))
    assert (cut.verdict, cut.reason) == ("claim", "nothing of transaction 't' of offset 4 counts")
    assert log.add(2, RIVAL, 1, note).reason == ""
    assert log.add(2, RIVAL, 2).verdict == "apply"
    broken = [
        log.add(2, RIVAL, 3, TransactionEnded(num_chunks=0)),
        *[log.add(2, RIVAL, seq, began) for seq in (4, 5)][1:],
        *[log.add(2, RIVAL, seq, record) for seq, record in ((6, began), (7, TransactionEnded(num_chunks=1)))][1:],
        *[log.add(2, RIVAL, seq, *records) for seq, records in ((8, (began,)), (9, (NoOp(), TransactionEnded(num_chunks=0))))][1:],
        log.raw(encode_key(EntryKey(2, RIVAL, 10)), b"?"),
    ]
    assert [one.verdict for one in broken] == ["void"] * 5
    misplaced = "entry 14 begins or ends a transaction among other records; it must be alone in its entry"
    assert [one.reason for one in broken[:4]] == [
        "contradiction: entry 8 ends a transaction that never began",
        "contradiction: a transaction begins at 10 inside transaction 't'; nothing of transaction 't' of offset 9 counts",
        "contradiction: transaction 't' ends at 12 with 1 chunks, 0 were read; nothing of transaction 't' of offset 11 counts",
        f"contradiction: {misplaced}; nothing of transaction 't' of offset 13 counts",
    ]
    assert broken[4].reason.startswith("contradiction: ")
    assert broken[4].error
    assert log.add(2, RIVAL, 11).verdict == "apply"


def test_where_the_beginning_of_the_log_is_not_known_an_end_may_belong_to_it() -> None:
    log = Log(from_start=False)
    log.add(1, TERM, 0, claim(1, TERM))
    assert log.add(1, TERM, 1, TransactionEnded(num_chunks=3)).reason.startswith("no transaction is open, as far as the log was read")


def test_a_row_is_json_and_shows_ids_as_kafka_does() -> None:
    log = Log()
    log.add(1, RIVAL, 0, claim(1, RIVAL))
    row = entry_row(log.add(1, RIVAL, 1, TopicDeleted(topic_id=bytes(15) + b"\x01", order_offset=3)), "now")
    assert json.loads(json.dumps(row)) == {
        "partition": 0,
        "offset": 1,
        "time": "now",
        "epoch": 1,
        "term": "fffffffffffffffb",
        "seq": 1,
        "verdict": "apply",
        "reason": "",
        "error": "",
        "records": [{"type": "TopicDeleted", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "order_offset": 3}],
    }


def test_a_restored_log_is_judged_without_the_state_that_it_begins_with() -> None:
    created = PartitionCreated(topic_id=bytes(16), name="t", first_partition=0, num_partitions=1, order_offset=1)
    deleted = RecordsDeleted(topic_id=bytes(16), partition=0, new_log_start_offset=5)
    floor = RESTORED.epoch_floor
    claim = LeadershipClaimed(epoch=floor + 1, term=7, node_id=1, rack="", endpoints=[])
    log = [(RESTORED_KEY, [RESTORED]), (EntryKey(floor + 1, 7, 0), [claim])]
    log += [(EntryKey(floor + 1, 7, seq), [record]) for seq, record in enumerate([created, deleted, RESTORED], 1)]
    with FoldedReplica(0) as fold:
        judge = EntryJudge(from_start=True, fold=fold)
        judged = [judge.judge(LogMessage(0, at, 0, encode_key(key), encode_entry(records))) for at, (key, records) in enumerate(log)]
        assert fold.failure is None
        assert not judge.is_folding
    # The snapshot may have had records up to there: only its form can make an entry void.
    assert [one.verdict for one in judged] == ["restored", "claim", "apply", "apply", "void"]
    assert "is not at the beginning" in judged[-1].reason
