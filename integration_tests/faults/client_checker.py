"""Judges what clients of others did under faults: nothing acknowledged is lost, doubled or moved, and no member of a group skips a record.

    violations = check_clients(history)

Each rule is a function of the whole history; an empty list means that the clients may have worked with a cluster that never failed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from integration_tests.faults.client_history import (
    UNTOLD_OFFSET,
    Assigned,
    ClientHistory,
    Committed,
    Committing,
    Consumed,
    Member,
    RecordPlace,
    Revoked,
)


def check_clients(history: ClientHistory) -> list[str]:
    """Return every contradiction found; none means the history is good."""
    return [text for rule in RULES for text in rule(history)]


def clients_see_no_error(history: ClientHistory) -> Iterator[str]:
    """Every record was acknowledged in the end, and no member was told of an error."""
    for writer in history.writers.values():
        yield from (f"{writer.name}: {text}" for text in writer.errors)
        if writer.sent is None:
            yield f"{writer.name} did not come to its end"
        elif missing := set(range(writer.sent)) - {one.number for one in writer.acknowledged}:
            yield f"{writer.name}: {len(missing)} of {writer.sent} records have no outcome, the first is {min(missing)}"
    for member in history.members.values():
        yield from (f"{member.name} was told of an error: {text}" for text in member.errors)


def acknowledged_records_are_there(history: ClientHistory) -> Iterator[str]:
    """Every acknowledged record is where its writer was told, or somewhere in the partition if it was not, and was acknowledged once."""
    stored = dict(history.stored)
    anywhere = {(place.partition, value) for place, value in history.stored}
    for writer in history.writers.values():
        for number, count in Counter(one.number for one in writer.acknowledged).items():
            if count > 1:
                yield f"{writer.name}: record {number} was acknowledged {count} times"
        for one in writer.acknowledged:
            value = f"{writer.name} {one.number}"
            if one.place.offset == UNTOLD_OFFSET:
                if (one.place.partition, value) not in anywhere:
                    yield f"{value!r} was acknowledged in partition {one.place.partition}, where it is not"
            elif (found := stored.get(one.place)) != value:
                yield f"{value!r} was acknowledged at {_text(one.place)}, where {'nothing' if found is None else repr(found)} is stored"


def records_are_stored_once(history: ClientHistory) -> Iterator[str]:
    """No record is stored twice, and none that was never sent."""
    for value, count in Counter(value for _, value in history.stored).items():
        if count > 1:
            yield f"{value!r} is stored {count} times"
        name, _, number = value.rpartition(" ")
        writer = history.writers.get(name)
        if writer is None or (writer.sent is not None and not 0 <= int(number) < writer.sent):
            yield f"{value!r} is stored and was never sent"


def order_is_kept(history: ClientHistory) -> Iterator[str]:
    """Records of a writer are in a partition in the order in which they were sent, and offsets have no gap."""
    last: dict[tuple[int, str], int] = {}
    ends: dict[int, int] = defaultdict(int)
    for place, value in sorted(history.stored):
        if place.offset != ends[place.partition]:
            yield f"partition {place.partition} has no record between {ends[place.partition]} and {place.offset}"
        ends[place.partition] = place.offset + 1
        name, _, number = value.rpartition(" ")
        if int(number) <= last.get((place.partition, name), -1):
            yield f"{value!r} at {_text(place)} comes after {name} {last[place.partition, name]}"
        last[place.partition, name] = int(number)


def members_are_given_what_is_stored(history: ClientHistory) -> Iterator[str]:
    """What a member is given is what is stored there, and a group is given everything."""
    stored = dict(history.stored)
    for member in history.members.values():
        for step in member.steps:
            if isinstance(step, Consumed) and stored.get(step.place) != step.value:
                yield f"{member.name} was given {step.value!r} at {_text(step.place)}, where {stored.get(step.place)!r} is stored"
    for group, given in history.given.items():
        if missing := set(stored) - given:
            yield f"group {group} was not given {len(missing)} records, the first is {_text(min(missing))}"


@dataclass(frozen=True, slots=True)
class Offsets:
    """The committed offsets of a group, as far as its members know."""

    steps: list[Committing | Committed]

    @classmethod
    def of(cls, history: ClientHistory, group: str) -> Offsets:
        """Collect them over all members."""
        return cls(
            [
                step
                for member in history.members.values()
                if member.group == group
                for step in member.steps
                if isinstance(step, Committing | Committed)
            ]
        )

    def greatest(self, partition: int, until_s: float) -> int:
        """The greatest offset that may have been committed until then."""
        return max((one.offsets.get(partition, 0) for one in self.steps if one.at_s <= until_s), default=0)

    def known(self, partition: int, until_s: float) -> int:
        """The greatest offset whose commit was acknowledged until then."""
        return max((one.offsets.get(partition, 0) for one in self.steps if isinstance(one, Committed) and one.at_s <= until_s), default=0)


def members_skip_nothing(history: ClientHistory) -> Iterator[str]:
    """A member goes on record by record; it begins where its group had committed, no later and, of what was acknowledged, no earlier."""
    for group in history.given:
        offsets = Offsets.of(history, group)
        for member in history.members.values():
            if member.group == group:
                yield from _skips(member, offsets)


def _skips(member: Member, offsets: Offsets) -> Iterator[str]:
    assigned_s: dict[int, float] = {}
    next_offsets: dict[int, int] = {}
    for step in member.steps:
        if isinstance(step, Assigned):
            for partition in step.partitions:
                assigned_s[partition] = step.at_s
                next_offsets.pop(partition, None)
        elif isinstance(step, Revoked):
            for partition in step.partitions:
                assigned_s.pop(partition, None)
                next_offsets.pop(partition, None)
        elif isinstance(step, Consumed):
            partition, offset = step.place
            if partition not in assigned_s:
                yield f"{member.name} was given {_text(step.place)} though it did not have the partition"
            elif partition in next_offsets:
                if offset != next_offsets[partition]:
                    yield f"{member.name} was given {_text(step.place)} after {partition}:{next_offsets[partition] - 1}"
            else:
                low, high = offsets.known(partition, assigned_s[partition]), offsets.greatest(partition, step.at_s)
                if not low <= offset <= high:
                    yield f"{member.name} began at {_text(step.place)}, its group had committed {low} to {high}"
            next_offsets[partition] = offset + 1


def shadows_are_empty(history: ClientHistory) -> Iterator[str]:
    """No record of a diskless topic reached a broker."""
    for partition, end in history.shadow_ends.items():
        if end:
            yield f"the shadow's partition {partition} has had {end} records"


def _text(place: RecordPlace) -> str:
    return f"{place.partition}:{place.offset}"


RULES: Final[tuple[Callable[[ClientHistory], Iterator[str]], ...]] = (
    clients_see_no_error,
    acknowledged_records_are_there,
    records_are_stored_once,
    order_is_kept,
    members_are_given_what_is_stored,
    members_skip_nothing,
    shadows_are_empty,
)
