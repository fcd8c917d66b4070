"""The classic partition in memory passes the contract that a real one passes."""

from __future__ import annotations

import pytest

from records.record_batch import ProducerSequence
from simulation.contracts.classic import CHECKS
from simulation.fakes.classic import InMemoryClassicPartition


def _producer(producer_id: int, sequence: int) -> ProducerSequence:
    return ProducerSequence(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


class MemoryWorld:
    def __init__(self) -> None:
        self.partition = InMemoryClassicPartition()
        self._sequences: dict[int, int] = {}

    async def write(self, writer: int, count: int) -> int:
        first = self._sequences.get(writer, 0)
        self._sequences[writer] = first + count
        return self.partition.write(_producer(writer, first), count) + count

    async def begin(self) -> None:
        self.partition.begin(_producer(9, 0))

    async def end(self) -> None:
        self.partition.end(_producer(9, -1))


@pytest.mark.parametrize("check", CHECKS)
async def test_the_partition_in_memory_passes_the_contract(check: str) -> None:
    await CHECKS[check](MemoryWorld())
