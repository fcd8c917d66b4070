"""Reports that say that an entry was delivered, but not where it stands, or too far on: the reader tells, and it alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import pytest

from coordinator.core.commands import Barrier, Command
from coordinator.core.events import Delivered, Delivery, SchemaLevel, StateChanged
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.kafka.errors import ErrorCode
from records.codec import encode_entry
from records.model import NoOp, TransactionBegan
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import batch, commit, delete_records, place, result_of, state_of
from tests.core.shard_worlds import claim, error_of, own_key

PARTITIONS = 9
SMALL = Limits(entry_bytes_max=160)
"""A file of one batch fits, and seven deletions; files are written one by one, because one might be too large."""

Work = Callable[[], Sequence[Command]]

WORK: dict[str, tuple[Work, int, Limits]] = {
    "a file": (lambda: [commit("file", [batch(1, 2)])], 1, Limits()),
    "many files": (lambda: [commit(f"file-{number}", [batch(number % PARTITIONS, 2)]) for number in range(20)], 20, Limits()),
    "a transaction": (lambda: [delete_records(*((partition, 2) for partition in range(PARTITIONS)))], 4, SMALL),
    "a file and a transaction": (
        lambda: [commit("file", [batch(1, 2)]), delete_records(*((partition, 2) for partition in range(PARTITIONS)))],
        5,
        SMALL,
    ),
    "a barrier": (lambda: [Barrier()], 1, Limits()),
}
"""Requests, how many entries they need, and with which limits."""

TELLINGS: dict[str, Callable[[int, int], int | None]] = {
    "no offset": lambda offset, place: None,
    "further on": lambda offset, place: offset + 1,
    "far on": lambda offset, place: offset + 1_000,
    "some without": lambda offset, place: offset if place % 3 else None,
    "now this, now that": lambda offset, place: (None, offset, offset + 2)[place % 3],
}
"""What a report says instead of the offset, by the place of its entry."""


def report_first(replica: HarnessReplica) -> None:
    replica.report()
    replica.read()


def reader_first(replica: HarnessReplica) -> None:
    replica.read()
    replica.report()


def in_turns(replica: HarnessReplica) -> None:
    """One report, then two entries, and so on."""
    while replica.reports or replica.cursor < len(replica.world.log):
        replica.report(min(1, len(replica.reports)))
        replica.read(2)


def entry_by_entry(replica: HarnessReplica) -> None:
    """One entry, then two reports, and so on."""
    while replica.reports or replica.cursor < len(replica.world.log):
        replica.read(1)
        replica.report(min(2, len(replica.reports)))


ORDERS = [report_first, reader_first, in_turns, entry_by_entry]


def two(limits: Limits | None = None) -> tuple[World, HarnessReplica, HarnessReplica]:
    """The first of two replicas leads a topic whose partitions have three records each; both have read everything."""
    world = World()
    first, second = world.add_replica(limits=limits), world.add_replica(limits=limits)
    for replica in (first, second):
        replica.feed(SchemaLevel(2))
    first.lead()
    first.ask(place(count=PARTITIONS))
    first.ask(*(commit(f"before-{partition}", [batch(partition, 3)]) for partition in range(PARTITIONS)))
    return world, first, second


def tell(replica: HarnessReplica, telling: Callable[[int, int], int | None]) -> None:
    """Change what the reports under way say."""
    replica.reports = deque(report._replace(offset=telling(report.offset or 0, at)) for at, report in enumerate(replica.reports))


def last_reason(replica: HarnessReplica) -> str:
    return next(
        effect.reason for effect in reversed(replica.effects) if isinstance(effect, StateChanged) and effect.before is State.LEADING
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("voids", [(), (0,), (1, 1, 3)], ids=["nothing void", "void before", "void between"])
def test_what_the_reader_saw_is_acknowledged_where_it_stands(
    voids: tuple[int, ...], work: str, telling: str, order: Callable[[HarnessReplica], None]
) -> None:
    commands, count, limits = WORK[work]
    world, first, second = two(limits)
    tokens = first.submit(*commands())
    for at in range(count):
        for _ in range(voids.count(at)):
            world.append(None, b"stray")
        first.land(1)
    assert not first.outbox
    tell(first, TELLINGS[telling])
    order(first)
    assert [error_of(first.answers[token]) for token in tokens] == [ErrorCode.NONE] * len(tokens)
    assert first.view.term_ends == {}
    second.read()
    assert state_of(first.view.state) == state_of(second.view.state)
    assert first.view.last_entry == second.view.last_entry == world.log[-1]
    assert first.view.fence == second.view.fence
    assert result_of(first.ask(commit("next", [batch(0)]))[0]).base_offsets[0] >= 3


@pytest.mark.parametrize("telling", ["no offset", "far on"])
@pytest.mark.parametrize("work", WORK)
def test_nothing_is_acknowledged_before_its_last_entry_was_read(work: str, telling: str) -> None:
    commands, count, limits = WORK[work]
    _world, first, _ = two(limits)
    tokens = first.submit(*commands())
    first.land()
    tell(first, TELLINGS[telling])
    first.report()
    first.read(count - 1)
    assert tokens[-1] not in first.answers
    first.read(1)
    assert error_of(first.answers[tokens[-1]]) == ErrorCode.NONE


def test_entries_behind_one_whose_place_is_not_told_wait_for_it() -> None:
    _world, first, _ = two()
    tokens = first.submit(commit("a", [batch()])) + first.submit(commit("b", [batch()]))
    first.land()
    tell(first, lambda offset, at: offset if at else None)
    first.report()
    assert first.answers.keys().isdisjoint(tokens)
    first.read(1)
    assert [error_of(first.answers[token]) for token in tokens] == [ErrorCode.NONE] * 2


@pytest.mark.parametrize("telling", ["no offset", "far on"])
def test_an_entry_that_is_never_read_ends_the_term_in_time(telling: str) -> None:
    _world, first, _ = two()
    [token] = first.submit(commit("a", [batch()]), timeout_ms=1_000_000)
    first.land()
    tell(first, TELLINGS[telling])
    first.report()
    first.tick(45_000)
    assert first.view.phase is State.LEADING
    first.tick(1)
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR
    assert first.view.term_ends == {"timeout": 1}


@pytest.mark.parametrize("order", ORDERS)
def test_a_report_before_the_place_that_the_reader_saw_ends_the_term(order: Callable[[HarnessReplica], None]) -> None:
    world, first, _ = two()
    [token] = first.submit(commit("a", [batch()]))
    world.append(None, b"stray")
    world.append(None, b"stray")
    first.land()
    tell(first, lambda offset, at: offset - 1)
    order(first)
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR
    assert first.view.term_ends == {"misplaced": 1}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("telling", ["no offset", "far on"])
def test_an_entry_behind_a_foreign_claim_is_not_acknowledged(telling: str, order: Callable[[HarnessReplica], None]) -> None:
    world, first, _ = two()
    [token] = first.submit(commit("a", [batch()]))
    claim(world, first.view.fence.epoch + 1, 77)
    first.land()
    tell(first, TELLINGS[telling])
    order(first)
    assert error_of(first.answers[token]) == ErrorCode.NOT_COORDINATOR
    assert first.view.term_ends == {"foreign_claim": 1}
    assert first.view.state.find_file("a") is None


def test_a_late_failure_behind_a_report_without_an_offset_ends_the_term() -> None:
    _world, first, _ = two()
    tokens = first.submit(commit("a", [batch()])) + first.submit(commit("b", [batch()]))
    first.land()
    seq = first.reports[0].seq
    first.read()
    first.feed(Delivered(first.term_id or 0, [Delivery(seq, None, None), Delivery(seq + 1, None, "timed out")]))
    assert [error_of(first.answers[token]) for token in tokens] == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]
    assert first.view.term_ends == {"delivery": 1}


# ---- an entry with an own key that somebody else wrote

FORGED: dict[str, bytes | None] = {
    "another record": encode_entry([NoOp()]),
    "a transaction": encode_entry([TransactionBegan(name="forged", num_chunks=1)], 2),
    "garbage": b"?",
    "empty": b"",
    "nothing": None,
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("telling", ["no offset", "now this, now that", "as it is"])
@pytest.mark.parametrize("value", FORGED)
@pytest.mark.parametrize("work", ["a file", "many files", "a transaction"])
def test_a_forged_entry_acknowledges_nothing_and_ends_the_term(
    work: str, value: str, telling: str, order: Callable[[HarnessReplica], None]
) -> None:
    commands, count, limits = WORK[work]
    world, first, _ = two(limits)
    tokens = first.submit(*commands())
    seq = first.outbox[0].seq
    first.land(count // 2)
    offset = world.append(own_key(first, seq + count // 2), FORGED[value])
    first.land()
    if telling != "as it is":
        tell(first, TELLINGS[telling])
    order(first)
    assert {error_of(first.answers[token]) for token in tokens} == {ErrorCode.NOT_COORDINATOR}
    assert first.view.term_ends == {"misplaced": 1}
    assert f"entry {seq + count // 2} at offset {offset} has the key but not the value" in last_reason(first)
    assert first.view.state.find_file("file") is None


@pytest.mark.parametrize("order", ORDERS)
def test_what_stands_before_a_forged_entry_is_acknowledged_first(order: Callable[[HarnessReplica], None]) -> None:
    world, first, _ = two()
    tokens = first.submit(commit("a", [batch()])) + first.submit(commit("b", [batch()]))
    seq = first.outbox[0].seq
    first.land(1)
    tell(first, TELLINGS["no offset"])
    world.append(own_key(first, seq + 1), b"?")
    first.land()
    order(first)
    found = [error_of(first.answers[token]) for token in tokens]
    # One that was read but is not reported yet is for the next term to find.
    assert found == [ErrorCode.NOT_COORDINATOR if order is reader_first else ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]
    assert first.view.term_ends == {"misplaced": 1}


@pytest.mark.parametrize("value", FORGED)
def test_an_entry_that_this_leader_has_not_written_yet_ends_the_term(value: str) -> None:
    world, first, _ = two()
    world.append(own_key(first, first.view.fence.seq + 1), FORGED[value])
    first.read()
    assert first.view.term_ends == {"misplaced": 1}


@pytest.mark.parametrize("order", [report_first, reader_first])
def test_a_copy_of_an_entry_is_as_good_as_the_entry(order: Callable[[HarnessReplica], None]) -> None:
    world, first, second = two()
    [token] = first.submit(commit("a", [batch()]))
    copied = first.outbox[0]
    world.append(copied.key, copied.value)
    first.land()
    order(first)
    assert error_of(first.answers[token]) == ErrorCode.NONE
    second.read()
    assert state_of(first.view.state) == state_of(second.view.state)
