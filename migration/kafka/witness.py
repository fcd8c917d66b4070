"""The records of a classic log as they stand in its batches: read by own requests and decoded here, without Kafka's consumer.

What a consumer delivers is compared with it.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from coordinator.adapters.kafka.partition_log import LogPiece
from migration.classic import MigrationRefused
from migration.kafka.topic import KafkaClassicTopic
from records.columns import decode_records
from records.record_batch import StoredRecord

_CONTROL_KEY: Final = struct.Struct(">hh")
_ABORT: Final = 0


class KafkaClassicWitness:
    """`ClassicWitness` of a real Kafka.

    Raises `OffsetOutOfRange` when records were deleted, `KafkaException`, `CorruptBatch`; `MigrationRefused` for batches of an old format.
    """

    def __init__(self, topic: KafkaClassicTopic) -> None:
        self._topic = topic

    async def records(self, partition: int, start_offset: int, end_offset: int) -> AsyncGenerator[StoredRecord]:
        """Yield the records of ended, successful writes from `start_offset` to before `end_offset`, in order."""
        pieces = self._topic.log(partition).pieces(start_offset, end_offset)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            if piece.old_batches:
                raise MigrationRefused(
                    f"{self._topic.name}-{partition}: batches before offset {piece.next_offset} have a format older than Kafka 0.11, "
                    "which cannot be compared; read them with a consumer instead"
                )
            for record in committed_records(piece):
                if start_offset <= record.offset < end_offset:
                    yield record


def committed_records(piece: LogPiece) -> Iterator[StoredRecord]:
    """Decode a piece of a log without markers and records of aborted transactions. Raises `CorruptBatch`."""
    to_come = deque(sorted(piece.aborted, key=lambda one: one.first_offset))
    aborting: set[int] = set()
    for header in piece.headers:
        while to_come and to_come[0].first_offset <= header.last_offset:
            aborting.add(to_come.popleft().producer_id)
        if header.is_control:
            [marker] = decode_records(piece.data, header)
            if _CONTROL_KEY.unpack_from(marker.key or b"")[1] == _ABORT:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield from decode_records(piece.data, header)
