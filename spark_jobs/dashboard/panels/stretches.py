"""Partitions that moved: each coordinator that had one has a row of it, a stretch, and what is said of the partition is of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.store.engine import StoreRow

OWNED = """not exists (select 1 from partition later where later.newest_move >= 0 and later.topic_id = p.topic_id
    and later.partition = p.partition and (later.newest_move > p.newest_move
    or later.newest_move = p.newest_move and later.released_to is null and p.released_to is not null))"""
"""The condition that a row `p` is the newest stretch of its partition."""


def sum_of(column: str) -> str:
    """Return the SQL for a number of a partition, whose newest stretch is the row `p`."""
    return f"""case when p.newest_move < 0 then p.{column} else p.{column} + (select coalesce(sum(other.{column}), 0) from partition other
        where other.newest_move >= 0 and other.topic_id = p.topic_id and other.partition = p.partition and other.kpart <> p.kpart) end"""


@dataclass(frozen=True, slots=True)
class WholePartition:
    """A user partition, as its stretches in the order of their offsets: the last one has its log start and its end."""

    stretches: list[StoreRow]

    @property
    def owner(self) -> StoreRow:
        """The stretch that it ends with."""
        return self.stretches[-1]

    @property
    def number(self) -> int:
        """The number of the partition."""
        return int(self.owner["partition"])

    @property
    def has_moved(self) -> bool:
        """Whether it was in another coordinator, or is on its way to one."""
        return bool(self.owner["newest_move"] >= 0)

    @property
    def last_append_ms(self) -> int | None:
        """When a batch was committed to it last."""
        return max((row["last_append_ms"] for row in self.stretches if row["last_append_ms"]), default=None)

    def sum(self, column: str) -> int:
        """Return a number of the whole partition."""
        return sum(row[column] or 0 for row in self.stretches)


def whole_partitions(found: Iterable[StoreRow]) -> list[WholePartition]:
    """Group stretches of one topic by partition."""
    by_number: dict[int, list[StoreRow]] = {}
    for row in sorted(found, key=lambda row: (row["newest_move"], row["released_to"] is None, row["stretch_base"])):
        by_number.setdefault(row["partition"], []).append(row)
    return [WholePartition(by_number[number]) for number in sorted(by_number)]
