"""What ends a term, and what becomes of the requests that wait in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordinator.core.commands import OK, Barrier, DescribedFile, DescribeFiles
from coordinator.core.events import Assigned, Delivered, Delivery, Follow, ProduceFailed, Recover, Submitted, Unassigned
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.request import Reply, Request
from coordinator.kafka.errors import ErrorCode
from records.committed_files.codec import FileCommitted
from simulation.fakes.shard_harness import HarnessReplica
from tests.core.build import batch, commit, delete_records, list_offsets, place, result_of, state_of
from tests.core.shard_worlds import claim, error_of, records_in, replay, two

# ---- the end of a term


@pytest.mark.parametrize("others", [1, 3])
def test_an_acknowledged_entry_that_the_log_lost_ends_the_term(others: int) -> None:
    """Strangers have the place before the leader has read its entry back: it reads the log again, and from its own last entry."""
    world, first, _second = two()
    first.read()
    first.submit(commit("kept", [batch()]), commit("lost", [batch()]))
    first.land()
    first.report()
    world.log.pop()
    place_of_it = len(world.log)
    for _ in range(others):
        world.append(None, b"?")
    first.read()
    assert first.view.term_ends == {"misplaced": 1}
    assert first.view.phase is State.RECOVERING
    assert first.view.applied_offset == place_of_it


def test_strangers_before_an_entry_and_behind_it_end_no_term() -> None:
    world, first, _second = two()
    first.read()
    for count in (1, 2):
        world.append(None, b"?")
        [token] = first.submit(commit(f"file-{count}", [batch()]))
        first.land()
        world.append(None, b"?")
        first.report()
        first.read()
        result_of(first.answers[token])
    assert first.view.term_ends == {}


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
        (lambda end: [Delivery(3, end + 1, None)], "misplaced"),
        (lambda end: [Delivery(1, end, None)], "misplaced"),
        (lambda end: [Delivery(2, end - 1, None)], "misplaced"),
    ],
    ids=["error", "seq skipped", "seq again", "offset too low"],
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


def test_commits_of_one_group_time_out_one_by_one() -> None:
    """The one that was late is not answered again, its retry and the others get their own answers, refusals included."""
    world, first, _ = two(Limits(groups_in_flight_max=2))
    first.submit(Barrier())
    first.submit(Barrier())
    [before] = first.submit(commit("before", [batch(0, 2)]))
    [late] = first.submit(commit("late", [batch(0, 3)]), timeout_ms=100)
    [refused] = first.submit(commit("refused", [batch(0, sequence=0), batch(0, sequence=5), batch(0)]))
    [behind] = first.submit(commit("behind", [batch(0)]))
    first.land()
    first.report()
    first.tick(100)
    assert error_of(first.answers[late]) == ErrorCode.REQUEST_TIMED_OUT
    assert not first.answers.keys() & {before, refused, behind}
    [retry] = first.submit(commit("late", [batch(0, 3)]))
    assert retry not in first.answers
    world.settle()
    assert result_of(first.answers[before]).base_offsets == [0]
    assert result_of(first.answers[retry]).base_offsets == [2]
    assert result_of(first.answers[refused]).errors == [0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]
    assert result_of(first.answers[behind]).base_offsets == [7]
    assert error_of(first.answers[late]) == ErrorCode.REQUEST_TIMED_OUT


def test_the_end_of_a_term_answers_only_commits_that_were_not_late() -> None:
    world, first, _ = two()
    [late] = first.submit(commit("late", [batch(0)]), timeout_ms=100)
    [waits] = first.submit(commit("waits", [batch(0)]))
    first.tick(100)
    claim(world, first.view.fence.epoch + 1, 77)
    first.read()
    assert error_of(first.answers[late]) == ErrorCode.REQUEST_TIMED_OUT
    assert error_of(first.answers[waits]) == ErrorCode.NOT_COORDINATOR


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


def waiting_for_trimming(replica: HarnessReplica) -> int:
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
    ticks = 0
    while token not in first.answers and ticks < 20:
        first.tick()
        ticks += 1
    assert ticks > 1
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
