"""A report of entries that travelled together acknowledges what the reports of its entries would, when they would."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from coordinator.core.commands import Barrier
from coordinator.core.events import Delivered, Delivery
from coordinator.core.leadership.term import PendingEntry, Term, TermOver
from coordinator.core.log_entry import ReadEntry
from coordinator.kafka.errors import ErrorCode
from simulation.fakes.reports import joined, noted_in
from simulation.fakes.shard_harness import World
from tests.core.shard_worlds import error_of

CLAIM_OFFSET = 4
ENTRIES = 40

Acknowledged = list[tuple[int, int, list[int]]]


@dataclass
class Course:
    """What becomes of the entries of one term: where they stand, and reports and reading in the order they come."""

    sizes: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    steps: list[list[Delivery] | list[ReadEntry]] = field(default_factory=list)


def course(rng: random.Random) -> Course:
    """Void entries between the own ones, places that are not told or told too far on, now and then a wrong one."""
    made = Course()
    while sum(made.sizes) < ENTRIES:
        made.sizes.append(rng.choice((1, 1, 2, 7)))
    total = sum(made.sizes)
    at, voids = CLAIM_OFFSET, rng.choice((0.0, 0.1))
    for _ in range(total):
        at += 1 + (rng.random() < voids) * rng.randint(1, 3)
        made.offsets.append(at)
    told: list[int | None] = list(made.offsets)
    for _ in range(rng.randint(0, 3)):
        first = rng.randrange(total)
        how = rng.choice((None, 1, 1_000, -1) if rng.random() < 0.2 else (None, 1, 1_000))
        for place in range(first, min(total, first + rng.randint(1, 12))):
            told[place] = None if how is None else made.offsets[place] + how
    reports = [Delivery(seq, offset, None) for seq, offset in enumerate(told, 1)]
    if rng.random() < 0.2:
        reports[rng.randrange(total)] = Delivery(rng.randrange(total), None, "lost")
    entries = [ReadEntry(offset, 0, b"", value_of(seq)) for seq, offset in enumerate(made.offsets, 1)]
    while reports or entries:
        if reports and (not entries or rng.random() < 0.5):
            count = rng.randint(1, 15)
            made.steps.append(reports[:count])
            del reports[:count]
        else:
            count = 1
            while count < min(len(entries), 10) and entries[count].offset == entries[count - 1].offset + 1:
                count += 1
            made.steps.append(entries[:count])
            del entries[:count]
    return made


def value_of(seq: int) -> bytes:
    return str(seq).encode()


def live(made: Course, telling: Callable[[list[Delivery]], Sequence[Delivery]]) -> list[Acknowledged | str]:
    """What every step acknowledges, and why the term ends, if it does."""
    term, seq, seen_seq = Term(epoch=1, term_id=7, claim_offset=CLAIM_OFFSET), 0, 0
    for size in made.sizes:
        values = [value_of(seq + place) for place in range(1, size + 1)]
        seq += size
        term.add(PendingEntry(seq, [], values, 0))
    story: list[Acknowledged | str] = []
    for step in made.steps:
        if isinstance(step[0], Delivery):
            acknowledged = term.reported(telling([item for item in step if isinstance(item, Delivery)]))
        else:
            seen_seq += len(step)
            acknowledged = term.seen(seen_seq, [item for item in step if isinstance(item, ReadEntry)])
        new: Acknowledged = []
        try:
            for entry, offset in acknowledged:
                new.append((entry.seq, offset, list(entry.offsets)))
        except TermOver as over:
            return [*story, new, f"{over.cause}: {over}"]
        story += [new, f"settled up to {term.settled_seq}"]
    assert not term.in_flight
    return story


@pytest.mark.parametrize("seed", range(300))
def test_joined_reports_say_what_single_ones_say(seed: int) -> None:
    made = course(random.Random(seed))
    assert live(made, joined) == live(made, lambda reports: reports)


def test_joining_loses_nothing() -> None:
    reports = [Delivery(1, 5, None), Delivery(2, 6, None), Delivery(3, 8, None), Delivery(4, None, None), Delivery(5, None, None)]
    assert joined(reports) == [Delivery(2, 6, None, 2), Delivery(3, 8, None), Delivery(5, None, None, 2)]
    again: list[Delivery] = []
    noted_in(again)(joined(reports))
    assert again == reports


def test_the_report_of_a_claim_may_be_that_of_entries_too() -> None:
    world = World()
    leader = world.add_replica()
    leader.lead()
    term_id = leader.term_id or 0
    [token] = leader.submit(Barrier())
    leader.land()
    leader.reports.clear()
    leader.feed(Delivered(term_id, [Delivery(1, len(world.log) - 1, None, 2)]))
    assert error_of(leader.answers[token]) == ErrorCode.NONE
    assert leader.view.term_ends == {}


def test_a_report_with_a_key_that_is_not_the_terms_own_ends_it() -> None:
    world = World()
    leader = world.add_replica()
    leader.lead()
    leader.feed(Delivered(leader.term_id or 0, [Delivery(-1, len(world.log), None)]))
    assert leader.view.term_ends == {"misplaced": 1}
