"""A replica claims, leads and lets go: when it may, and which of several claims is in force."""

from __future__ import annotations

import pytest

from coordinator.core.commands import Barrier
from coordinator.core.events import (
    Assigned,
    Delivered,
    Delivery,
    EntriesRead,
    Invalidated,
    MayClaim,
    ProduceFailed,
    Recover,
    Stopping,
    Unassigned,
)
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ReadEntry
from coordinator.kafka.errors import ErrorCode
from records.codec import encode_key
from records.entry_key import EntryKey
from simulation.fakes.shard_harness import World
from tests.core.build import batch, commit, state_of
from tests.core.shard_worlds import claim, error_of, own_key, two

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


def test_a_claim_that_the_log_has_lost_is_made_again() -> None:
    """Kafka acknowledged it and lost it before it was read: an unclean election, or a broker that lost its pages."""
    world = World()
    replica = world.add_replica()
    replica.feed(Assigned())
    replica.may_claim()
    replica.land()
    replica.report()
    world.log.pop()
    replica.tick(Limits().term_timeout_ms)
    assert replica.view.phase is State.FENCING
    replica.tick(1)
    assert (replica.view.phase, replica.view.term_ends["timeout"]) == (State.RECOVERING, 1)
    replica.may_claim()
    replica.land()
    replica.report()
    replica.read()
    assert (replica.view.phase, replica.view.fence.epoch) == (State.LEADING, 1)


def test_a_claim_without_a_report_waits_for_kafka() -> None:
    replica = World().add_replica()
    replica.feed(Assigned())
    replica.may_claim()
    replica.tick(100 * Limits().term_timeout_ms)
    assert replica.view.phase is State.FENCING


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
