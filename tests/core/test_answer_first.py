"""Commits are answered before they are applied to the committed tables: nobody may notice.

The reference is the same shard made to settle after every event.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from coordinator.core.commands import Command, CommitFile
from coordinator.core.events import Delivered, Delivery, Effect, StateChanged, Submitted, Ticked
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.request import Reply
from coordinator.core.shard import Shard
from coordinator.core.state.replica_state import ShardState
from coordinator.core.tables.in_memory import BrokenInvariant
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import batch, commit, delete_records, leading, list_offsets, place, result_of, state_of, view_of


def deferring() -> tuple[World, HarnessReplica]:
    """A leader with a topic, which leaves what its shard deferred to the next event."""
    world, replica = leading()
    world.defers = True
    return world, replica


def answered(*, count: int = 1) -> tuple[World, HarnessReplica]:
    """A leader whose last event acknowledged a group of commits to partition 0."""
    world, replica = deferring()
    replica.submit(*[commit(f"file {number}", [batch(0, 3)]) for number in range(count)])
    replica.land()
    replica.report()
    return world, replica


def test_the_answer_comes_first() -> None:
    world, replica = deferring()
    [token] = replica.submit(commit("a", [batch(0, 3)]))
    assert replica.view.is_settled
    replica.land()
    before = replica.view.applied_offset
    replica.report()
    assert result_of(replica.answers[token]).base_offsets == [0]
    assert not replica.view.is_settled
    assert replica.view.applied_offset == before
    assert replica.shard.settle() == []
    assert replica.view.applied_offset == before + 1 == len(world.log) - 1
    assert (replica.view.commit_counts.commits, replica.view.commit_counts.records) == (1, 3)


EVENTS: list[Callable[[HarnessReplica], object]] = [
    lambda replica: result_of(replica.ask(commit("next", [batch(0, 2)]))[0]).base_offsets,
    lambda replica: result_of(replica.ask(commit("file 0", [batch(0, 3)]))[0]),
    lambda replica: result_of(replica.ask(commit("file 0", [batch(0, 4)]))[0]),
    lambda replica: replica.ask(list_offsets((0, -1), (0, -3))),
    lambda replica: replica.ask(delete_records((0, 2))) and replica.view.state.hot.partitions.log_start.cells[0],
    lambda replica: (replica.tick(), state_of(replica.view.state)),
]


@pytest.mark.parametrize("event", EVENTS, ids=range(len(EVENTS)))
def test_an_event_sees_what_was_answered(event: Callable[[HarnessReplica], object]) -> None:
    seen = []
    for settles in (False, True):
        _, replica = answered(count=2)
        assert not replica.view.is_settled
        if settles:
            replica.shard.settle()
        seen.append(event(replica))
    assert seen[0] == seen[1]


def test_nothing_is_frozen_before_it_is_settled() -> None:
    _, replica = answered(count=2)
    with pytest.raises(BrokenInvariant, match="must be settled"):
        replica.shard.freeze(replica.shard.header("cluster", bytes(16)))
    replica.shard.settle()
    assert replica.shard.freeze(replica.shard.header("cluster", bytes(16))).generation.batches == 4


def walk(seed: int, *, settles: bool) -> tuple[list[Effect], dict[str, object], World]:
    """Random requests and arrivals; with `settles` nothing is ever left for later."""
    rng, world = random.Random(seed), World(defers=not settles)
    replica = world.add_replica(limits=Limits(group_batches_max=4))
    replica.lead()
    replica.ask(place(count=3))
    sequences: dict[tuple[int, int], int] = {}
    kept: list[CommitFile] = []

    def file(number: int) -> CommitFile:
        rows = []
        for _ in range(rng.randrange(1, 5)):
            partition, producer, count = rng.randrange(3), rng.choice([-1, -1, 7, 8]), rng.randrange(1, 4)
            sequence = sequences.get((partition, producer), 0)
            if producer >= 0 and rng.random() < 0.95:
                sequences[partition, producer] = sequence + count
            rows.append(batch(partition, count, sequence=sequence, producer_id=producer) if producer >= 0 else batch(partition, count))
        return commit(f"{seed} {number}", rows)

    for step in range(60):
        if rng.random() < 0.6:
            commands: list[Command] = []
            for number in range(rng.randrange(1, 4)):
                kept.append(file(10 * step + number))
                others: list[Command] = [rng.choice(kept), list_offsets((0, -1), (1, -3)), delete_records((rng.randrange(3), 1))]
                commands.append(rng.choice([kept[-1], kept[-1], *others]))
            replica.submit(*commands)
        elif rng.random() < 0.2:
            replica.tick(rng.randrange(100))
        else:
            replica.land(min(len(replica.outbox), rng.randrange(4)))
            replica.report(min(len(replica.reports), rng.randrange(4)))
            replica.read(min(len(world.log) - replica.cursor, rng.randrange(3)))
        if settles:
            assert replica.view.is_settled
    world.settle()
    replica.settle()
    assert replica.view.overlay is not None
    assert view_of(replica.view.overlay) == view_of(replica.view.state.hot)
    return replica.effects, state_of(replica.view.state), world


def shown(effects: list[Effect]) -> list[object]:
    """Effects as values: the answers of a block name the block itself."""
    return [(one.token, result_of(one.answer)) if isinstance(one, Reply) and hasattr(one.answer, "result") else one for one in effects]


@pytest.mark.parametrize("seed", range(40))
def test_nothing_depends_on_when_it_is_applied(seed: int) -> None:
    effects, state, world = walk(seed, settles=False)
    same, same_state, same_world = walk(seed, settles=True)
    assert world.log == same_world.log
    assert shown(effects) == shown(same)
    assert state == same_state


def fail_to_apply(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def apply_files(*_: object) -> None:
        raise error

    monkeypatch.setattr(ShardState, "apply_files", apply_files)


@pytest.mark.parametrize(
    "next_event",
    [lambda shard: shard.settle(), lambda shard: shard.feed(Ticked(), 0), lambda shard: shard.feed(Submitted([]), 0)],
    ids=["settle", "tick", "submit"],
)
def test_what_cannot_be_applied_fails_the_replica_and_stays_answered(
    monkeypatch: pytest.MonkeyPatch, next_event: Callable[[Shard], list[Effect]]
) -> None:
    world, replica = deferring()
    first, _ = replica.submit(commit("a", [batch(0, 3)])) + replica.submit(commit("b", [batch(1, 3)]))
    replica.land()
    fail_to_apply(monkeypatch, BrokenInvariant("it does not fit"))
    replica.report(1)
    assert result_of(replica.answers[first]).errors == [0]
    before = replica.view.applied_offset
    effects = next_event(replica.shard)
    assert StateChanged(State.LEADING, State.FAILED, "it does not fit") in effects
    [refused] = [effect for effect in effects if isinstance(effect, Reply)]
    assert result_of(refused.answer).errors == [16]
    assert replica.view.applied_offset == before
    assert replica.shard.is_settled
    assert next_event(replica.shard) == []
    monkeypatch.undo()
    # The answer was true: the log has it.
    other = world.add_replica()
    other.read()
    assert [file.object_key for file in other.view.state.files_after("", 10)] == ["a", "b"]


def test_a_bug_while_applying_reaches_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    _, replica = answered()
    fail_to_apply(monkeypatch, OSError("no memory"))
    with pytest.raises(OSError, match="no memory"):
        replica.shard.settle()
    effects = replica.shard.break_off("the core failed")
    assert StateChanged(State.LEADING, State.FAILED, "the core failed") in effects
    assert replica.shard.is_settled


def test_what_is_answered_before_the_term_ends_is_applied() -> None:
    world, replica = deferring()
    first, second = replica.submit(commit("a", [batch(0, 3)])) + replica.submit(commit("b", [batch(0, 3)]))
    assert replica.term_id is not None
    seqs = [entry.seq for entry in replica.outbox]
    replica.land()
    replica.feed(Delivered(replica.term_id, [Delivery(seqs[0], len(world.log) - 2, None), Delivery(seqs[1], None, "lost")]))
    assert result_of(replica.answers[first]).errors == [0]
    assert result_of(replica.answers[second]).errors == [16]
    assert replica.view.overlay is None
    assert replica.view.state.applied_offset == len(world.log) - 2
    assert replica.cursor == len(world.log) - 1
