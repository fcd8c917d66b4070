"""Faults at the steps of moves of partitions: right before and right after each entry and each request of a move.

Such a fault waits for its moment, and harms who leads a coordinator of the move then. Before an entry is when it is produced: one whose
process is killed by that never lands. After it is when it has landed, and nobody has heard of it. Before a request is when it is about to
be sent, after it when it has been served and the answer is about to be sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import AdoptPartitionRequest, DescribeStretchesRequest, ReleasePartitionRequest
from records.codec import UnreadableEntry, decode_entry
from records.model import PartitionAdopted, PartitionMoved, PartitionMoving, PartitionReleased, Record
from simulation.fold import Where
from simulation.loop import VirtualLoop
from simulation.process import SimulatedProcess
from simulation.scenario import MOVE_HARMS, MOVE_VICTIMS, Fault
from simulation.story import Story

BEFORE, AFTER = "before", "after"
BREATH_S = 0.000_05
"""So long a message is held up by which somebody is harmed: less than any message takes."""


class MoveStep(NamedTuple):
    """One step of a move: its name, and the coordinators of the move."""

    name: str
    from_coordinator: int
    to_coordinator: int

    def coordinator_of(self, victim: str) -> int:
        """The coordinator that a victim leads."""
        return dict(zip(MOVE_VICTIMS, (self.from_coordinator, self.to_coordinator, DIRECTORY_PARTITION), strict=True))[victim]


class MoveSteps:
    """See the module's text."""

    def __init__(
        self, *, world: VirtualLoop, story: Story, processes: Mapping[int, SimulatedProcess], harm: Callable[[Fault], None]
    ) -> None:
        self._world = world
        self._story = story
        self._processes = processes
        self._harm = harm
        self._waiting: list[Fault] = []
        self.reached: list[str] = []
        """The details of faults whose moment has come."""
        self._ordered: dict[Where, int] = {}
        """Where partitions were ordered to go last."""

    def wait(self, fault: Fault) -> None:
        """Let a fault wait for its moment; its detail names moment, victim and harm."""
        self._waiting.append(fault)

    def end(self) -> None:
        """Nothing goes wrong any more."""
        self._waiting.clear()

    def producing(self, node: str, partition: int, value: bytes) -> bool:
        """A process produces an entry; returns whether it dies of that."""
        harmed = [(name, killed) for step in self._steps(partition, value) for name, killed in self._reached(BEFORE, step)]
        return any(killed and node.startswith(f"{name}.") for name, killed in harmed)

    def landed(self, partition: int, value: bytes | None) -> None:
        """An entry has landed."""
        for step in self._steps(partition, value or b""):
            self._reached(AFTER, step)

    async def request(self, when: str, message: Message) -> None:
        """A request of one node to another is about to be sent, or was served."""
        if self._waiting and (step := _step_of_request(message)) is not None and self._reached(when, step):
            await asyncio.sleep(BREATH_S)

    def _steps(self, partition: int, value: bytes) -> list[MoveStep]:
        if not self._waiting:
            return []
        try:
            records = decode_entry(value)
        except UnreadableEntry:  # another fault wrote it
            return []
        return [step for record in records if (step := self._step_of_record(partition, record)) is not None]

    def _step_of_record(self, partition: int, record: Record) -> MoveStep | None:
        match record:
            case PartitionMoving():
                self._ordered[record.topic_id, record.partition] = record.to_coordinator
                coordinators = record.from_coordinator, record.to_coordinator
            case PartitionReleased():
                coordinators = partition, record.to_coordinator
            case PartitionAdopted():
                coordinators = record.earlier[-1].coordinator_id, partition
            case PartitionMoved():
                to = self._ordered.get((record.topic_id, record.partition), DIRECTORY_PARTITION)
                coordinators = record.earlier[-1].coordinator_id, to
            case _:
                return None
        return MoveStep(type(record).__name__, *coordinators)

    def _reached(self, when: str, step: MoveStep) -> list[tuple[int, bool]]:
        """A moment is there: harm those for whom a fault waits; returns their nodes, and whether each is killed."""
        harmed = []
        for fault in list(self._waiting):
            moment, victim, harm = fault.detail.rsplit(" ", 2)
            node_id = self._leader(step.coordinator_of(victim))
            if moment != f"{when} {step.name}" or node_id is None:
                continue
            self._waiting.remove(fault)
            self.reached.append(fault.detail)
            kind, detail = MOVE_HARMS[harm]
            self._story.tell(f"{moment}, from {step.from_coordinator} to {step.to_coordinator}: {harm} {victim}, node {node_id}")
            self._world.call_soon(self._harm, replace(fault, kind=kind, detail=detail, node=node_id))
            harmed.append((node_id, kind == "crash"))
        return harmed

    def _leader(self, coordinator_id: int) -> int | None:
        for process in self._processes.values():
            if process.node is not None and process.is_well and process.node.replicas.is_leading(coordinator_id):
                return process.node_id
        return None


def _step_of_request(message: Message) -> MoveStep | None:
    match message:
        case DescribeStretchesRequest() if message.beside_coordinator_ids:
            coordinators = message.beside_coordinator_ids[-1], message.coordinator_id
        case ReleasePartitionRequest():
            coordinators = message.coordinator_id, message.to_coordinator_id
        case AdoptPartitionRequest():
            coordinators = message.earlier[-1].coordinator_id, message.coordinator_id
        case _:
            return None
    return MoveStep(type(message).__name__, *coordinators)
