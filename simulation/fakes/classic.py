"""Partitions of classic topics in memory, which follow the rules of real ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from coordinator.client.errors import OffsetOutOfRange
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.ports import ClassicPlace, KafkaUnavailable
from migration.classic import ClassicState, ClassicTransaction, ProducerBatches, count_from
from migration.producers import LastBatches
from records.record_batch import BatchHeader, ProducerSequence, Record, encode_batch, parse_header


class ClassicWriteRefused(Exception):
    """The partition takes no writes any more."""


class InMemoryClassicPartition:
    """`ClassicPartition` with its writers' side. What is written is replicated at once, unless `is_replicating` is False."""

    def __init__(self, name: str = "orders-0", topic_id: bytes = b"classic-topic-id", partition: int = 0) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition = partition
        self.is_replicating = True
        self.is_refusing = False
        self.leader_epoch = 0
        self.log_start_offset = 0
        self._headers: list[BatchHeader] = []
        self._epochs: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._watermark = 0

    # ---- the writers' side

    @property
    def end_offset(self) -> int:
        """The offset after the last record."""
        return self._headers[-1].last_offset + 1 if self._headers else 0

    def write(self, producer: ProducerSequence | None, count: int = 1, *, is_fenced: bool = True) -> int:
        """Append a batch, and return its base offset. Raises `ClassicWriteRefused`, unless the writer is not fenced."""
        if self.is_refusing and is_fenced:
            raise ClassicWriteRefused(self.name)
        return self._append(producer, count, is_control=False)

    def begin(self, producer: ProducerSequence) -> None:
        """Begin a transaction with a batch. Raises `ClassicWriteRefused`."""
        self._open[producer.producer_id] = self.write(producer)

    def end(self, producer: ProducerSequence) -> None:
        """End a transaction with its marker, which no fence stops."""
        del self._open[producer.producer_id]
        self.mark(producer)

    def mark(self, producer: ProducerSequence) -> None:
        """Write the marker of a transaction, also of one that has not written to this partition."""
        self._append(
            ProducerSequence(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=-1), 1, is_control=True
        )

    def elect(self) -> None:
        """Give the partition to another leader."""
        self.leader_epoch += 1

    def replicate(self) -> None:
        """Let the replicas have what was written."""
        self.is_replicating, self._watermark = True, self.end_offset

    def _append(self, producer: ProducerSequence | None, count: int, *, is_control: bool) -> int:
        base = self.end_offset
        records = [Record(timestamp_ms=1_000 + base + place, value=b"v") for place in range(count)]
        self._headers.append(parse_header(encode_batch(records, producer=producer, base_offset=base, is_control=is_control)))
        if producer is not None:
            self._epochs[producer.producer_id] = producer.producer_epoch
        if self.is_replicating:
            self._watermark = self.end_offset
        return base

    # ---- the port

    async def refuse_writes(self) -> None:
        """Refuse writes from now on."""
        self.is_refusing = True

    async def look(self) -> ClassicState:
        """Return the state of the log."""
        return ClassicState(
            leader_epoch=self.leader_epoch,
            log_start_offset=self.log_start_offset,
            high_watermark=self._watermark,
            log_end_offset=self.end_offset,
            open_transactions=tuple(ClassicTransaction(producer_id, first) for producer_id, first in sorted(self._open.items())),
        )

    async def last_batches(self, state: ClassicState) -> ProducerBatches:
        """Return the last batches of all producers."""
        found = LastBatches(self._epochs)
        found.add_older([one for one in self._headers if one.base_offset < state.log_end_offset])
        return found.result(is_whole_log=True)

    async def settle(self, state: ClassicState) -> ClassicState:
        """Return the state of the log, which is as durable as memory is."""
        return await self.look()

    async def count_records(self, start_offset: int, state: ClassicState) -> int:
        """Count the records from an offset on."""
        if start_offset < self.log_start_offset:
            raise OffsetOutOfRange(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.name} begins at {self.log_start_offset}")
        return count_from(self._headers, start_offset)


class InMemoryClassicLogs:
    """`ClassicLogs` of partitions in memory."""

    def __init__(self, partitions: Iterable[InMemoryClassicPartition]) -> None:
        self.partitions = {ClassicPlace(one.topic_id, one.partition): one for one in partitions}
        self.is_reachable = True
        self.asked: list[int] = []
        """How many partitions each question was about."""

    async def log_starts(self, places: Collection[ClassicPlace]) -> Mapping[ClassicPlace, int | str]:
        """Return the starts of the partitions that are there. Raises `KafkaUnavailable` while they cannot be reached."""
        self.asked.append(len(places))
        if not self.is_reachable:
            raise KafkaUnavailable("no broker answers")
        known = self.partitions
        return {one: known[one].log_start_offset if one in known else "there is no such topic" for one in places}
