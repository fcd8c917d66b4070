"""Moves of user partitions: the records by which a partition leaves a coordinator and comes to another one, where its offsets go on."""

from __future__ import annotations

from typing import TypeAlias

from records.model import PartitionAdopted, PartitionReleased, ProducersAdopted

MoveStep: TypeAlias = PartitionReleased | PartitionAdopted | ProducersAdopted
MOVE_STEPS = (PartitionReleased, PartitionAdopted, ProducersAdopted)
