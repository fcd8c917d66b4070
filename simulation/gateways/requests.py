"""Produce requests and answers as Kafka's clients encode and read them, by a codec that the product does not use for them."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kio.schema.produce.v12 import ProduceRequest, ProduceResponse
from kio.schema.produce.v12.request import PartitionProduceData, TopicProduceData
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records, i16, i32, i32Timedelta

from simulation.produced import ProducedBatch

VERSION: Final = 12


class BatchResult(NamedTuple):
    """The answer to one batch."""

    error: int
    base_offset: int


class ProduceCall:
    """One request, with at most one batch for a partition."""

    def __init__(self, batches: Sequence[ProducedBatch], *, acks: int, timeout_ms: int, on_answer: Callable[[ProduceCall], None]) -> None:
        """`on_answer` is told when the gateway answers, which is before the client knows."""
        self.batches = batches
        self.results: list[BatchResult] = []
        """In the order of the batches; empty without an answer."""
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._on_answer = on_answer

    def encoded(self) -> bytes:
        """The body of the request."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in self.batches:
            topics.setdefault(batch.name, []).append(PartitionProduceData(index=i32(batch.where[1]), records=Records(batch.data)))
        data = tuple(TopicProduceData(name=TopicName(name), partition_data=tuple(parts)) for name, parts in topics.items())
        timeout = i32Timedelta.parse(datetime.timedelta(milliseconds=self._timeout_ms))
        out = io.BytesIO()
        _WRITE(out, ProduceRequest(transactional_id=None, acks=i16(self._acks), timeout=timeout, topic_data=data))
        return out.getvalue()

    def answered(self, body: bytes) -> None:
        """Read the body of the answer."""
        answer, size = _READ(body, 0)
        if size != len(body):
            raise AssertionError(f"{len(body) - size} bytes follow an answer to Produce")
        found = {
            (str(topic.name), int(one.index)): BatchResult(int(one.error_code), int(one.base_offset))
            for topic in answer.responses
            for one in topic.partition_responses
        }
        self.results = [found.pop((batch.name, batch.where[1])) for batch in self.batches]
        if found:
            raise AssertionError(f"nobody asked for {sorted(found)}")
        self._on_answer(self)


_WRITE: Final = entity_writer(ProduceRequest)
_READ: Final = entity_reader(ProduceResponse)
