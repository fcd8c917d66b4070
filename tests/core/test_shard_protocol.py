"""Fencing and acknowledgement as replicas live them, over one log that the tests step by hand, and that all replicas agree."""

from __future__ import annotations

import pytest

from coordinator.core.commands import OK, Barrier
from coordinator.core.events import Unassigned
from coordinator.core.files.answers import result_of as logged_result
from coordinator.core.leadership.states import State
from coordinator.kafka.errors import ErrorCode
from records.codec import encode_entry
from records.committed_files.codec import FileCommitted, table_of
from records.entry_key import EntryKey, encode_key
from records.model import LeadershipClaimed, NoOp
from simulation.fakes.shard_harness import World
from tests.core.build import batch, commit, delete_records, result_of, state_of
from tests.core.shard_worlds import claim, error_of, records_in, two

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


def test_a_doubled_entry_is_acknowledged_where_it_counts_though_its_copy_was_reported() -> None:
    world, first, second = two()
    [token] = first.submit(commit("a", [batch()]))
    entry = first.outbox[0]
    world.append(entry.key, entry.value)
    first.land()
    first.report()
    assert token not in first.answers
    first.read()
    assert error_of(first.answers[token]) == ErrorCode.NONE
    assert (first.view.term_ends, first.view.void_entries) == ({}, {"duplicate": 1})
    world.settle()
    assert state_of(first.view.state) == state_of(second.view.state)
    assert result_of(first.ask(commit("b", [batch()]))[0]).base_offsets == [1]


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


# ---- the next leader


def test_the_next_leader_answers_a_retry_exactly_as_the_first_one_did() -> None:
    world, first, second = two()
    rows = [batch(0, 3, sequence=0), batch(0, 3, sequence=0), batch(1, 2, sequence=0, timestamp_type=1), batch(0, 1, sequence=8)]
    [answer] = first.ask(commit("a", rows))
    assert result_of(answer).errors == [0, 0, 0, 45]
    first.ask(delete_records((0, -1)))
    first.feed(Unassigned())
    second.lead()
    assert second.ask(commit("a", rows)) == [answer]
    assert error_of(second.ask(commit("a", rows[:1]))[0]) == ErrorCode.DUPLICATE_RESOURCE
    [record] = [r for r in records_in(world) if isinstance(r, FileCommitted)]
    assert logged_result(table_of([record]), 0, first.view.state.hot) == answer


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
