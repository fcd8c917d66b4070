"""Transactions: records that do not fit one entry take effect together or not at all, for everybody and at every place a log may be cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordinator.core.commands import OK, Answer, Barrier, DeletedTo, FoundOffset
from coordinator.core.events import Assigned, SchemaLevel, Unassigned
from coordinator.core.leadership.states import State
from coordinator.core.leadership.transaction import RecordTooLarge, cut
from coordinator.core.limits import Limits
from coordinator.core.view import ShardView
from coordinator.kafka.errors import ErrorCode
from records.codec import decode_entry, encode_entry
from records.entry_key import EntryKey, decode_key, encode_key
from records.model import NoOp, Record, RecordsDeleted, TransactionAborted, TransactionBegan, TransactionEnded
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import TOPIC, batch, commit, delete_records, list_offsets, place, result_of, state_of, view_of

PARTITIONS = 9
LIMITS = Limits(entry_bytes_max=160)
"""A file of one batch fits, and seven deletions."""


def two(level: int = 2) -> tuple[World, HarnessReplica, HarnessReplica]:
    """The first of two replicas leads a topic whose partitions have three records each; transactions may be written."""
    world = World()
    first, second = world.add_replica(limits=LIMITS), world.add_replica(limits=LIMITS)
    for replica in (first, second):
        replica.feed(SchemaLevel(level))
    first.lead()
    first.ask(place(count=PARTITIONS))
    first.ask(*(commit(f"k{partition}", [batch(partition, 3)]) for partition in range(PARTITIONS)))
    return world, first, second


def delete_all(offset: int = 2) -> object:
    return delete_records(*((partition, offset) for partition in range(PARTITIONS)))


def records_from(world: World, offset: int) -> list[list[Record]]:
    return [decode_entry(value or b"") for _, value in world.log[offset:]]


def log_starts(shard: ShardView) -> set[int]:
    table = shard.state.hot.partitions
    return {table.log_start.cells[row] for row in table.rows.rows().tolist()}


def errors_of(answer: Answer) -> set[ErrorCode]:
    assert isinstance(answer, list)
    return {one.outcome.error for one in answer if isinstance(one, DeletedTo)}


def reading(world: World, stop: int) -> HarnessReplica:
    """A replica that has read the log up to an offset."""
    replica = HarnessReplica(World(log=world.log, now_ms=world.now_ms), 50, LIMITS, 0, 4)
    replica.read(stop)
    return replica


def continued(replica: HarnessReplica) -> HarnessReplica:
    """A replica with what the state database of another would hold, which reads the rest of the log."""
    resumed = HarnessReplica(replica.world, 51, LIMITS, 0, 4, loaded_from=replica.view)
    resumed.read()
    return resumed


def test_what_does_not_fit_one_entry_is_written_as_a_transaction() -> None:
    world, first, second = two()
    at = len(world.log)
    [answer] = first.ask(delete_all())
    assert errors_of(answer) == {ErrorCode.NONE}
    began, *chunks, ended = records_from(world, at)
    assert began == [TransactionBegan(name=f"{PARTITIONS} records: RecordsDeleted", num_chunks=len(chunks))]
    assert ended == [TransactionEnded(num_chunks=len(chunks))]
    assert len(chunks) > 1
    wanted = [RecordsDeleted(topic_id=TOPIC, partition=partition, new_log_start_offset=2) for partition in range(PARTITIONS)]
    assert [record for chunk in chunks for record in chunk] == wanted
    assert all(len(value or b"") <= LIMITS.entry_bytes_max for _, value in world.log[at:])
    assert log_starts(first.view) == log_starts(second.view) == {2}
    assert first.view.overlay is not None
    assert view_of(first.view.overlay) == view_of(first.view.state.hot) == view_of(second.view.state.hot)
    assert first.view.last_entry == second.view.last_entry == world.log[-1]
    assert first.view.fence == second.view.fence


def busy_log() -> World:
    """A log with a transaction, void entries and files around and inside it, and one that a claim cut off."""
    world, first, second = two()
    first.submit(commit("before", [batch(1)]), delete_all(1), commit("behind", [batch(2, 2)]))
    first.land(3)
    world.append(None, b"a stray message")
    world.append(encode_key(EntryKey(1, 77, 3)), b"of another term")
    world.settle()
    first.submit(delete_all(3))
    first.land(2)
    first.feed(Unassigned())
    second.feed(Assigned())
    second.read()
    second.may_claim()
    second.land()
    world.settle()
    second.ask(commit("later", [batch(0, 4)]))
    return world


def test_every_cut_of_a_log_shows_all_of_a_transaction_or_nothing() -> None:
    world = busy_log()
    whole = reading(world, len(world.log))
    assert log_starts(whole.view) == {1}
    for stop in range(len(world.log) + 1):
        replica = reading(world, stop)
        header = replica.shard.header("cluster", bytes(16))
        assert log_starts(replica.view) in (set(), {0}, {1})
        assert replica.view.next_offset == stop
        if header.applied_offset >= 0:
            assert replica.view.last_entry == world.log[header.applied_offset]
        resumed = continued(reading(world, stop))
        replica.read()
        for one in (replica, resumed):
            assert state_of(one.view.state) == state_of(whole.view.state)
            assert one.view.fence == whole.view.fence
            assert one.view.next_offset == len(world.log)


def test_while_a_transaction_is_open_the_header_stays_before_it() -> None:
    world, first, _ = two()
    at = len(world.log)
    first.submit(delete_all())
    first.land(2)
    world.append(None, b"a stray message")
    replica = reading(world, at)
    before = replica.shard.header("cluster", bytes(16))
    for _ in range(3):
        replica.read(1)
        assert replica.shard.header("cluster", bytes(16)) == before
        assert replica.view.last_entry == world.log[at - 1]
    assert replica.view.next_offset == at + 3 == len(world.log)


@pytest.mark.parametrize("landed", [1, 2, 3])
def test_a_leader_that_dies_inside_a_transaction_leaves_nothing_of_it(landed: int) -> None:
    world, first, second = two()
    [token] = first.submit(delete_all())
    first.land(landed)
    first.feed(Unassigned())
    second.feed(Assigned())
    second.read()
    # The log ends inside the transaction: that keeps nobody from leading.
    second.may_claim()
    second.land()
    world.settle()
    assert second.view.phase is State.LEADING
    assert errors_of(first.answers[token]) == {ErrorCode.NOT_COORDINATOR}
    for replica in (first, second):
        assert log_starts(replica.view) == {0}
    [[note]] = [decode_entry(value or b"") for key, value in world.log if (parts := decode_key(key)) and (parts.epoch, parts.seq) == (2, 1)]
    assert isinstance(note, TransactionAborted)
    assert "RecordsDeleted" in note.reason
    [answer] = second.ask(delete_all())
    assert errors_of(answer) == {ErrorCode.NONE}
    assert log_starts(first.view) == log_starts(second.view) == {2}


def test_a_chunk_that_was_lost_voids_what_is_behind_it() -> None:
    world, first, second = two()
    [token] = first.submit(delete_all())
    first.land(1)
    first.outbox.popleft()
    first.land()
    second.read()
    assert log_starts(second.view) == {0}
    first.report()
    world.settle()
    assert errors_of(first.answers[token]) == {ErrorCode.NOT_COORDINATOR}
    # The same process leads on in a new term, whose claim ended the transaction.
    assert log_starts(first.view) == log_starts(second.view) == {0}


def test_a_rival_that_loses_its_claim_inside_an_open_transaction_reads_on() -> None:
    world, first, second = two()
    first.submit(delete_all())
    first.land(2)
    second.feed(Assigned())
    second.read()
    second.may_claim()
    second.feed(Unassigned())
    first.land()
    world.settle()
    whole = reading(world, len(world.log))
    for replica in (first, second):
        assert state_of(replica.view.state) == state_of(whole.view.state)
        assert replica.view.phase is not State.FAILED


def test_requests_of_a_group_see_a_transaction_at_its_place() -> None:
    _world, first, _ = two()
    at_3 = list_offsets((3, -2))
    answers = first.ask(at_3, delete_all(), at_3, commit("later", [batch(3)]), Barrier())
    assert [one[0].offset for one in (answers[0], answers[2]) if isinstance(one, list) and isinstance(one[0], FoundOffset)] == [0, 2]
    assert result_of(answers[3]).log_starts == [2]
    assert answers[4] == OK


def test_before_level_2_what_does_not_fit_is_refused_and_leaves_nothing() -> None:
    world, first, _ = two(level=1)
    at = len(world.log)
    [answer, read] = first.ask(delete_all(), list_offsets((0, -2)))
    assert errors_of(answer) == {ErrorCode.INVALID_REQUEST}
    assert isinstance(answer, list)
    assert isinstance(answer[0], DeletedTo)
    assert "schema level 2" in str(answer[0].outcome.message)
    assert records_from(world, at) == [[NoOp()]]
    assert isinstance(read, list)
    assert isinstance(read[0], FoundOffset)
    assert read[0].offset == 0


def test_a_record_that_alone_does_not_fit_is_refused_at_any_level() -> None:
    world, first, _ = two()
    at = len(world.log)
    [answer, small] = first.ask(commit("k" * 400, [batch(0)]), commit("small", [batch(0)]))
    assert set(result_of(answer).errors) == {ErrorCode.INVALID_REQUEST}
    assert result_of(small).base_offsets == [3]
    assert len(world.log) == at + 1


def deletion(partition: int) -> RecordsDeleted:
    return RecordsDeleted(topic_id=TOPIC, partition=partition, new_log_start_offset=1)


BROKEN: list[tuple[Sequence[Record], ...]] = [
    ([TransactionEnded(num_chunks=0)],),
    ([TransactionBegan(name="a")], [TransactionBegan(name="b")]),
    ([TransactionBegan(name="a")], [deletion(0)], [TransactionEnded(num_chunks=2)]),
    ([TransactionBegan(name="a")], [deletion(0), TransactionEnded(num_chunks=1)], [TransactionEnded(num_chunks=1)]),
    ([TransactionBegan(name="a"), deletion(0)],),
]


@pytest.mark.parametrize("entries", BROKEN)
def test_a_broken_transaction_is_void_as_a_whole(entries: tuple[Sequence[Record], ...]) -> None:
    world, first, second = two()
    fence = first.view.fence
    for seq, records in enumerate([*entries, [deletion(8)]], fence.seq + 1):
        world.append(encode_key(EntryKey(fence.epoch, fence.term, seq)), encode_entry(records, 2))
    second.read()
    assert second.view.failure is None
    assert second.view.void_entries["contradiction"] >= 1
    assert "transaction" in str(second.view.contradiction)
    # The entry behind it stands for itself again.
    table = second.view.state.hot.partitions
    assert [table.log_start.cells[table.find(TOPIC, partition) or 0] for partition in range(PARTITIONS)] == [0] * 8 + [1] + [0] * (
        PARTITIONS - 9
    )
    assert second.view.state.applied_offset == len(world.log) - 1


def test_a_transaction_in_which_one_record_contradicts_the_state_is_void_as_a_whole() -> None:
    world, first, second = two()
    fence = first.view.fence
    too_far = RecordsDeleted(topic_id=TOPIC, partition=1, new_log_start_offset=4)
    for seq, records in enumerate(
        ([TransactionBegan(name="a")], [deletion(0)], [deletion(2), too_far], [TransactionEnded(num_chunks=2)]), fence.seq + 1
    ):
        world.append(encode_key(EntryKey(fence.epoch, fence.term, seq)), encode_entry(records, 2))
    second.read()
    assert second.view.failure is None
    assert log_starts(second.view) == {0}
    assert "up to 4, past the high watermark 3" in str(second.view.contradiction)


def test_an_aborted_transaction_changes_nothing_and_one_with_a_file_is_void() -> None:
    world, first, second = two()
    fence = first.view.fence
    first.ask(commit("a", [batch(0)]))
    [(_, file)] = world.log[-1:]
    # The same file in another log, inside a transaction, behind one that was aborted.
    del world.log[-1:]
    second = reading(world, len(world.log))
    values = [
        *(encode_entry(records, 2) for records in ([TransactionBegan(name="x")], [deletion(0)], [TransactionAborted(reason="why not")])),
        encode_entry([TransactionBegan(name="y")], 2),
        file or b"",
        encode_entry([TransactionEnded(num_chunks=1)], 2),
    ]
    for seq, value in enumerate(values, fence.seq + 1):
        world.append(encode_key(EntryKey(fence.epoch, fence.term, seq)), value)
    second.read()
    assert log_starts(second.view) == {0}
    assert second.view.state.find_file("a") is None
    assert second.view.void_entries == {"contradiction": 1}
    assert "a file is alone in its entry" in str(second.view.contradiction)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 57])
@pytest.mark.parametrize("limit", [40, 60, 100, 1000])
def test_records_are_cut_in_order_into_entries_that_fit(count: int, limit: int) -> None:
    records: list[Record] = [deletion(partition) for partition in range(count)]
    chunks = cut(records, 2, limit)
    assert [record for chunk in chunks for record in decode_entry(chunk.encoded)] == records
    assert [record for chunk in chunks for record in chunk.records] == records
    assert all(len(chunk.encoded) <= limit for chunk in chunks)
    smallest = -(-len(encode_entry(records, 2)) // limit)
    assert smallest <= len(chunks) <= 2 * smallest + 1


def test_a_record_that_cannot_be_cut_is_named() -> None:
    records: list[Record] = [deletion(0), deletion(1)]
    with pytest.raises(RecordTooLarge, match=r"a RecordsDeleted of \d+ bytes"):
        cut(records, 2, 20)
