"""An explicit-state model of contradictory entries: two replicas of one log that gives out offsets of one partition.

The state of a replica may become one offset off, on its disk while it is down or in memory while it runs. The rules, each of which can
be left out:
- `proof`: damage on a disk is found when the state is loaded, and the replica folds the log from its beginning;
- `suspicion`: a replica calls an entry void only if it was in the log when the replica began to fold that; else it folds the log anew;
- `void`: an entry that gives out another offset than the next one changes nothing; without this rule it is believed.

Run it as a program to see how many states each variant has and which promise it breaks, if any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.models.exploring import explore

ENTRIES_MAX = 4
RESTARTS_MAX = 2
DAMAGES = (-1, 1)


class Rules(NamedTuple):
    proof: bool = True
    suspicion: bool = True
    void: bool = True


class Replica(NamedTuple):
    """`next` is the offset it would give out; `voided` are the entries it found void since it began to fold.

    Its verdicts are certain below `certain_end`.
    """

    applied: int = 0
    next: int = 0
    certain_end: int = 0
    voided: frozenset[int] = frozenset()


class World(NamedTuple):
    """`log` has the offset each entry gives out; `acked` the acknowledged entries; `honest` those of a leader whose state was right."""

    log: tuple[int, ...] = ()
    acked: frozenset[int] = frozenset()
    honest: frozenset[int] = frozenset()
    replicas: tuple[Replica, ...] = (Replica(), Replica())
    leader: int = -1
    restarts: int = 0
    is_damaged: bool = False
    """Whether something is damaged now or was: once."""
    is_memory_good: bool = True


def fold(log: tuple[int, ...], rules: Rules) -> tuple[int, list[bool]]:
    """The next offset, and which entries take effect, for who reads the log from its beginning."""
    due, effective = 0, []
    for offset in log:
        effective.append(offset == due or not rules.void)
        due = offset + 1 if effective[-1] else due
    return due, effective


def steps(world: World, rules: Rules) -> Iterator[World]:
    """Everything that may happen next."""
    for at in range(len(world.replicas)):
        yield from _lead(world, at, rules)
        yield from _read(world, at, rules)
        yield from _restart(world, at, rules)
        yield from _flip(world, at)


def _with(world: World, at: int, replica: Replica) -> World:
    return world._replace(replicas=tuple(replica if place == at else one for place, one in enumerate(world.replicas)))


def _lead(world: World, at: int, rules: Rules) -> Iterator[World]:
    one, end = world.replicas[at], len(world.log)
    if one.applied < end:
        return
    if world.leader < 0:
        yield world._replace(leader=at)
    elif world.leader == at and end < ENTRIES_MAX:
        is_right = one.next == fold(world.log, rules)[0]
        yield _with(world, at, one._replace(applied=end + 1, next=one.next + 1))._replace(
            log=(*world.log, one.next),
            acked=world.acked | {end},
            honest=world.honest | {end} if is_right else world.honest,
        )


def _read(world: World, at: int, rules: Rules) -> Iterator[World]:
    one = world.replicas[at]
    if one.applied == len(world.log) or world.leader == at:
        return
    offset = world.log[one.applied]
    if offset == one.next or not rules.void:
        yield _with(world, at, one._replace(applied=one.applied + 1, next=offset + 1))
        return
    if one.applied < one.certain_end or not rules.suspicion:
        judged = one._replace(applied=one.applied + 1, voided=one.voided | {one.applied})
    else:
        judged = _anew(world)
    world = _with(world, at, judged)
    if world.leader >= 0:
        # The leader is told: its term ends, and its state is built anew.
        world = _with(world, world.leader, _anew(world))._replace(leader=-1)
    yield world


def _anew(world: World) -> Replica:
    return Replica(certain_end=len(world.log))


def _restart(world: World, at: int, rules: Rules) -> Iterator[World]:
    if world.restarts == RESTARTS_MAX:
        return
    world = world._replace(restarts=world.restarts + 1, leader=-1 if world.leader == at else world.leader)
    one = world.replicas[at]._replace(certain_end=0)
    yield _with(world, at, one)
    if not world.is_damaged:
        for shift in DAMAGES:
            found = _anew(world) if rules.proof else one._replace(next=one.next + shift)
            yield _with(world, at, found)._replace(is_damaged=True)


def _flip(world: World, at: int) -> Iterator[World]:
    """Damage in memory: no proof at load finds it."""
    one = world.replicas[at]
    if not world.is_damaged and one.applied:
        for shift in DAMAGES:
            yield _with(world, at, one._replace(next=one.next + shift))._replace(is_damaged=True, is_memory_good=False)


def broken(world: World, rules: Rules) -> str:
    """The promise that a state breaks, empty when it breaks none."""
    _, effective = fold(world.log, rules)
    given = [offset for offset, counts in zip(world.log, effective, strict=True) if counts]
    if len(set(given)) < len(given):
        return "an offset is given out twice"
    if any(not effective[entry] for entry in (world.acked if rules.proof and world.is_memory_good else world.honest)):
        return "an acknowledged commit is lost"
    for one in world.replicas:
        if any(effective[entry] for entry in one.voided):
            return "replicas differ about an entry"
        if not world.is_damaged and one.next != fold(world.log[: one.applied], rules)[0]:
            return "a state is not what the log says"
    return ""


VARIANTS = {
    "all rules": Rules(),
    "damage is not found at load": Rules(proof=False),
    "nor is a loaded state suspected": Rules(proof=False, suspicion=False),
    "nor are contradictions void": Rules(proof=False, void=False),
}

if __name__ == "__main__":
    for name, variant in VARIANTS.items():
        states, promise, world = explore(World(), partial(steps, rules=variant), partial(broken, rules=variant))
        sys.stdout.write(f"{name}: {states} states, {promise or 'every promise holds'}{f' in {world}' if world else ''}\n")
