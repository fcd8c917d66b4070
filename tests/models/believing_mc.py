"""An explicit-state model of assignments: three processes of a group, one metadata partition, and its log.

The plan may move the partition to any of them at any time. A process believes what it heard last, through rounds, for as long as it likes:
nothing tells it that the group is in another generation. The rules, each of which can be left out:
- `proof`: before a claim the process asks whether it is in the current generation, which has the partition with it;
- `again`: a foreign claim that it reads voids the proof;
- `successor`: a claim is in force only if its epoch is the successor of the one in force (`records.log`);
- `offset`: a leader believes that an entry is acknowledged only if nothing foreign came between its claim and the entry;
- `kept`: while a process that was told to claim has not claimed, the plan leaves the partition with it (`core.assignor.plan`).

Run it as a program to see how many states each variant has and which promise it breaks, if any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.models.exploring import explore

PROCESSES = 3
MOVES_MAX = 2
LOG_MAX = 3
FOLLOWS, LEADS = "follows", "leads"


class Rules(NamedTuple):
    proof: bool = True
    again: bool = True
    successor: bool = True
    offset: bool = True
    kept: bool = True


class Entry(NamedTuple):
    """`owned` is, for a claim, the generation in which the group proved the partition to be with its process."""

    process: int
    epoch: int
    is_claim: bool
    owned: int = 0


class Process(NamedTuple):
    """`heard` is the generation of the assignment it believes, `proven` that of its proof, 0 for none."""

    heard: int = 0
    believes: bool = False
    proven: int = 0
    phase: str = FOLLOWS
    read: int = 0
    epoch: int = 0
    """Of the claim in force, as far as it has read; of its own while it leads."""


class World(NamedTuple):
    """`acked` are the places of the entries that their leaders took for acknowledged; `moves` counts rounds that moved the partition."""

    log: tuple[Entry, ...] = ()
    acked: frozenset[int] = frozenset()
    processes: tuple[Process, ...] = (Process(),) * PROCESSES
    generation: int = 1
    owner: int = 0
    moves: int = 0
    is_taken_back: bool = False


def in_force(log: tuple[Entry, ...], rules: Rules) -> list[Entry | None]:
    """The claim in force behind each entry of the log."""
    found: list[Entry | None] = []
    now: Entry | None = None
    for entry in log:
        if entry.is_claim and (not rules.successor or entry.epoch == (0 if now is None else now.epoch) + 1):
            now = entry
        found.append(now)
    return found


def steps(world: World, rules: Rules) -> Iterator[World]:
    """Everything that may happen next."""
    yield from _move(world, rules)
    for at in range(PROCESSES):
        one = world.processes[at]
        if one.heard != world.generation:
            yield _with(world, at, one._replace(heard=world.generation, believes=world.owner == at, proven=0))
        yield from _read(world, at, rules)
        yield from _lead(world, at, rules)


def _with(world: World, at: int, process: Process) -> World:
    return world._replace(processes=tuple(process if place == at else one for place, one in enumerate(world.processes)))


def _move(world: World, rules: Rules) -> Iterator[World]:
    """A round; a member is killed and comes back, is added, drains: whatever makes the plan move the partition."""
    if world.moves == MOVES_MAX:
        return
    claiming = world.processes[world.owner].phase != LEADS
    before = next((at for at in range(PROCESSES) if world.processes[at].phase == LEADS), None)
    for owner in range(PROCESSES):
        if owner == world.owner or (rules.kept and claiming and owner == before):
            continue
        is_back = claiming and owner == before
        yield world._replace(
            generation=world.generation + 1, owner=owner, moves=world.moves + 1, is_taken_back=world.is_taken_back or is_back
        )


def _read(world: World, at: int, rules: Rules) -> Iterator[World]:
    one = world.processes[at]
    if one.read == len(world.log):
        return
    entry, read = world.log[one.read], one.read + 1
    if not entry.is_claim or in_force(world.log[:read], rules)[-1] is not entry:
        yield _with(world, at, one._replace(read=read))
    elif entry.process == at:
        yield _with(world, at, one._replace(read=read, phase=LEADS, epoch=entry.epoch))
    else:
        proven = 0 if rules.again else one.proven
        yield _with(world, at, one._replace(read=read, phase=FOLLOWS, epoch=entry.epoch, proven=proven))


def _lead(world: World, at: int, rules: Rules) -> Iterator[World]:
    one, end = world.processes[at], len(world.log)
    if one.phase == FOLLOWS and one.believes and not one.proven and (not rules.proof or (one.heard, at) == (world.generation, world.owner)):
        yield _with(world, at, one._replace(proven=one.heard))
    if end == LOG_MAX:
        return
    is_claiming = any(entry.process == at and entry.is_claim for entry in world.log[one.read :])
    if one.phase == FOLLOWS and one.proven and not is_claiming:
        # It read to the end of the log as it was; others may have claimed meanwhile.
        yield world._replace(log=(*world.log, Entry(at, one.epoch + 1, is_claim=True, owned=one.proven)))
    if one.phase == LEADS:
        claim_at = next(place for place in range(end - 1, -1, -1) if world.log[place].is_claim and world.log[place].process == at)
        is_alone = all(entry.process == at for entry in world.log[claim_at:])
        acked = world.acked | {end} if is_alone or not rules.offset else world.acked
        yield world._replace(log=(*world.log, Entry(at, one.epoch, is_claim=False)), acked=acked)


def broken(world: World, rules: Rules) -> str:
    """The promise that a state breaks, empty when it breaks none."""
    claims = in_force(world.log, rules)
    for place in world.acked:
        entry, claim = world.log[place], claims[place]
        if claim is None or (claim.process, claim.epoch) != (entry.process, entry.epoch):
            return "an acknowledged entry is of a term that is over"
    former: Entry | None = None
    epochs: list[int] = []
    for claim in claims:
        if claim is not None and claim is not former:
            epochs.append(claim.epoch)
            if former is not None and claim.owned < former.owned:
                return "who was replaced takes the term from its successor"
            former = claim
    if len(set(epochs)) < len(epochs):
        return "two terms have one epoch"
    if world.is_taken_back:
        return "a round takes a claim under way back"
    return ""


VARIANTS = {
    "all rules": Rules(),
    "no proof before a claim": Rules(proof=False),
    "a proof holds through a foreign claim": Rules(again=False),
    "any claim is in force": Rules(successor=False),
    "any own entry is acknowledged": Rules(offset=False),
    "the plan prefers who leads to who is to claim": Rules(kept=False),
}

if __name__ == "__main__":
    for name, variant in VARIANTS.items():
        states, promise, found = explore(World(), partial(steps, rules=variant), partial(broken, rules=variant))
        sys.stdout.write(f"{name}: {states} states, {promise or 'every promise holds'}{f' in {found}' if found else ''}\n")
