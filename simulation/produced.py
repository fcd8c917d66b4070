"""The rules of records that Kafka's producers gave to gateways: what was acknowledged is there once, in order, as it came.

Every file of a gateway is compared, when it takes effect in a log, with the batches that producers meant; every answer of a gateway with
what is in the logs by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from coordinator.kafka.errors import ErrorCode
from simulation.fakes.snapshots import FakeObjects
from simulation.fold import LogFold, Where

GATEWAY_PREFIX = "wal/gateway/"
"""Of the keys of files that gateways make."""
STORED = "a file is stored before it is committed"
AS_IT_CAME = "batches are stored as they came"
ONCE = "a record is there once"
ACKNOWLEDGED = "what a gateway acknowledged is logged"
REFUSED = "what a gateway refused is not written"
ORDERED = "records of a connection are in order"


class Diligence(Enum):
    """How a producer treats its batches."""

    IDEMPOTENT = "numbers them, and repeats them until they have an outcome"
    REPEATING = "repeats them until they are acknowledged"
    ONCE = "sends each of them once"
    BLIND = "sends each of them once, and wants no answer"


@dataclass(slots=True, eq=False, kw_only=True)
class ProducedBatch:
    """A batch as its producer means it; `name` is that of the topic, by which gateways are asked."""

    diligence: Diligence
    where: Where
    name: str
    records: int
    data: bytes
    epoch: int = -1
    sequence: int = -1
    place: tuple[int, int] = (0, 0)
    """The connection on which it was sent first, and its number among the batches that were."""
    is_next: bool = False
    """Whether all batches before it had an outcome when it was sent last."""
    is_refused: bool = False
    """Whether its producer was told that it is not written, and does not repeat it."""
    written: list[tuple[bytes, int]] = field(default_factory=list)
    """Where it is: the topic's id and the offset of its first record."""

    def __str__(self) -> str:
        which = f"sequence {self.sequence} of epoch {self.epoch}" if self.sequence >= 0 else f"number {self.place[1]}"
        return f"{which} in {self.name}-{self.where[1]}"


class JudgedRecords:
    """See the module's text."""

    def __init__(self, objects: FakeObjects, folds: Sequence[LogFold], broken: Callable[[str, str], None]) -> None:
        self._objects = objects
        self._folds = folds
        self._broken = broken
        self._by_data: dict[bytes, ProducedBatch] = {}
        self._seen = [0] * len(folds)
        self._newest: dict[tuple[Where, int], int] = {}
        self.acknowledgements = 0

    def meant(self, batch: ProducedBatch) -> None:
        """A producer will send a batch."""
        self._by_data[batch.data] = batch

    def landed(self, partition: int) -> None:
        """Something took effect in a log."""
        fold = self._folds[partition]
        fresh = list(islice(reversed(fold.committed), len(fold.committed) - self._seen[partition]))
        self._seen[partition] = len(fold.committed)
        for key in reversed(fresh):
            if key.startswith(GATEWAY_PREFIX):
                self._file(fold, key)

    def _file(self, fold: LogFold, key: str) -> None:
        stored = self._objects.by_key.get(key)
        if stored is None:
            self._broken(STORED, f"coordinator {fold.partition} has committed {key}, which is not in the store")
            return
        for line in fold.committed[key].accepted:
            batch = self._by_data.get(stored.data[line.byte_offset : line.byte_offset + line.byte_size])
            if batch is None:
                self._broken(AS_IT_CAME, f"no producer has sent what is at {line.byte_offset} of {key}")
                return
            self._written(batch, (line.topic_id, line.partition), line.base_offset, key)

    def _written(self, batch: ProducedBatch, where: Where, offset: int, key: str) -> None:
        what = f"{batch}, at offset {offset} in {key}"
        # A topic of the same name may have been made anew meanwhile.
        if batch.diligence is not Diligence.REPEATING and any(topic_id == where[0] for topic_id, _ in batch.written):
            self._broken(ONCE, f"{what}, is there already: {batch.written}")
        if batch.is_refused:
            self._broken(REFUSED, f"{what}, was refused before")
        if batch.diligence in (Diligence.ONCE, Diligence.BLIND):
            connection, number = batch.place
            if number < self._newest.get((where, connection), -1):
                self._broken(ORDERED, f"{what}, comes after number {self._newest[where, connection]} of its connection")
            self._newest[where, connection] = number
        batch.written.append((where[0], offset))

    def acknowledged(self, batch: ProducedBatch, offset: int) -> None:
        """A gateway answers that a batch is written."""
        self.acknowledgements += 1
        if offset not in [base for _, base in batch.written]:
            self._broken(ACKNOWLEDGED, f"{batch} was acknowledged at offset {offset}, it is at {batch.written}")

    def refused(self, batch: ProducedBatch, error: int) -> None:
        """A gateway answers that a batch is not written, for good, and its producer does not repeat it."""
        if error == ErrorCode.REQUEST_TIMED_OUT:
            return
        batch.is_refused = True
        for topic_id, offset in batch.written:
            where = (topic_id, batch.where[1])
            known = next((fold.partitions[where] for fold in self._folds if where in fold.partitions), None)
            # What has been deleted may be forgotten together with its file.
            if known is not None and known.log_start <= offset:
                self._broken(REFUSED, f"{batch} was refused with {error}, it is at {offset}")
