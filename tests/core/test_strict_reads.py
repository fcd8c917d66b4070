"""Strict reads see the writes before them: which entry answers which read."""

from __future__ import annotations

from coordinator.core.commands import OK, Barrier, FetchPoint, RemoveTopics, TopicRemoval
from coordinator.core.limits import Limits
from coordinator.core.reads.queries import past_the_end
from coordinator.kafka.errors import ErrorCode
from records.codec import decode_entry
from records.model import NoOp
from tests.core.build import TOPIC, batch, commit, list_offsets, place, result_of
from tests.core.shard_worlds import error_of, offset_of, two

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
