"""What clients of others told while they worked under faults, and what is left of their records: the input of `client_checker`.

The programs of `integration_tests/gateway/strangers` print rows, which are kept as they came; a file of them is a recording. Times are
those of the machine's wall clock: no fault moves it for clients.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

Row = Mapping[str, Any]
"""JSON of a program: parsed here and nowhere else."""


UNTOLD_OFFSET: Final = -1
"""That of a record whose library knows that it was written and not where: a later batch was acknowledged, and this one's answer lost."""


class RecordPlace(NamedTuple):
    """Where a record is."""

    partition: int
    offset: int


class Acknowledged(NamedTuple):
    """A record of a writer, and where it was told to be."""

    at_s: float
    number: int
    place: RecordPlace


class Consumed(NamedTuple):
    """A record that a member was given."""

    at_s: float
    place: RecordPlace
    value: str


class Assigned(NamedTuple):
    """Partitions that a member got."""

    at_s: float
    partitions: tuple[int, ...]


class Revoked(NamedTuple):
    """Partitions that a member lost, or gave back."""

    at_s: float
    partitions: tuple[int, ...]


class Committing(NamedTuple):
    """A commit that may have an effect from here on: next offsets by partition."""

    at_s: float
    offsets: Mapping[int, int]


class Committed(NamedTuple):
    """A commit that was acknowledged."""

    at_s: float
    offsets: Mapping[int, int]


Step = Consumed | Assigned | Revoked | Committing | Committed


@dataclass(slots=True)
class Writer:
    """What an idempotent producer sent: record `n` is `NAME n`."""

    name: str
    acknowledged: list[Acknowledged] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    sent: int | None = None
    """Told at its end."""

    def take(self, row: Row) -> None:
        """Take a row of the program."""
        if "sent" in row:
            self.sent = row["sent"]
        elif "error" in row:
            self.errors.append(f"record {row['number']}: {row['error']}")
        else:
            offset = UNTOLD_OFFSET if row["offset"] is None else row["offset"]
            self.acknowledged.append(Acknowledged(row["at"], row["number"], RecordPlace(row["partition"], offset)))


@dataclass(slots=True)
class Member:
    """What one process of a group did, in its order."""

    name: str
    group: str
    steps: list[Step] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    not_committed: list[str] = field(default_factory=list)

    def take(self, row: Row) -> None:
        """Take a row of the program."""
        at_s = row["at"]
        if "offset" in row:
            self.steps.append(Consumed(at_s, RecordPlace(row["partition"], row["offset"]), row["value"]))
        elif "assigned" in row:
            self.steps.append(Assigned(at_s, tuple(row["assigned"])))
        elif "revoked" in row:
            self.steps.append(Revoked(at_s, tuple(row["revoked"] or ())))
        elif "committing" in row:
            self.steps.append(Committing(at_s, {int(place): offset for place, offset in row["committing"].items()}))
        elif "committed" in row:
            self.steps.append(Committed(at_s, {int(place): offset for place, offset in row["committed"].items()}))
        elif "not_committed" in row:
            self.not_committed.append(row["not_committed"])
        else:
            self.errors.append(row["error"])


@dataclass(slots=True)
class ClientHistory:
    """A run. `stored` has every record by an independent reader, `shadow_ends` the ends of the shadow's logs at the brokers."""

    writers: dict[str, Writer] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    """Processes by name: one that was started again has another."""
    stored: list[tuple[RecordPlace, str]] = field(default_factory=list)
    shadow_ends: dict[int, int] = field(default_factory=dict)
    is_whole: bool = False
    """Whether the run came to its end and `stored` was read."""
    given: dict[str, set[RecordPlace]] = field(default_factory=lambda: defaultdict(set))
    """What the members of each group were given."""
    rows: list[Row] = field(default_factory=list)
    """Everything, as it is recorded."""
    _values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """What the members of each group were given, without places."""

    def lacks(self, groups: Iterable[str]) -> dict[str, int]:
        """How many acknowledged records groups were not given yet, of those that lack some; by value, for not all places were told."""
        wanted = {f"{writer.name} {one.number}" for writer in self.writers.values() for one in writer.acknowledged}
        return {group: len(left) for group in groups if (left := wanted - self._values[group])}

    def take(self, row: Row) -> None:
        """Take a row: one of a program, with its `who` and, for members, its `group`, or one of what was left."""
        self.rows.append(row)
        if "group" in row:
            self.members.setdefault(row["who"], Member(row["who"], row["group"])).take(row)
            if "offset" in row:
                self.given[row["group"]].add(RecordPlace(row["partition"], row["offset"]))
                self._values[row["group"]].add(row["value"])
        elif "who" in row:
            self.writers.setdefault(row["who"], Writer(row["who"])).take(row)
        elif "shadow_ends" in row:
            self.shadow_ends = {int(partition): end for partition, end in row["shadow_ends"].items()}
            self.is_whole = True
        else:
            self.stored.append((RecordPlace(row["partition"], row["offset"]), row["stored"]))


def write_client_history(file: Path, history: ClientHistory) -> None:
    """Write a recording."""
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in history.rows)


def read_client_history(file: Path) -> ClientHistory:
    """Read a recording."""
    history = ClientHistory()
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            history.take(json.loads(line))
    return history
