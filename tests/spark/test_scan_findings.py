"""Every planted violation is found, with its Kafka offset, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from records import log as grammar
from records.codec import encode_entry, encode_key
from records.entry_key import EntryKey, decode_key
from records.model import NoOp, RecordsDeleted, TransactionAborted, TransactionBegan, TransactionEnded
from spark_jobs import contradiction, migration, moves
from spark_jobs.scan import audit, transaction
from spark_jobs.scan.audit import ROWS_MAX
from spark_jobs.store import merge_chains, sink
from spark_jobs.store.rules import RULES
from spark_jobs.store.sink import Store
from tests.spark.planted_violations import PLANTS, Plant, entries_lost, healthy
from tests.spark.scan_logs import TOPIC, LogWriter, findings, follow, rows


@pytest.mark.parametrize("plant", PLANTS, ids=[plant.__name__ for plant in PLANTS])
def test_a_planted_violation_is_found_at_its_offset(plant: Plant, tmp_path: Path) -> None:
    log = LogWriter(partitions=3)
    log.commit((0, 2), (1, 2))
    expected = plant(log)
    log.add(NoOp())
    for name, cuts in (("whole", range(0)), ("cut", range(len(log.entries)))):
        with Store.open(tmp_path / name) as store:
            follow(store, log.entries, cuts=cuts)
        assert findings(tmp_path / name) == expected
        assert rows(tmp_path / name, "select value from total where name = 'findings'") == [(len(expected),)]


def test_nothing_is_found_in_a_healthy_log(tmp_path: Path) -> None:
    log = LogWriter()
    healthy(log)
    with Store.open(tmp_path) as store:
        follow(store, log.entries, cuts=[5, 9, 20])
    assert findings(tmp_path) == []
    assert rows(tmp_path, "select name, value from total where name like 'void%' order by 1") == [("void.foreign", 2), ("void.stale", 2)]
    assert rows(tmp_path, "select name, value from total where name like 'other%' order by 1") == [
        ("other.duplicate", 1),
        ("other.sequence_gap", 1),
    ]


def test_what_a_transaction_holds_counts_only_when_it_ends(tmp_path: Path) -> None:
    log = LogWriter()
    log.commit((0, 4))
    log.add(TransactionBegan(name="restore"))
    log.add(RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=6))
    query = "select live_batches from file"
    with Store.open(tmp_path) as store:
        follow(store, log.entries, cuts=[3])
        assert rows(tmp_path, query) == [(4,)]
        assert rows(tmp_path, "select name, entry_offset from open_transaction") == [("restore", 3)]
        taken = len(log.entries)
        log.add(TransactionEnded(num_chunks=1))
        follow(store, log.entries[taken:])
    assert rows(tmp_path, query) == [(1,)]
    assert rows(tmp_path, "select (select count(*) from open_transaction), (select count(*) from held_entry)") == [(0, 0)]
    assert findings(tmp_path) == []


@pytest.mark.parametrize("cuts", [range(0), range(20)])
def test_a_transaction_too_large_to_be_held_counts_as_it_comes(cuts: range, tmp_path: Path) -> None:
    log = LogWriter()
    log.commit((0, 9))
    log.add(TransactionBegan(name="restore"))
    for _ in range(transaction.ENTRIES_MAX - 3):
        log.add(NoOp())
    offsets = [log.add(RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=2 * start)) for start in range(6)]
    log.add(TransactionEnded(num_chunks=transaction.ENTRIES_MAX + 3))
    with Store.open(tmp_path) as store:
        follow(store, log.entries, cuts=cuts)
    assert findings(tmp_path) == [(offsets[3], "transaction-too-large", None, None)]
    assert rows(tmp_path, "select live_batches from file") == [(4,)]
    assert rows(tmp_path, "select (select count(*) from open_transaction), (select count(*) from held_entry)") == [(0, 0)]


def test_what_a_claim_interrupts_never_counts(tmp_path: Path) -> None:
    log = LogWriter()
    log.add(TransactionBegan(name="restore"))
    log.commit((0, 4))
    claim = log.claim()
    log.add(TransactionAborted(reason="the note of the new leader, which says nothing new"))
    log.next.clear()
    log.commit((0, 1))
    with Store.open(tmp_path) as store:
        follow(store, log.entries, cuts=[3, 4])
    assert rows(tmp_path, "select value from total where name = 'batches'") == [(1,)]
    assert findings(tmp_path) == []  # a leader that died is no fault of the log
    ((offset, note),) = rows(tmp_path, "select entry_offset, text from note")
    assert offset == claim
    assert "'restore' of offset 2 was cut off by a claim" in str(note)
    assert "nothing of it counts" in str(note)


@pytest.mark.parametrize(("value", "rule"), [(b"junk", "undecodable-entry"), (b"\xc3\x01 of a version to come", "replica-stops")])
def test_what_cannot_be_read_inside_a_transaction_ends_it(value: bytes, rule: str, tmp_path: Path) -> None:
    log = LogWriter()
    log.commit((0, 4))
    log.add(TransactionBegan(name="t", num_chunks=2))
    log.add(RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=2))
    log.seq += 1
    unreadable = log.raw(encode_key(EntryKey(log.epoch, log.term, log.seq)), value)
    log.add(RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=4))  # stands for itself
    with Store.open(tmp_path) as store:
        follow(store, log.entries, cuts=[4])
    assert [(offset, rule) for offset, rule, _, _ in findings(tmp_path)] == [(unreadable, rule)]
    assert rows(tmp_path, "select entry_offset from quarantine") == [(unreadable,)]
    assert rows(tmp_path, "select live_batches from file") == [(2,)]


def test_a_term_that_is_adopted_instead_of_another_ends_its_transaction(tmp_path: Path) -> None:
    log = LogWriter(first_offset=40)
    log.epoch, log.term, log.seq = 3, 99, 5
    log.add(TransactionBegan(name="a stray one"))
    log.epoch, log.term, log.seq = 5, 98, 7
    for _ in range(3):
        log.commit((0, 1))
    with Store.open(tmp_path) as store:
        follow(store, log.entries)
    assert rows(tmp_path, "select value from total where name = 'batches'") == [(2,)]
    notes = [str(text) for (text,) in rows(tmp_path, "select text from note order by id")]
    assert any("'a stray one' of offset 40 is of another term" in note for note in notes)


def test_a_fresh_monitor_of_a_pruned_log_adopts_the_term_and_says_so(tmp_path: Path) -> None:
    log = LogWriter()
    log.commit((0, 2))
    for _ in range(6):
        log.commit((0, 2), (1, 1))
    pruned = log.entries[5:]
    pruned.insert(0, pruned[0]._replace(key=b"x" * 20, offset=pruned[0].offset - 1))  # a stray one comes first
    with Store.open(tmp_path) as store:
        follow(store, pruned, cuts=[1, 2])
        assert store.heads()[0].epoch == 1
        assert store.heads()[0].seq == log.seq
    assert findings(tmp_path) == []
    notes = [text for (text,) in rows(tmp_path, "select text from note order by id")]
    assert notes[0] == "the log begins at offset 4: totals hold from here on, the term in force is adopted"
    assert rows(tmp_path, "select from_offset from head") == [(4,)]
    # The stray key was taken for the term's until two entries of the other followed each other.
    assert rows(tmp_path, "select value from total where name = 'void.stale'") == [(1,)]


def test_nothing_is_found_in_a_healthy_log_that_begins_anywhere(tmp_path: Path) -> None:
    log = LogWriter()
    healthy(log)
    # Where a void entry of an earlier term comes first it is taken for the term in force: the one place that is a known limit.
    terms = [key.epoch if (key := decode_key(entry.key)) is not None else 0 for entry in log.entries]
    stale = [at for at, epoch in enumerate(terms) if 0 < epoch < max(terms[:at], default=0)]
    assert len(stale) == 1
    for begin in range(1, len(log.entries)):
        if begin not in stale:
            folder = tmp_path / str(begin)
            with Store.open(folder) as store:
                follow(store, log.entries[begin:], cuts=[3])
            assert findings(folder) == [], f"begun at offset {begin}"
            assert rows(folder, "select from_offset from head") == [(begin,)]


def test_a_log_that_begins_inside_a_transaction_is_no_finding(tmp_path: Path) -> None:
    log = LogWriter()
    log.add(TransactionBegan(name="t"))
    log.commit((0, 1))
    log.commit((0, 1))
    log.add(TransactionEnded(num_chunks=2))
    with Store.open(tmp_path) as store:
        follow(store, log.entries[4:], cuts=[1])
    assert findings(tmp_path) == []
    assert rows(tmp_path, "select value from total where name = 'batches'") == [(1,)]


def test_every_rule_is_explained() -> None:
    """Every rule of the sources has a text for operators, every text belongs to one of them, and plants break no others."""
    named: set[str] = set()
    for source in (Path(audit.__file__).parent, Path(sink.__file__).parent):
        for file in [*source.glob("*.py"), *(Path(str(one.__file__)) for one in (contradiction, migration, moves, grammar))]:
            if file.name != "rules.py":
                named |= set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', file.read_text(encoding="utf-8")))
    assert named == set(RULES)
    for plant in PLANTS:
        log = LogWriter(partitions=3)
        log.commit((0, 2), (1, 2))
        assert {str(rule) for _, rule, _, _ in plant(log)} <= set(RULES), plant.__name__


def test_lost_entries_restart_every_chain(tmp_path: Path) -> None:
    log = LogWriter(partitions=2)
    log.produce(0)
    log.commit((0, 1), (1, 1))
    entries_lost(log)
    log.produce(99)
    log.next[(TOPIC, 1)] += 5
    gap = log.commit((1, 1))
    with Store.open(tmp_path) as store:
        follow(store, log.entries, cuts=[3])
    assert [(offset, rule) for offset, rule, _, _ in findings(tmp_path)] == [(gap - 2, "log-lost"), (gap, "offset-gap")]
    # When the entries were that are missing is not known: not before the one read last, nor after those they were missed with.
    begin, found, end = (log.entries[place].timestamp_ms for place in (2, 3, -1))
    [(from_ms, to_ms)] = rows(tmp_path, "select from_ms, to_ms from unread_span")
    assert (from_ms, found <= cast(int, to_ms) <= end) == (begin, True)


def test_unreadable_entries_are_quarantined_and_counted_exactly(tmp_path: Path) -> None:
    log = LogWriter()
    whole = encode_entry([NoOp()])
    bad = [None, b"", b"\xc3\x01", b"\xc3\x01" + bytes(8) + b"abc", whole[:-1], whole + b"\0"]
    for value in bad * (ROWS_MAX // 5):
        log.seq += 1
        log.raw(encode_key(EntryKey(log.epoch, log.term, log.seq)), value)
    log.seq += 1
    log.raw(encode_key(EntryKey(log.epoch, log.term, log.seq)), b"z" * 5000)
    log.commit((0, 1))
    with Store.open(tmp_path) as store:
        follow(store, log.entries)
    assert rows(tmp_path, "select value from total where name = 'quarantined'") == [(1201,)]
    assert rows(tmp_path, "select value from total where name = 'batches'") == [(1,)]
    assert rows(tmp_path, "select value from total where name = 'void.contradiction'") == [(1001,)]
    assert rows(tmp_path, "select count(*) from quarantine") == [(ROWS_MAX,)]
    # Of entries of an unknown schema only the first is found: there replicas stop.
    assert rows(tmp_path, "select rule, count(*) from finding group by rule") == [("replica-stops", 1), ("undecodable-entry", ROWS_MAX - 1)]
    with Store.open(tmp_path / "b") as store:
        follow(store, log.entries, cuts=[600, 1202])
    assert rows(tmp_path / "b", "select count(*), max(length(first_bytes)), max(size_bytes) from quarantine") == [(1201, 1024, 5000)]


def test_findings_are_bounded_and_counted_exactly(tmp_path: Path) -> None:
    log = LogWriter()
    for _ in range(ROWS_MAX + 50):
        log.commit((0, 1), owner_ids=[7])
    with Store.open(tmp_path) as store:
        follow(store, log.entries)
    assert rows(tmp_path, "select value from total where name = 'findings'") == [(ROWS_MAX + 50,)]
    assert rows(tmp_path, "select count(*), min(entry_offset), max(entry_offset) from finding") == [(ROWS_MAX, 2, ROWS_MAX + 1)]


def test_partitions_that_are_too_many_to_be_followed_at_once_are_followed_later(tmp_path: Path) -> None:
    followed = merge_chains.PARTITIONS_PER_RECORD_MAX
    log = LogWriter()
    other = bytes([8] * 16)
    created = log.create(other, followed + 4)
    for _ in range(2):
        log.commit((followed + 3, 1), topic_id=other)
    with Store.open(tmp_path) as store:
        follow(store, log.entries, cuts=[3, 4])
    assert findings(tmp_path) == [(created, "partitions-not-followed", None, followed + 4)]
    assert rows(tmp_path, f"select next_offset from partition where partition = {followed + 3}") == [(4,)]


def test_one_wrong_leader_gives_one_finding_per_entry_and_what_comes_after_it_is_right_again(tmp_path: Path) -> None:
    """Findings do not cascade: a chain stays where replicas are, whatever void entries say."""
    log = LogWriter()
    log.commit((0, 2), (1, 2))
    known = dict(log.next)
    log.next[(TOPIC, 0)] = 50
    wrong = [log.commit((0, 1), (1, 1)) for _ in range(7)]
    log.next = known
    log.claim()
    for _ in range(20):
        log.commit((0, 1), (1, 1))
    with Store.open(tmp_path) as store:
        follow(store, log.entries)
    assert findings(tmp_path) == [(offset, "offset-gap", 4, 50 + 2 * number) for number, offset in enumerate(wrong)]
    assert rows(tmp_path, "select next_offset from partition where partition < 2 order by partition") == [(44,), (44,)]
    assert rows(tmp_path, "select name, value from total where name in ('void.contradiction', 'files') order by 1") == [
        ("files", 21),
        ("void.contradiction", 7),
    ]
    assert rows(tmp_path, "select sum(void_entries) from activity_second") == [(7,)]
