"""The ports of a migration to Kafka: a partition of a classic topic at its leader, and the records of its log.

A leader epoch is Kafka's number of the leadership of a partition. Invariant: all numbers of one `ClassicState` are of one leadership.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from coordinator.client.model import SeededProducer
from records.record_batch import BatchHeader, StoredRecord


class MigrationRefused(Exception):
    """A migration cannot go on; the text says what is in its way, and what to do. Repeating it once that is done is safe."""


class ClassicTopicMissing(MigrationRefused):
    """Kafka has no topic of that name."""


class WrittenPastBoundary(MigrationRefused):
    """Records stand in the classic log at or above the boundary: they were acknowledged, and readers of both logs do not see them."""


class ClassicTransaction(NamedTuple):
    """A transaction that has written to a partition and has not ended."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicState:
    """The log of a classic partition at one moment. `log_end_offset` is the one after the last record, replicated or not."""

    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    open_transactions: tuple[ClassicTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerBatches:
    """The last batches of all idempotent producers that a partition remembers.

    `unread` are producers of which batches may be missing, because they stand further back in the log than was read.
    """

    producers: tuple[SeededProducer, ...]
    unread: tuple[int, ...] = ()


def count_from(headers: Iterable[BatchHeader], start_offset: int) -> int:
    """Count the records of batches from an offset on, also inside of a batch, without the markers that end transactions."""
    return sum(
        min(one.record_count, one.last_offset - max(start_offset, one.base_offset) + 1)
        for one in headers
        if one.last_offset >= start_offset and not one.is_control
    )


class ClassicPartition(Protocol):
    """One partition of a classic topic. All methods may be repeated, and wait until a leader serves the partition."""

    @property
    def name(self) -> str:
        """Topic and index, for texts."""

    @property
    def topic_id(self) -> bytes:
        """The 16 bytes by which Kafka and the coordinators know the topic."""

    @property
    def partition(self) -> int:
        """The index."""

    async def refuse_writes(self) -> None:
        """Let no write and no transaction begin any more; those that have begun may still end. Raises `MigrationRefused`."""

    async def look(self) -> ClassicState:
        """Return the state of the log at its leader."""

    async def last_batches(self, state: ClassicState) -> ProducerBatches:
        """Return the last batches of producers below `state.log_end_offset`, at most five of each."""

    async def settle(self, state: ClassicState) -> ClassicState:
        """Make the log as durable as this side of the port can, and return its state then."""

    async def count_records(self, start_offset: int, state: ClassicState) -> int:
        """Count the records that stand in the log from an offset on (`count_from`). Raises `OffsetOutOfRange` when the log has lost it."""


class ClassicRecords(Protocol):
    """The records of the partitions of one classic topic."""

    async def log_start(self, partition: int) -> int:
        """Return the first offset that is still there."""

    async def offset_for_time(self, partition: int, timestamp_ms: int) -> tuple[int, int] | None:
        """Return offset and timestamp of the first record that is at least so young; None when there is none."""

    def read(self, partition: int, start_offset: int, end_offset: int) -> AsyncGenerator[StoredRecord]:
        """Yield the records of ended, successful writes from `start_offset` to before `end_offset`, in order.

        Raises `OffsetOutOfRange` when the log does not reach from one to the other.
        """
