"""The checker of fault tests can fail: a good history passes, and every way of spoiling it is reported by its rule.

The good one: node 1 leads epoch 1 and commits files a, b and c, the acknowledgement of b is lost, node 2 claims epoch 2,
answers the retry of b from the log, refuses nothing and finds d's sequences to be those of c; one entry of node 1 comes
too late and is void. Then all records before offset 12 are deleted, so that a is gone and b lies across the log start, and
two entries are forged that contradict. The topic's creation is acknowledged at 0.5, its deletion is sent at 11.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from integration_tests.checker import check
from integration_tests.history import (
    Attempt,
    BatchAnswer,
    Deletion,
    Description,
    FinalPartition,
    FinalState,
    Find,
    Forgery,
    FoundBatch,
    History,
    LogMessage,
    Origin,
    ReplicaDigest,
    SentBatch,
    SentFile,
    StartRead,
    StrictRead,
    TopicLife,
    Unknown,
    UserPartition,
    longest_gap_s,
)
from integration_tests.metadata_log import read_log
from records.codec import encode_entry, encode_key
from records.committed_files.codec import CommittedBatch, FileCommitted
from records.entry_key import EntryKey
from records.model import Endpoint, LeadershipClaimed, NoOp, PartitionCreated, RecordsDeleted

WHERE = UserPartition(bytes(range(16)), 0)
TERMS = {1: 111, 2: 222}
PRODUCER = 9


def sent(records: int, *, sequence: int = -1, repeats: Origin | None = None) -> SentBatch:
    return SentBatch(
        where=WHERE,
        coordinator_id=0,
        byte_offset=0,
        size_bytes=100,
        record_count=records,
        producer_id=PRODUCER if sequence >= 0 else -1,
        base_sequence=sequence,
        repeats=repeats,
    )


def attempt(key: str, node_id: int, invoked_s: float, answered_s: float, answer: BatchAnswer | None) -> Attempt:
    answers = () if answer is None else (answer,)
    return Attempt(object_key=key, places=(0,), node_id=node_id, client="c", invoked_s=invoked_s, answered_s=answered_s, answers=answers)


def told(base_offset: int, *, is_duplicate: bool = False) -> BatchAnswer:
    return BatchAnswer(0, base_offset, -1, 0, is_duplicate)


def claim(epoch: int) -> tuple[EntryKey, bytes]:
    endpoint = Endpoint(listener="PLAINTEXT", host="h", port=1)
    record = LeadershipClaimed(epoch=epoch, term=TERMS[epoch], node_id=epoch, rack="", endpoints=[endpoint])
    return EntryKey(epoch, TERMS[epoch], 0), encode_entry([record])


def committed(
    epoch: int, seq: int, key: str, base_offset: int, records: int, *, is_duplicate: bool = False, time_ms: int = 1_000
) -> tuple[EntryKey, bytes]:
    batch = CommittedBatch(*WHERE, 1 if is_duplicate else 0, base_offset, records, 0, 100, time_ms, detail=-1 if is_duplicate else 0)
    record = FileCommitted(
        object_key=key,
        object_format=1,
        file_size=100,
        uploader_broker_id=-1,
        owner_ids=[0],
        created_ms=-1,
        append_time_ms=time_ms,
        content_hash=bytes(16),
        batches=[batch],
    )
    return EntryKey(epoch, TERMS[epoch], seq), encode_entry([record])


def log_of(*entries: tuple[EntryKey, bytes]) -> tuple[LogMessage, ...]:
    return tuple(LogMessage(offset, encode_key(key), value) for offset, (key, value) in enumerate(entries))


CREATED = PartitionCreated(topic_id=WHERE.topic_id, name="t", first_partition=0, num_partitions=1, order_offset=0)
ENTRIES = (
    claim(1),
    (EntryKey(1, TERMS[1], 1), encode_entry([CREATED])),
    committed(1, 2, "a", 0, 10),
    committed(1, 3, "b", 10, 5),
    committed(1, 4, "c", 15, 2),
    claim(2),
    committed(1, 5, "late", 17, 1),
    committed(2, 1, "d", 15, 2, is_duplicate=True),
    (EntryKey(2, TERMS[2], 2), encode_entry([NoOp()])),
    (EntryKey(2, TERMS[2], 3), encode_entry([RecordsDeleted(topic_id=WHERE.topic_id, partition=0, new_log_start_offset=12)])),
)
LOG_START = 12
FORGED = (committed(2, 4, "forged", 0, 3), (EntryKey(2, TERMS[2], 5), b"nonsense"))
LAWFUL = committed(2, 4, "forged", 17, 3)
OTHER_TOPIC = UserPartition(bytes(16), 0)


A, B, C = FoundBatch("a", 0, 100, 0, 9), FoundBatch("b", 0, 100, 10, 14), FoundBatch("c", 0, 100, 15, 16)


def good() -> tuple[History, FinalState]:
    files = {
        "a": sent(10),
        "b": sent(5, sequence=0),
        "c": sent(2, sequence=5),
        "d": sent(2, sequence=5, repeats=Origin("c", 0)),
        "wal//e": sent(3),
    }
    history = History(
        files={key: SentFile(object_key=key, batches=(batch,)) for key, batch in files.items()},
        attempts=[
            attempt("a", 1, 1.0, 2.0, told(0)),
            attempt("b", 1, 3.0, 5.0, None),
            attempt("c", 1, 3.5, 4.0, told(15)),
            attempt("b", 2, 6.0, 6.1, BatchAnswer(16, -1, -1, -1, False)),
            attempt("b", 2, 6.2, 7.0, told(10)),
            attempt("b", 2, 7.1, 7.2, told(10)),
            attempt("d", 2, 8.0, 9.0, told(15, is_duplicate=True)),
            attempt("wal//e", 1, 8.0, 8.1, BatchAnswer(16, -1, -1, -1, False)),
            attempt("wal//e", 2, 8.2, 8.3, BatchAnswer(42, -1, -1, -1, False)),
        ],
        reads=[
            StrictRead(where=WHERE, node_id=1, invoked_s=2.5, answered_s=3.2, offset=10),
            StrictRead(where=WHERE, node_id=2, invoked_s=7.5, answered_s=7.9, offset=17),
        ],
        start_reads=[
            StartRead(where=WHERE, node_id=2, invoked_s=9.1, answered_s=9.2, offset=0),
            StartRead(where=WHERE, node_id=2, invoked_s=10.2, answered_s=10.3, offset=LOG_START),
        ],
        deletions=[
            Deletion(where=WHERE, node_id=1, invoked_s=9.3, answered_s=9.4, offset=LOG_START),
            Deletion(where=WHERE, node_id=2, invoked_s=10.0, answered_s=10.1, offset=LOG_START, error_code=0, low_watermark=LOG_START),
        ],
        finds=[
            find(4.1, 4.2, 0, A, high_watermark=10),
            find(8.0, 8.1, 10, B, C),
            find(10.4, 10.5, 3, error_code=1, log_start_offset=LOG_START),
        ],
        descriptions=[
            described("c", 3.0, 3.4, error_code=91),
            described("c", 4.1, 4.2, is_live=True),
            described("a", 9.5, 9.9, is_live=True),
            described("a", 9.5, 9.9),
            described("a", 10.2, 10.3),
            described("b", 10.2, 10.3, is_live=True),
            described("d", 10.2, 10.3),
        ],
        unknowns=[
            Unknown("FindBatches", WHERE, 2, 0.1, 0.2, 100),
            Unknown("ListOffsets", WHERE, 2, 0.1, 0.6, 3),
            Unknown("ListOffsets", WHERE, 2, 10.9, 11.2, 100),
            Unknown("FindBatches", OTHER_TOPIC, 2, 3.0, 3.1, 100),
        ],
        topics=[TopicLife(topic_id=WHERE.topic_id, created_s=0.5, deletion_sent_s=11.0)],
        forgeries=[Forgery(coordinator_id=0, key=encode_key(key), value=value) for key, value in FORGED],
    )
    partition = FinalPartition(coordinator_id=0, log_start_offset=LOG_START, high_watermark=17, latest_offset=17, batches=(B, C))
    digests = (ReplicaDigest(1, 0, 11, b"x"), ReplicaDigest(2, 0, 9, b"x"))
    copies = {1: {WHERE: (B, C)}, 2: {WHERE: (B, C)}}
    return history, FinalState(partitions={WHERE: partition}, logs={0: log_of(*ENTRIES, *FORGED)}, digests=digests, copies=copies)


def described(key: str, invoked_s: float, answered_s: float, *, error_code: int = 0, is_live: bool = False) -> Description:
    return Description(object_key=key, invoked_s=invoked_s, answered_s=answered_s, error_code=error_code, has_live_batches=is_live)


def find(
    invoked_s: float,
    answered_s: float,
    asked: int,
    *batches: FoundBatch,
    high_watermark: int = 17,
    error_code: int = 0,
    log_start_offset: int = 0,
) -> Find:
    return Find(
        where=WHERE,
        node_id=2,
        invoked_s=invoked_s,
        answered_s=answered_s,
        asked=asked,
        error_code=error_code,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        batches=batches,
    )


def changed(history: History, events: str, index: int, **changes: object) -> History:
    """The history with one of its events changed."""
    those = list(getattr(history, events))
    those[index] = replace(those[index], **changes)
    return replace(history, **{events: those})  # type: ignore[arg-type]


def with_partition(final: FinalState, **changes: object) -> FinalState:
    return replace(final, partitions={WHERE: replace(final.partitions[WHERE], **changes)})  # type: ignore[arg-type]


def with_found(final: FinalState, *found: FoundBatch) -> FinalState:
    return with_partition(final, batches=found)


def with_log(final: FinalState, *entries: tuple[EntryKey, bytes]) -> FinalState:
    return replace(final, logs={0: log_of(*entries)})


def with_description(history: History, description: Description) -> History:
    return replace(history, descriptions=[*history.descriptions, description])


SPOILED_HISTORIES: dict[str, tuple[Callable[[History], History], str]] = {
    "a batch is elsewhere than told": (lambda h: changed(h, "attempts", 2, answers=(told(14),)), "was acknowledged at 14"),
    "a retry is answered otherwise": (lambda h: changed(h, "attempts", 5, answers=(told(11),)), "different final answers"),
    "a batch is refused": (lambda h: changed(h, "attempts", 2, answers=(BatchAnswer(45, -1, -1, -1, False),)), "refused with 45"),
    "a key that is not plain is accepted": (
        lambda h: changed(h, "attempts", 8, answers=(told(17),)),
        "file 'wal//e', whose key is not plain, was answered",
    ),
    "a duplicate is not recognised": (lambda h: changed(h, "attempts", 6, answers=(told(15),)), "is_duplicate is False"),
    "a new batch is called a duplicate": (
        lambda h: changed(h, "attempts", 2, answers=(told(15, is_duplicate=True),)),
        "is_duplicate is True",
    ),
    "a duplicate has other offsets": (lambda h: changed(h, "attempts", 6, answers=(told(16, is_duplicate=True),)), "but was told"),
    "a producer has a gap": (
        lambda h: replace(h, files=h.files | {"c": SentFile(object_key="c", batches=(sent(2, sequence=6),))}),
        "sequence 6 where 5 is due",
    ),
    "a partition that exists is unknown to a commit": (
        lambda h: changed(h, "attempts", 3, answers=(BatchAnswer(100, -1, -1, -1, False),)),
        "node 2 answered CommitFile of 00010203-0 with 100",
    ),
    "a partition that exists is unknown to a read": (
        lambda h: replace(h, unknowns=[Unknown("ListOffsets", WHERE, 2, 0.6, 0.7, 6)]),
        "node 2 answered ListOffsets of 00010203-0 with 6",
    ),
    "a partition that exists is unknown to a deletion": (
        lambda h: changed(h, "deletions", 0, error_code=3),
        "node 1 answered DeleteRecords of 00010203-0 with 3",
    ),
    "a deletion is refused": (lambda h: changed(h, "deletions", 0, error_code=1), "up to 12 at node 1 was refused with 1"),
    "an acknowledged commit is void in the log": (
        lambda h: replace(
            h,
            files=h.files | {"late": SentFile(object_key="late", batches=(sent(1),))},
            attempts=[*h.attempts, attempt("late", 1, 8.0, 9.0, told(17))],
        ),
        "acknowledged by node 1, but no entry that counts has it",
    ),
    "the log says another offset": (lambda h: changed(h, "attempts", 2, answers=(told(14),)), "the entry at 4 says"),
    "an earlier leader answers for a later one": (
        lambda h: changed(h, "attempts", 6, node_id=1),
        "which led neither the entry's term nor a later one",
    ),
    "a read misses an acknowledged commit": (lambda h: changed(h, "reads", 1, offset=15), "but 17 had been told"),
    "a read goes back": (
        lambda h: replace(h, reads=[*h.reads, replace(h.reads[1], invoked_s=8.0, answered_s=8.1, offset=10)]),
        "but 17 had been told",
    ),
    "a read sees the future": (lambda h: changed(h, "reads", 0, offset=17), "were sent only later"),
    "a read sees half a batch": (lambda h: changed(h, "reads", 0, offset=12), "where no batch ends"),
    "a later commit lies before an earlier one": (
        lambda h: changed(changed(h, "attempts", 1, invoked_s=4.5), "attempts", 2, invoked_s=3.0),
        "was sent at 4.500, when 17 was known, but is at 10",
    ),
    "a strict read misses a deletion": (lambda h: changed(h, "start_reads", 1, offset=0), "saw log start 0; it had to be from 12"),
    "a log start nobody asked for": (lambda h: changed(h, "start_reads", 1, offset=11), "saw log start 11"),
    "a log start before the deletion was sent": (lambda h: changed(h, "start_reads", 0, offset=LOG_START), "it had to be from 0 to 0"),
    "an acknowledged file is unknown": (lambda h: with_description(h, described("c", 4.1, 4.2, error_code=91)), "had been acknowledged"),
    "a live file is called dead": (lambda h: with_description(h, described("b", 10.2, 10.3)), "is live at 10"),
    "a file is called dead before its deletion was sent": (lambda h: with_description(h, described("a", 9.0, 9.1)), "is live at 0"),
    "a deleted file is called live": (
        lambda h: with_description(h, described("a", 10.2, 10.3, is_live=True)),
        "though all of it had been deleted",
    ),
    "a description is refused": (
        lambda h: with_description(h, described("a", 10.2, 10.3, error_code=42)),
        "was described at 10.200..10.300 with 42",
    ),
    "a consumer finds a hole": (lambda h: changed(h, "finds", 1, batches=(C,)), "is not there or does not follow"),
    "a consumer finds what is not there in the end": (
        lambda h: changed(h, "finds", 1, batches=(B, C._replace(object_key="late"))),
        "is not there or does not follow",
    ),
    "a consumer finds the future": (lambda h: changed(h, "finds", 0, answered_s=0.9), "batches that were sent only later"),
    "a consumer is told of batches behind the watermark": (lambda h: changed(h, "finds", 1, high_watermark=15), "behind the watermark 15"),
    "a consumer is reset": (lambda h: changed(h, "finds", 1, error_code=1, batches=()), "though that offset had been told"),
    "a consumer is refused": (lambda h: changed(h, "finds", 1, error_code=42, batches=()), "was answered 42"),
    "a read goes behind what a consumer was told": (
        lambda h: changed(changed(h, "finds", 0, high_watermark=17, answered_s=6.5), "reads", 1, invoked_s=6.6, offset=15),
        "but 17 had been told",
    ),
}

SPOILED_ENDS: dict[str, tuple[Callable[[FinalState], FinalState], str]] = {
    "an acknowledged batch is lost": (
        lambda f: with_partition(f, batches=(B,), high_watermark=15, latest_offset=15),
        "was acknowledged at 15",
    ),
    "a batch is there twice": (
        lambda f: with_partition(f, batches=(B, C, FoundBatch("a", 0, 100, 17, 26)), high_watermark=27, latest_offset=27),
        "is there 2 times",
    ),
    "a batch has another size": (lambda f: with_found(f, B._replace(size_bytes=99), C), "was sent as"),
    "a batch was never sent": (lambda f: with_found(f, B, C._replace(object_key="z")), "was never sent"),
    "a repeated batch got offsets": (
        lambda f: with_partition(f, batches=(B, C, FoundBatch("d", 0, 100, 17, 18)), high_watermark=19, latest_offset=19),
        "yet has offsets of its own",
    ),
    "offsets have a hole": (lambda f: with_found(f, B._replace(base_offset=11, last_offset=15), C), "where 10 is due"),
    "the watermark differs": (lambda f: with_partition(f, latest_offset=15), "ListOffsets 15"),
    "a file whose key is not plain is committed": (
        lambda f: with_log(f, *ENTRIES, *FORGED, committed(2, 6, "wal//e", 17, 3)),
        "file 'wal//e', whose key is not plain, was committed at 12",
    ),
    "the log has more than is served": (
        lambda f: with_log(f, *ENTRIES, *FORGED, committed(2, 6, "e", 17, 1)),
        "only in the log [(17, 17, 'e', 0)]",
    ),
    "the log has another number of records": (
        lambda f: with_log(f, *ENTRIES[:4], committed(1, 4, "c", 15, 3), *ENTRIES[5:]),
        "only in the log [(15, 17, 'c', 0)]",
    ),
    "a file is committed twice": (
        lambda f: with_log(f, *ENTRIES, *FORGED, committed(2, 6, "a", 17, 10)),
        "the entry at 12 contradicts the log before it: file a is known already",
    ),
    "the service assigns a wrong offset": (
        lambda f: with_log(f, *ENTRIES[:4], committed(1, 4, "c", 16, 2), *ENTRIES[5:]),
        "the entry at 4 contradicts the log before it: offset 16 of partition",
    ),
    "the service writes what cannot be decoded": (
        lambda f: with_log(f, *ENTRIES, *FORGED, (EntryKey(2, TERMS[2], 6), b"nonsense")),
        "the entry at 12 contradicts the log before it: cannot be decoded",
    ),
    "the service writes what only another version reads": (
        lambda f: with_log(f, *ENTRIES, *FORGED, (EntryKey(2, TERMS[2], 6), b"\xc3\x01" + bytes(20))),
        "entry 12: entry was written with unknown schema fingerprint",
    ),
    "replicas differ": (lambda f: replace(f, digests=(f.digests[0], ReplicaDigest(2, 0, 11, b"y"))), "differ"),
    "a replica is behind": (lambda f: replace(f, digests=(ReplicaDigest(1, 0, 6, b"x"),)), "only up to 6"),
    "a deleted batch was never in the log": (
        lambda f: with_log(f, *ENTRIES[:2], (EntryKey(1, TERMS[1], 2), encode_entry([NoOp()])), *ENTRIES[3:]),
        "was acknowledged at 0",
    ),
    "a standby serves less": (lambda f: replace(f, copies={2: {WHERE: (B,)}}), "node 2 serves 1 batches"),
    "an append time goes back": (
        lambda f: with_log(f, *ENTRIES, *FORGED, committed(2, 6, "e", 17, 1, time_ms=999)),
        "has append time 999 after 1000",
    ),
    "an append time is of a wrong clock": (
        lambda f: with_log(f, *ENTRIES, *FORGED, committed(2, 6, "e", 17, 1, time_ms=20001)),
        "the entry at 12 has an append time 20001 ms ahead of its broker's clock",
    ),
    "deleted batches are still served": (lambda f: with_found(f, A, B, C), "is served, but the log starts at 12"),
    "the log start is not the logged one": (
        lambda f: with_partition(f, log_start_offset=10, batches=(B, C)),
        "the log starts at 10 in the end, the entries say 12",
    ),
    "an acknowledged deletion is lost": (
        lambda f: with_partition(with_log(f, *ENTRIES[:-1], *FORGED), log_start_offset=0, batches=(A, B, C)),
        "the clients were told 12",
    ),
}


def test_a_good_history_passes() -> None:
    assert check(*good()) == []


def test_entries_under_way_behind_one_that_a_forgery_robbed_may_contradict() -> None:
    history, final = good()
    robbed, next_one = committed(2, 5, "e", 17, 2), committed(2, 6, "f", 19, 2)
    assert check(history, with_log(final, *ENTRIES, *FORGED, robbed, next_one)) == []
    problems = check(history, with_log(final, *ENTRIES, *FORGED, next_one))
    assert problems == [
        "coordinator 0: the entry at 12 contradicts the log before it: offset 19 of partition 00010203-0 is given where 17 is due"
    ]


@pytest.mark.parametrize(("spoil", "report"), SPOILED_HISTORIES.values(), ids=SPOILED_HISTORIES)
def test_a_spoiled_history_is_reported(spoil: Callable[[History], History], report: str) -> None:
    history, final = good()
    assert_reported(spoil(history), final, report)


@pytest.mark.parametrize(("spoil", "report"), SPOILED_ENDS.values(), ids=SPOILED_ENDS)
def test_a_spoiled_end_is_reported(spoil: Callable[[FinalState], FinalState], report: str) -> None:
    history, final = good()
    assert_reported(history, spoil(final), report)


def assert_reported(history: History, final: FinalState, report: str) -> None:
    problems = check(history, final)
    assert any(report in problem for problem in problems), problems


def test_a_forgery_that_counts_is_reported() -> None:
    history, final = good()
    lawful = Forgery(coordinator_id=0, key=encode_key(LAWFUL[0]), value=LAWFUL[1])
    history = replace(history, forgeries=[lawful, *history.forgeries])
    assert_reported(history, with_log(final, *ENTRIES, LAWFUL, FORGED[1]), "the forged entry at 10 does not contradict")


def test_the_log_is_read_by_claims_terms_and_sequence() -> None:
    gap = committed(2, 5, "gap", 17, 1)
    stray = LogMessage(11, b"not a key", b"")
    read = read_log([*log_of(*ENTRIES, gap), stray])
    assert [(claim.offset, claim.node_id) for claim in read.claims] == [(0, 1), (5, 2)]
    assert [commit.object_key for commit in read.commits] == ["a", "b", "c", "d"]
    assert [void.offset for void in read.voids] == [6, 10, 11]
    assert read.contradictions == []
    assert read.last_change == 9
    assert read.log_starts == {WHERE: LOG_START}


def test_a_rival_claim_of_the_same_epoch_is_void() -> None:
    endpoint = Endpoint(listener="PLAINTEXT", host="h", port=1)
    rival = LeadershipClaimed(epoch=2, term=333, node_id=3, rack="", endpoints=[endpoint])
    read = read_log(log_of(*ENTRIES[:6], (EntryKey(2, 333, 0), encode_entry([rival]))))
    assert [claim.node_id for claim in read.claims] == [1, 2]
    assert [void.offset for void in read.voids] == [6]


def test_the_longest_gap_counts_from_and_to_the_edges() -> None:
    assert longest_gap_s([1.0, 2.0, 9.0], 0.0, 5.0) == 3.0
    assert longest_gap_s([], 1.0, 5.0) == 4.0
