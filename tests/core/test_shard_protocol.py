"""Leadership, fencing and acknowledgement as replicas live them, over one log that the tests step by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.core.commands import (
    OK,
    Answer,
    Barrier,
    DescribedFile,
    DescribeFiles,
    FetchPoint,
    FoundOffset,
    Outcome,
    RemoveTopics,
    TopicRemoval,
)
from coordinator.core.events import (
    Assigned,
    Delivered,
    Delivery,
    EntriesRead,
    Follow,
    Invalidated,
    MayClaim,
    ProduceFailed,
    Recover,
    Reply,
    Request,
    Stopping,
    Submitted,
    Unassigned,
)
from coordinator.core.files.commit import answer_of
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ReadEntry
from coordinator.core.reads.queries import past_the_end
from coordinator.kafka.errors import ErrorCode
from coordinator.testing.shard_harness import Replica, World
from records.codec import decode_entry, decode_key, encode_entry, encode_key
from records.entry_key import EntryKey
from records.model import FileCommitted, LeadershipClaimed, NoOp, Record
from tests.core.build import TOPIC, batch, commit, delete_records, list_offsets, place, result_of, state_of, view_of


def two(limits: Limits | None = None) -> tuple[World, Replica, Replica]:
    """The first of two replicas leads a topic of two partitions; both have read everything."""
    world = World()
    first, second = world.add_replica(limits=limits), world.add_replica(limits=limits)
    first.lead()
    first.ask(place())
    assert first.view.phase is State.LEADING
    return world, first, second


def error_of(answer: Answer) -> ErrorCode:
    """The one error of an answer."""
    if isinstance(answer, Outcome):
        return answer.error
    errors = set(answer.errors) if not isinstance(answer, list) else {getattr(e, "outcome", e).error for e in answer}
    [error] = errors
    return ErrorCode(error)


def offset_of(answer: Answer) -> int:
    assert isinstance(answer, list)
    [found] = answer
    assert isinstance(found, FoundOffset)
    return found.offset


def own_key(replica: Replica, seq: int) -> bytes:
    return encode_key(EntryKey(replica.view.fence.epoch, replica.view.fence.term, seq))


def claim(world: World, epoch: int, term: int, node_id: int = 9) -> None:
    record = LeadershipClaimed(epoch=epoch, term=term, node_id=node_id, rack="", endpoints=[])
    world.append(encode_key(EntryKey(epoch, term, 0)), encode_entry([record]))


def records_in(world: World) -> list[Record]:
    return [record for _, value in world.log for record in decode_entry(value or b"")]


def replay(world: World, cuts: tuple[int, ...] = ()) -> Replica:
    """A replica that has read the log in pieces that end at `cuts`."""
    replica = Replica(World(log=world.log, now_ms=world.now_ms), 50, Limits(), 0, 4)
    for cut in (*cuts, len(world.log)):
        replica.read(cut - replica.cursor)
    return replica


# ---- claims


def test_a_replica_leads_only_after_it_has_read_its_own_claim() -> None:
    world = World()
    replica = world.add_replica()
    replica.feed(Assigned())
    assert replica.view.phase is State.RECOVERING
    replica.may_claim()
    assert replica.view.phase is State.FENCING
    replica.land()
    replica.report()
    assert replica.view.phase is State.FENCING
    replica.read()
    assert replica.view.phase is State.LEADING
    assert (replica.view.fence.epoch, replica.view.fence.seq) == (1, 0)


def test_a_claim_waits_until_everything_up_to_the_end_of_the_log_is_applied() -> None:
    world, first, _second = two()
    first.ask(commit("a", [batch()]))
    late = world.add_replica()
    late.feed(Assigned())
    late.may_claim()
    late.read(2)
    assert late.view.phase is State.RECOVERING
    late.read()
    assert late.view.phase is State.FENCING
    assert late.outbox[0].key == encode_key(EntryKey(2, late.term_id or 0, 0))


def test_the_first_of_two_claims_of_an_epoch_wins_for_everybody() -> None:
    world = World()
    replicas = [world.add_replica() for _ in range(3)]
    for replica in replicas[:2]:
        replica.feed(Assigned())
        replica.may_claim()
    replicas[1].land()
    replicas[0].land()
    for replica in replicas:
        replica.read()
    assert [r.view.phase for r in replicas] == [State.RECOVERING, State.LEADING, State.FOLLOWING]
    assert {(r.view.fence.epoch, r.view.fence.term) for r in replicas} == {(1, replicas[1].term_id)}
    assert replicas[0].recover == Recover(prove=True)
    assert replicas[2].view.void_entries == {"stale": 1}


def test_a_rival_that_lost_needs_a_new_proof_and_takes_the_next_epoch() -> None:
    world, first, second = two()
    second.feed(Assigned())
    second.may_claim()
    claim(world, 2, 77)
    second.read()
    assert second.view.phase is State.RECOVERING
    second.may_claim()
    first.feed(Unassigned())
    world.settle()
    assert second.view.phase is State.LEADING
    assert second.view.fence.epoch == 3


def test_a_foreign_claim_behind_the_end_that_was_looked_up_asks_for_a_new_proof() -> None:
    world, _first, second = two()
    second.feed(Assigned())
    end = len(world.log)
    claim(world, 2, 77)
    second.read()
    second.feed(MayClaim(end, 5))
    assert second.view.phase is State.RECOVERING
    assert second.recover == Recover(prove=True)
    second.may_claim()
    assert second.view.phase is State.FENCING


def test_a_foreign_claim_read_past_the_looked_up_end_asks_for_a_new_proof() -> None:
    world, _first, _second = two()
    third = world.add_replica()
    third.feed(Assigned())
    third.may_claim()
    claim(world, 2, 77)
    third.read()
    assert third.view.phase is State.RECOVERING
    assert third.recover == Recover(prove=True)


def test_a_claim_that_fails_to_be_delivered_ends_the_attempt() -> None:
    world = World()
    replica = world.add_replica()
    replica.feed(Assigned())
    replica.may_claim()
    replica.feed(Delivered(replica.term_id or 0, [Delivery(0, None, "broker gone")]))
    assert replica.view.phase is State.RECOVERING
    assert replica.recover == Recover(prove=True)
    world.settle()
    assert replica.view.phase is State.LEADING


def test_an_abandoned_claim_that_lands_late_is_a_foreign_one() -> None:
    world = World()
    replica = world.add_replica()
    replica.feed(Assigned())
    replica.may_claim()
    replica.feed(ProduceFailed(replica.term_id or 0, "queue full"))
    [orphan] = world.orphans
    world.append(orphan[0].key, orphan[0].value)
    world.settle()
    assert replica.view.phase is State.LEADING
    assert replica.view.fence.epoch == 2


def test_reports_of_a_term_that_is_over_are_ignored() -> None:
    _world, first, _second = two()
    before = first.view.state.applied_offset
    assert first.feed(Delivered(12345, [Delivery(1, 99, "error")])) == []
    assert first.feed(ProduceFailed(12345, "old")) == []
    assert (first.view.phase, first.view.state.applied_offset) == (State.LEADING, before)


def test_a_leader_without_assignment_leads_on_until_somebody_claims() -> None:
    _world, first, second = two()
    first.feed(Unassigned())
    assert first.view.phase is State.LEADING
    assert error_of(first.ask(commit("a", [batch()]))[0]) == ErrorCode.NONE
    second.lead()
    assert first.view.phase is State.FOLLOWING
    assert error_of(first.ask(commit("b", [batch()]))[0]) == ErrorCode.NOT_COORDINATOR


def test_one_that_is_loading_says_so_and_one_that_follows_points_elsewhere() -> None:
    _world, _first, second = two()
    assert error_of(second.ask(Barrier())[0]) == ErrorCode.NOT_COORDINATOR
    second.feed(Assigned())
    [token] = second.submit(Barrier())
    assert error_of(second.answers[token]) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# ---- the end of a term


def test_a_foreign_claim_while_leading_answers_everything_under_way_with_not_coordinator() -> None:
    world, first, _second = two()
    first.feed(Unassigned())
    tokens = first.submit(list_offsets((0, -1)), commit("a", [batch()]), delete_records((0, -1)), Barrier(), place(count=3))
    claim(world, first.view.fence.epoch + 1, 77)
    first.read()
    assert [error_of(first.answers[token]) for token in tokens] == [ErrorCode.NOT_COORDINATOR] * 5
    assert first.view.phase is State.FOLLOWING
    assert first.view.term_ends == {"foreign_claim": 1}


def test_a_leader_that_was_replaced_knows_by_whom_before_it_reads_the_claim_again() -> None:
    world, first, _second = two()
    first.feed(Unassigned())
    epoch = first.view.fence.epoch + 1
    claim(world, epoch, 77)
    first.read(len(world.log) - first.cursor)
    known = first.view.known_claim
    assert known is not None
    assert (known.epoch, known.term, first.view.fence.epoch) == (epoch, 77, epoch - 1)
    first.read()
    assert first.view.known_claim == first.view.claim == known
    assert first.view.fence.epoch == epoch


def test_entries_of_a_leader_behind_a_foreign_claim_are_void_for_all() -> None:
    world, first, second = two()
    [token] = first.submit(commit("zombie", [batch(0, 5)]))
    first.feed(Unassigned())
    second.feed(Assigned())
    second.may_claim()
    second.land()
    first.land()
    world.settle()
    third = replay(world)
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR
    assert second.view.phase is State.LEADING
    for replica in (first, second, third):
        assert replica.view.state.find_file("zombie") is None
        assert replica.view.void_entries["stale"] >= 1
    assert state_of(first.view.state) == state_of(third.view.state)


def test_what_landed_before_the_foreign_claim_counts_though_its_client_was_told_16() -> None:
    world, first, second = two()
    [token] = first.submit(commit("a", [batch(0, 5)]))
    first.land()
    second.feed(Assigned())
    second.read()
    second.may_claim()
    second.land()
    first.feed(Unassigned())
    first.reports.clear()
    world.settle()
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR
    [retried] = second.ask(commit("a", [batch(0, 5)]))
    assert result_of(retried).base_offsets == [0]
    assert len([r for r in records_in(world) if isinstance(r, FileCommitted)]) == 1


@pytest.mark.parametrize(
    ("reports", "cause"),
    [
        (lambda end: [Delivery(2, None, "timed out")], "delivery"),
        (lambda end: [Delivery(2, None, None)], "delivery"),
        (lambda end: [Delivery(3, end + 1, None)], "misplaced"),
        (lambda end: [Delivery(1, end, None)], "misplaced"),
        (lambda end: [Delivery(2, end - 1, None)], "misplaced"),
    ],
    ids=["error", "no offset", "seq skipped", "seq again", "offset too low"],
)
def test_a_report_out_of_line_ends_the_term(reports: Callable[[int], list[Delivery]], cause: str) -> None:
    world, first, _ = two()
    [token] = first.submit(commit("a", [batch()]))
    first.feed(Delivered(first.term_id or 0, reports(len(world.log))))
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR
    assert first.view.term_ends == {cause: 1}
    assert first.view.phase is State.RECOVERING
    assert first.recover == Recover(prove=True)


def test_entries_acknowledged_together_with_a_misplaced_one_are_answered_first() -> None:
    world, first, _ = two()
    [one] = first.submit(commit("a", [batch()]))
    [other] = first.submit(commit("b", [batch()]))
    world.append(b"stray", b"")
    first.land(1)
    end = len(world.log)
    first.feed(Delivered(first.term_id or 0, [Delivery(2, end - 1, None), Delivery(3, end - 1, None)]))
    assert one not in first.answers
    first.read()
    assert error_of(first.answers[one]) == ErrorCode.NONE
    assert error_of(first.answers[other]) == ErrorCode.NOT_COORDINATOR
    assert first.view.state.applied_offset == end - 1


def test_a_refused_produce_ends_the_term() -> None:
    _world, first, _ = two()
    [token] = first.submit(commit("a", [batch()]))
    effects = first.feed(ProduceFailed(first.term_id or 0, "queue full"))
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR
    assert Follow(first.view.state.applied_offset + 1) in effects


def test_a_term_whose_oldest_entry_is_too_old_ends() -> None:
    _world, first, _ = two()
    [token] = first.submit(commit("a", [batch()]), timeout_ms=1_000_000)
    first.tick(45_000)
    assert first.view.phase is State.LEADING
    first.tick(1)
    assert first.view.phase is State.RECOVERING
    assert first.view.term_ends == {"timeout": 1}
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR


def test_a_request_times_out_alone_and_a_retry_joins_its_entry() -> None:
    world, first, _ = two()
    read, wrote = first.submit(list_offsets((0, -1)), commit("a", [batch(0, 3)]), timeout_ms=100)
    first.tick(100)
    assert error_of(first.answers[read]) == error_of(first.answers[wrote]) == ErrorCode.REQUEST_TIMED_OUT
    assert first.view.phase is State.LEADING
    [retry] = first.submit(commit("a", [batch(0, 3)]))
    [other] = first.submit(commit("a", [batch(0, 4)]))
    assert error_of(first.answers[other]) == ErrorCode.DUPLICATE_RESOURCE
    assert retry not in first.answers
    world.settle()
    assert result_of(first.answers[retry]).base_offsets == [0]
    assert len([r for r in records_in(world) if isinstance(r, FileCommitted)]) == 1


def test_a_queued_request_times_out_too() -> None:
    world, first, _ = two(Limits(groups_in_flight_max=1))
    [sent] = first.submit(Barrier())
    [queued] = first.submit(Barrier(), timeout_ms=50)
    first.tick(50)
    assert error_of(first.answers[queued]) == ErrorCode.REQUEST_TIMED_OUT
    assert first.view.queue_bytes == 0
    world.settle()
    assert first.answers[sent] == OK


def test_requests_beyond_the_bytes_that_may_wait_are_refused_and_undone() -> None:
    world, first, _ = two(Limits(groups_in_flight_max=1, queue_bytes_max=100))
    tokens = [object() for _ in range(4)]
    # The first is under way at once; then one waits, whatever its size, one more does not fit, and a small one does.
    effects = [
        effect
        for token, size in zip(tokens, (1000, 90, 11, 10), strict=True)
        for effect in first.shard.feed(Submitted([Request(token, Barrier(), world.now_ms + 1000, size)]), world.now_ms)
    ]
    refused = [effect for effect in effects if isinstance(effect, Reply)]
    assert [reply.token for reply in refused] == [tokens[2]]
    assert error_of(refused[0].answer) == ErrorCode.REQUEST_TIMED_OUT
    assert first.view.queue_bytes == 100


def waiting_for_trimming(replica: Replica) -> int:
    """The token of a DescribeFiles behind a deletion of more batches than one step counts out of their files."""
    for number in range(5):
        replica.ask(commit(f"large-{number}", [batch()] * 5_000))
    replica.ask(delete_records((0, -1)))
    [token] = replica.submit(DescribeFiles(object_keys=["large-0"]), timeout_ms=50)
    replica.world.settle()
    assert token not in replica.answers
    return token


def test_a_strict_read_that_waits_for_trimming_is_answered_when_that_is_done() -> None:
    _, first, _ = two()
    token = waiting_for_trimming(first)
    first.tick()
    assert token not in first.answers
    first.tick()
    assert first.answers[token] == [DescribedFile(outcome=OK, has_live_batches=False)]


def test_a_strict_read_that_waits_for_trimming_times_out_too() -> None:
    _, first, _ = two()
    token = waiting_for_trimming(first)
    first.tick(50)
    assert error_of(first.answers[token]) == ErrorCode.REQUEST_TIMED_OUT


def test_a_strict_read_that_waits_for_trimming_ends_with_the_term() -> None:
    world, first, _ = two()
    token = waiting_for_trimming(first)
    claim(world, first.view.fence.epoch + 1, 77)
    first.read()
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR


# ---- acknowledgement


def test_a_report_before_the_reader_acknowledges_at_once() -> None:
    _world, first, _ = two()
    [token] = first.submit(commit("a", [batch()]))
    first.land()
    first.report()
    assert error_of(first.answers[token]) == ErrorCode.NONE
    first.read()
    assert first.view.void_entries == {}


def test_a_reader_before_the_report_acknowledges_nothing() -> None:
    _world, first, _ = two()
    [token] = first.submit(commit("a", [batch()]))
    first.land()
    first.read()
    assert token not in first.answers
    first.report()
    assert error_of(first.answers[token]) == ErrorCode.NONE


def test_a_hole_of_void_entries_holds_the_report_until_they_are_read() -> None:
    world, first, second = two()
    world.append(encode_key(EntryKey(0, 3, 4)), b"zombie")
    world.append(None, None)
    tokens = first.submit(commit("a", [batch()])) + first.submit(commit("b", [batch()]))
    first.land()
    first.report()
    assert first.answers.keys().isdisjoint(tokens)
    first.read(2)
    assert first.answers.keys().isdisjoint(tokens)
    first.read(1)
    assert tokens[0] in first.answers
    world.settle()
    assert [result_of(first.answers[token]).base_offsets for token in tokens] == [[0], [1]]
    assert first.view.term_ends == {}
    assert state_of(second.view.state) == state_of(first.view.state)


def test_void_entries_read_ahead_of_the_report_move_the_place_it_must_have() -> None:
    world, first, _ = two()
    world.append(None, b"x")
    [token] = first.submit(commit("a", [batch()]))
    first.land()
    first.read()
    assert token not in first.answers
    first.report()
    assert error_of(first.answers[token]) == ErrorCode.NONE
    assert first.ask(commit("b", [batch()]), Barrier())[1] == OK


def test_a_hole_with_a_claim_in_force_ends_the_term() -> None:
    world, first, _ = two()
    claim(world, first.view.fence.epoch + 1, 77)
    [token] = first.submit(commit("a", [batch()]))
    first.land()
    first.report()
    assert token not in first.answers
    first.read()
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR
    assert first.view.state.find_file("a") is None


def test_an_entry_that_stands_elsewhere_than_its_report_says_ends_the_term() -> None:
    """A doubled entry: the copy that was reported is not the one that counts."""
    world, first, _ = two()
    [token] = first.submit(commit("a", [batch()]))
    entry = first.outbox[0]
    world.append(entry.key, entry.value)
    first.land()
    first.report()
    first.read()
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR
    assert first.view.term_ends == {"misplaced": 1}
    world.settle()
    assert first.view.void_entries["duplicate"] + first.view.void_entries["stale"] >= 1
    assert result_of(first.ask(commit("a", [batch()]))[0]).base_offsets == [0]


def test_an_entry_the_client_library_dropped_voids_those_behind_it() -> None:
    world, first, second = two()
    tokens = first.submit(commit("a", [batch()])) + first.submit(commit("b", [batch()]))
    first.outbox.popleft()
    first.land()
    first.report()
    assert [error_of(first.answers[token]) for token in tokens] == [ErrorCode.NOT_COORDINATOR] * 2
    world.settle()
    assert second.view.void_entries["gap"] == 1
    assert second.view.state.find_file("b") is None
    assert state_of(first.view.state) == state_of(second.view.state)


# ---- strict reads


def test_reads_of_a_group_see_the_writes_before_them_and_not_those_behind() -> None:
    _world, first, _ = two()
    answers = first.ask(
        list_offsets((0, -1)), commit("a", [batch(0, 3)]), list_offsets((0, -1)), commit("b", [batch(0, 2)]), list_offsets((0, -1))
    )
    assert [offset_of(answers[at]) for at in (0, 2, 4)] == [0, 3, 5]


def test_a_read_before_the_only_write_sees_what_an_earlier_group_has_in_flight() -> None:
    world, first, _ = two()
    first.submit(commit("a", [batch(0, 3)]))
    before, _ = first.submit(list_offsets((0, -1)), commit("b", [batch(0, 2)]))
    first.land(1)
    first.report()
    assert before not in first.answers
    world.settle()
    assert offset_of(first.answers[before]) == 3


def test_reads_share_one_barrier_only_when_no_write_rides_with_them() -> None:
    world, first, _ = two()
    length = len(world.log)
    first.ask(list_offsets((0, -1)), Barrier(), list_offsets((1, -1)))
    assert [decode_entry(value or b"") for _, value in world.log[length:]] == [[NoOp()]]
    first.ask(list_offsets((0, -1)), commit("a", [batch()]), Barrier())
    assert not any(isinstance(r, NoOp) for _, value in world.log[length + 1 :] for r in decode_entry(value or b""))


def test_a_read_is_not_answered_by_an_entry_produced_before_it_came() -> None:
    world, first, _ = two()
    first.submit(commit("a", [batch()]))
    [read] = first.submit(list_offsets((0, -1)))
    first.land(1)
    first.report()
    assert read not in first.answers
    world.settle()
    assert offset_of(first.answers[read]) == 1


def test_a_write_that_changes_nothing_waits_for_what_makes_it_a_success() -> None:
    world, first, _ = two()
    first.submit(place(count=5))
    [again] = first.submit(place(count=5))
    assert again not in first.answers
    world.settle()
    assert first.answers[again] == [OK]


def test_groups_in_flight_are_limited_and_the_rest_forms_one_group() -> None:
    world, first, _ = two(Limits(groups_in_flight_max=2))
    tokens = [first.submit(commit(f"f{n}", [batch()]))[0] for n in range(6)]
    assert len(first.outbox) == 2
    assert first.view.queued == 4
    world.settle()
    assert [result_of(first.answers[t]).base_offsets for t in tokens] == [[n] for n in range(6)]


def test_a_commit_too_large_for_an_entry_is_refused_and_leaves_nothing() -> None:
    _world, first, _ = two(Limits(entry_bytes_max=300))
    answers = first.ask(list_offsets((0, -1)), commit("k" * 400, [batch(0, 9)]), commit("small", [batch()]))
    assert offset_of(answers[0]) == 0
    assert error_of(answers[1]) == ErrorCode.INVALID_REQUEST
    assert result_of(answers[2]).base_offsets == [0]


def test_past_the_end_of_a_topic_deleted_meanwhile_is_an_unknown_topic() -> None:
    _world, first, _ = two()
    first.ask(RemoveTopics(removals=[TopicRemoval(topic_id=TOPIC, order_offset=9)]))
    point = FetchPoint(topic_id=TOPIC, partition=0, offset=5, max_bytes=1)
    assert past_the_end(first.view.state, point, is_certain=True).outcome.error == ErrorCode.UNKNOWN_TOPIC_ID


# ---- the next leader


def test_the_next_leader_answers_a_retry_exactly_as_the_first_one_did() -> None:
    world, first, second = two()
    rows = [batch(0, 3, sequence=0), batch(0, 3, sequence=0), batch(1, 2, sequence=9, timestamp_type=1), batch(0, 1, sequence=8)]
    [answer] = first.ask(commit("a", rows))
    assert result_of(answer).errors == [0, 0, 0, 45]
    first.ask(delete_records((0, -1)))
    first.feed(Unassigned())
    second.lead()
    assert second.ask(commit("a", rows)) == [answer]
    assert error_of(second.ask(commit("a", rows[:1]))[0]) == ErrorCode.DUPLICATE_RESOURCE
    [record] = [r for r in records_in(world) if isinstance(r, FileCommitted)]
    assert answer_of(record) == answer


def test_the_next_leader_continues_offsets_sequences_and_time() -> None:
    world, first, second = two()
    first.ask(commit("a", [batch(0, 3, sequence=0, timestamp_type=1)]))
    first.feed(Unassigned())
    world.now_ms -= 5_000
    second.lead()
    result = result_of(second.ask(commit("b", [batch(0, 2, sequence=3, timestamp_type=1), batch(0, 3, sequence=0)]))[0])
    assert result.base_offsets == [3, 0]
    assert result.duplicates == [False, True]
    assert result.append_times[0] == result.append_times[1] == world.now_ms + 5_000


# ---- resigning, failing


def test_a_stopping_leader_leads_on_and_lets_go_at_the_successors_claim() -> None:
    _world, first, second = two()
    first.feed(Stopping())
    first.feed(Unassigned())
    assert first.view.phase is State.RESIGNING
    assert error_of(first.ask(commit("a", [batch()]))[0]) == ErrorCode.NONE
    [token] = first.submit(Barrier())
    second.lead()
    assert first.view.phase is State.RESIGNING
    assert not first.view.is_leading
    assert token in first.answers
    assert error_of(first.ask(Barrier())[0]) == ErrorCode.NOT_COORDINATOR
    assert state_of(first.view.state) == state_of(second.view.state)


@pytest.mark.parametrize("phase", [State.FOLLOWING, State.RECOVERING, State.FENCING])
def test_a_stopping_replica_never_claims(phase: State) -> None:
    world = World()
    replica = world.add_replica()
    if phase is not State.FOLLOWING:
        replica.feed(Assigned())
    if phase is State.FENCING:
        replica.may_claim()
    assert replica.view.phase is phase
    replica.feed(Stopping())
    replica.feed(Assigned())
    world.settle()
    assert replica.view.phase is State.RESIGNING
    assert not replica.view.is_leading
    assert world.log == []


def test_an_entry_of_an_unknown_schema_in_the_term_in_force_fails_a_follower() -> None:
    """A newer version knows what it means; passing over it would make replicas differ."""
    world, first, second = two()
    world.append(own_key(first, first.view.fence.seq + 1), b"\xc3\x01" + bytes(8))
    before = state_of(second.view.state)
    second.read()
    assert second.view.phase is State.FAILED
    assert f"entry {len(world.log) - 1} of the term in force cannot be read by this version" in (second.view.failure or "")
    assert state_of(second.view.state) == before
    assert error_of(second.ask(Barrier())[0]) == ErrorCode.NOT_COORDINATOR
    assert second.feed(Assigned()) == []


def test_a_hole_in_what_is_read_fails_the_replica() -> None:
    world, _first, second = two()
    second.feed(EntriesRead([ReadEntry(len(world.log) + 3, 0, None, None)]))
    assert second.view.phase is State.FAILED


def test_a_replica_whose_base_is_gone_fails_and_answers_what_waits() -> None:
    _world, first, _second = two()
    [token] = first.submit(commit("a", [batch()]))
    first.feed(Invalidated("topic made anew"))
    assert first.view.phase is State.FAILED
    assert first.view.failure == "topic made anew"
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR


STRAYS: dict[str, tuple[bytes | None, bytes | None]] = {
    "no key": (None, encode_entry([NoOp()])),
    "short key": (b"abc", b""),
    "negative epoch": (b"\xff" * 20, b""),
    "nobody's term": (encode_key(EntryKey(0, 0, 1)), b"junk"),
    "huge epoch": (encode_key(EntryKey(2**31 - 1, 1, 0)), b"junk"),
    "claim without a body": (encode_key(EntryKey(2, 1, 0)), None),
    "claim with a junk body": (encode_key(EntryKey(2, 1, 0)), b"junk"),
    "claim with another record": (encode_key(EntryKey(2, 1, 0)), encode_entry([NoOp()])),
    "claim of another term": (
        encode_key(EntryKey(2, 1, 0)),
        encode_entry([LeadershipClaimed(epoch=2, term=9, node_id=1, rack="", endpoints=[])]),
    ),
    "claim of another epoch": (
        encode_key(EntryKey(2, 1, 0)),
        encode_entry([LeadershipClaimed(epoch=3, term=1, node_id=1, rack="", endpoints=[])]),
    ),
    "two claims in one": (
        encode_key(EntryKey(2, 1, 0)),
        encode_entry([LeadershipClaimed(epoch=2, term=1, node_id=1, rack="", endpoints=[])] * 2),
    ),
}


@pytest.mark.parametrize("stray", STRAYS.values(), ids=STRAYS.keys())
def test_a_stray_message_is_void_and_counted_for_leader_and_follower(stray: tuple[bytes | None, bytes | None]) -> None:
    world, first, second = two()
    world.append(*stray)
    world.settle()
    for replica in (first, second):
        assert sum(replica.view.void_entries.values()) == 1
    assert (first.view.phase, second.view.phase) == (State.LEADING, State.FOLLOWING)
    assert result_of(first.ask(commit("a", [batch()]))[0]).errors == [0]
    assert state_of(first.view.state) == state_of(second.view.state)


@pytest.mark.parametrize("stray", STRAYS.values(), ids=STRAYS.keys())
def test_a_stray_message_is_void_in_a_log_nobody_ever_led(stray: tuple[bytes | None, bytes | None]) -> None:
    world = World()
    world.append(*stray)
    replica = world.add_replica()
    replica.lead()
    assert sum(replica.view.void_entries.values()) == 1
    assert replica.view.fence.epoch == 1


# ---- replicas agree


def busy_world() -> World:
    """A log with two leaders, a zombie, stray messages and every kind of ordinary entry."""
    world, first, second = two()
    first.ask(commit("a", [batch(0, 3, sequence=0), batch(1, 2, max_timestamp=9000)]), delete_records((0, 2)))
    world.append(None, b"stray")
    first.ask(commit("b", [batch(0, 3, sequence=3, timestamp_type=1), batch(0, 1, sequence=9)]), place(bytes(15) + b"x", 3, name="more"))
    first.submit(commit("zombie", [batch()]))
    first.feed(Unassigned())
    second.feed(Assigned())
    second.may_claim()
    second.land()
    first.land()
    world.settle()
    second.ask(commit("zombie", [batch(0, 4)]), commit("c", [batch(1, 2, sequence=0)]), Barrier())
    return world


def test_every_split_of_a_log_replays_to_the_same_state() -> None:
    world = busy_world()
    straight = state_of(replay(world).view.state)
    for cut in range(len(world.log) + 1):
        pieces = replay(world, (cut,))
        assert state_of(pieces.view.state) == straight
        assert pieces.view.fence == world.replicas[1].view.fence
    assert state_of(replay(world, tuple(range(len(world.log)))).view.state) == straight


def test_leader_and_followers_have_the_same_state_at_the_same_offset() -> None:
    world = busy_world()
    views = [state_of(replica.view.state) for replica in (*world.replicas, replay(world))]
    assert views[0] == views[1] == views[2]
    assert len({replica.view.fence for replica in world.replicas}) == 1


def test_the_speculative_state_equals_the_committed_one_when_nothing_is_in_flight() -> None:
    world = busy_world()
    leader = world.replicas[1].view
    assert leader.overlay is not None
    assert view_of(leader.overlay) == view_of(leader.state.hot)


def test_the_last_entry_named_is_the_one_at_the_applied_offset() -> None:
    world = busy_world()
    for replica in world.replicas:
        key, value = world.log[replica.view.state.applied_offset]
        assert replica.view.last_entry == (key, value)
        fence = replica.view.fence
        assert decode_key(key) == EntryKey(fence.epoch, fence.term, fence.seq)
