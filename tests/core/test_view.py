"""A view reads a shard at any moment and changes nothing: the same events give the same effects, whoever looks in between."""

from __future__ import annotations

import random

import pytest

from coordinator.core.commands import Command, CommitFile, FetchPoint
from coordinator.core.events import Effect
from coordinator.core.limits import Limits
from coordinator.core.reads.queries import FetchBudget
from coordinator.core.request import Reply
from coordinator.core.view import ShardView
from simulation.fakes.shard_harness import World
from tests.core.build import TOPIC, batch, commit, delete_records, leading, list_offsets, place, result_of, state_of


def read(view: ShardView, rng: random.Random) -> None:
    """Ask a view for everything it has, and for some batches and files."""
    for name in dir(ShardView):
        if isinstance(getattr(ShardView, name), property):
            getattr(view, name)
    view.has_unwritten()
    view.oldest_unacknowledged_ms(10**13)
    for partition in range(4):
        known = view.bounds(TOPIC, partition)
        assert view.has_partition(TOPIC, partition) == (known is not None)
        offset = rng.randrange(known[0], known[1] + 2) if known is not None else 0
        point = FetchPoint(topic_id=TOPIC, partition=partition, offset=offset, max_bytes=rng.randrange(100))
        view.find_batches(point, FetchBudget(1000, 0))
        view.past_the_end(point, is_certain=rng.random() < 0.5)
    view.files_after(rng.choice(["", "3"]), rng.randrange(1, 20))
    view.tombstones_after(rng.choice(["", "3"]), rng.randrange(1, 20))
    view.file(str(rng.randrange(80)))


def live(seed: int, *, reads_share: float) -> tuple[list[object], object, World]:
    """A random life of a leader and a follower; before and after every event they are read as often as said."""
    rng, readers_rng, world = random.Random(seed), random.Random(f"reader {seed}"), World(defers=True)
    leader = world.add_replica(limits=Limits(group_batches_max=4))
    follower = world.add_replica()
    leader.lead()
    leader.ask(place(count=3))
    kept: list[CommitFile] = []
    for step in range(80):
        chance = rng.random()
        if chance < 0.5:
            kept.append(commit(f"{step}", [batch(rng.randrange(3), rng.randrange(1, 4)) for _ in range(rng.randrange(1, 4))]))
            others: list[Command] = [rng.choice(kept), list_offsets((0, -1), (1, -3)), delete_records((rng.randrange(3), 1))]
            leader.submit(kept[-1], rng.choice([kept[-1], *others]))
        elif chance < 0.6:
            leader.tick(rng.randrange(100))
        else:
            leader.land(min(len(leader.outbox), rng.randrange(4)))
            leader.report(min(len(leader.reports), rng.randrange(4)))
            leader.read(min(len(world.log) - leader.cursor, rng.randrange(3)))
            follower.read(min(len(world.log) - follower.cursor, rng.randrange(3)))
        for replica in world.replicas:
            if readers_rng.random() < reads_share:
                read(replica.view, readers_rng)
    world.settle()
    for replica in world.replicas:
        replica.settle()
    effects = [shown(effect) for replica in world.replicas for effect in replica.effects]
    return effects, [state_of(replica.view.state) for replica in world.replicas], world


def shown(effect: Effect) -> object:
    """An effect as a value: the answer of a block names the block itself."""
    return (effect.token, result_of(effect.answer)) if isinstance(effect, Reply) and hasattr(effect.answer, "result") else effect


@pytest.mark.parametrize("seed", range(30))
def test_reads_thrown_in_at_random_change_no_effect(seed: int) -> None:
    effects, states, world = live(seed, reads_share=0.0)
    assert len(effects) > 50
    for share in (0.3, 1.0):
        others, other_states, other_world = live(seed, reads_share=share)
        assert others == effects
        assert other_states == states
        assert other_world.log == world.log


def test_a_view_of_what_is_deferred_shows_what_is_applied() -> None:
    world, replica = leading()
    world.defers = True
    replica.submit(commit("a", [batch(0, 3)]))
    replica.land()
    replica.report()
    assert not replica.view.is_settled
    assert replica.view.bounds(TOPIC, 0) == (0, 0)
    assert replica.view.commit_counts.commits == 0
    assert not replica.view.is_settled
    replica.settle()
    assert replica.view.bounds(TOPIC, 0) == (0, 3)
    assert replica.view.commit_counts.commits == 1
    assert [file.object_key for file in replica.view.files_after("", 10)] == ["a"]
