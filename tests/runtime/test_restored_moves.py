"""Restores from snapshots of several moments of a move: the partition has one owner in the end, and all that the snapshots have."""

from __future__ import annotations

import uuid
from itertools import product
from typing import NamedTuple

import pytest

from coordinator.core.commands import WantedMove
from coordinator.core.view import ShardView
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.runtime.snapshots.keys import parse_snapshot_key
from records.codec import decode_entry
from records.model import PartitionReleased
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.kafka_log import Fate
from simulation.fakes.snapshots import FakeDurableSnapshots, FakeObject, FakeObjects
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import TOPIC, batch, commit
from tests.runtime.nodes import TIMEOUT_MS, Running, in_memory, running
from tests.runtime.test_moved_partitions import OFTEN, accepted, committed, move, owner, read_all, topic
from tests.runtime.test_restored_logs import restored_from, write
from tests.runtime.test_snapshots import ON_DEMAND, objects_of
from tests.waiting import until

ALL = [0, 1, 2]
DIRECTIONS = ((1, 2), (0, 1), (1, 0))
"""Also those in which the directory has the partition, or gets it: its snapshot tells of both then."""
MOMENTS: dict[tuple[int, int], tuple[tuple[str, ...], ...]] = {
    (1, 2): (("before", "ordered", "moved"), ("before", "released"), ("before", "adopted", "written")),
    (0, 1): (("before", "ordered", "released", "moved"), ("before", "adopted", "written"), ("before",)),
    (1, 0): (("before", "ordered", "moved", "written"), ("before", "released"), ("before",)),
}
"""What of a move the snapshots of coordinators 0, 1 and 2 may have seen, by its direction."""


class Moved(NamedTuple):
    """A service in which a partition has moved: the objects, the places of snapshots by coordinator and moment, and the partition."""

    objects: dict[str, FakeObject]
    places: dict[tuple[int, str], str]
    mine: int


class Stages:
    """Takes a service from one moment of a move to the next, and snapshots in between."""

    def __init__(self, started: Running, objects: FakeObjects, kafka: FakeKafka) -> None:
        self._started = started
        self._objects = objects
        self._kafka = kafka
        self.places: dict[tuple[int, str], str] = {}
        self.kept: dict[str, FakeObject] = {}
        """All snapshots; those before the last two may be removed from the store."""

    async def take(self, moment: str, *coordinators: int) -> None:
        """Take snapshots of coordinators."""
        for one in coordinators:
            known = set(self._objects.by_key)
            outcome = await self._started.node.workers.snapshots.take(one, TIMEOUT_MS)
            assert outcome.error is ErrorCode.NONE, outcome.message
            new = [key for key in self._objects.by_key if key not in known and (at := parse_snapshot_key(key)) and at.partition == one]
            [self.places[one, moment]] = new
            self.kept.update(self._objects.by_key)

    async def move(self, partition: int, at: int, to: int) -> None:
        """Move a partition. While snapshots are taken the log of a coordinator that has to take the next step does not answer."""
        started, kafka = self._started, self._kafka

        def stop_behind_release(_node: str, _partition: int, _seq: int, value: bytes) -> Fate:
            if to and any(isinstance(one, PartitionReleased) for one in decode_entry(value)):
                kafka.set_unanswered(to)
            return Fate.DELIVER

        kafka.faults.fate_of = stop_behind_release
        kafka.set_unanswered(to or at)
        wanted = WantedMove(topic_id=TOPIC, partition=partition, to_coordinator=to)
        assert await started.node.directory.order_moves([wanted], TIMEOUT_MS, is_dry_run=False)
        await self.take("ordered", 0)
        kafka.set_unanswered()
        key = partition_key(TOPIC, partition)
        await until(lambda: started.node.replicas[at].look(ShardView.knows_release, key), "the release", within_s=10)
        await self.take("released", at)
        kafka.set_unanswered()
        await until(lambda: owner(started, partition) == to, "the partition at its next owner", within_s=10)


async def moved_service(at: int, to: int) -> Moved:
    """A service in which a partition has moved, with snapshots of all moments."""
    objects, kafka = objects_of(), in_memory(partitions=3)
    async with running(kafka, MemoryStateStores(), durable=FakeDurableSnapshots(objects), snapshots=ON_DEMAND, pauses=OFTEN) as started:
        await started.leads()
        await topic(started, 3)
        [mine] = [one for one in range(3) if owner(started, one) == at]
        stages = Stages(started, objects, kafka)
        assert await accepted(started, "a0", [batch(mine, 3, sequence=0)], ALL) == [0]
        await stages.take("before", *ALL)
        assert await accepted(started, "a1", [batch(mine, 2, sequence=3)], ALL) == [3]
        await stages.move(mine, at, to)
        await stages.take("moved", 0)
        await stages.take("adopted", to)
        assert await accepted(started, "b1", [batch(mine, 2, sequence=5)], ALL) == [5]
        await stages.take("written", to)
        return Moved(stages.kept, stages.places, mine)


SERVICES: dict[tuple[int, int], Moved] = {}
"""Each is lived once, and restored in all ways."""


CASES = [
    pytest.param(at, to, moments, id=f"{at}-to-{to}-{'-'.join(moments)}", marks=() if at and to else pytest.mark.long)
    for at, to in DIRECTIONS
    for moments in product(*MOMENTS[at, to])
]


@pytest.mark.parametrize(("at", "to", "moments"), CASES)
async def test_a_partition_that_moved_has_one_owner_with_all_that_snapshots_have(at: int, to: int, moments: tuple[str, ...]) -> None:
    if (at, to) not in SERVICES:
        SERVICES[at, to] = await moved_service(at, to)
    lived = SERVICES[at, to]
    mine, objects = lived.mine, objects_of()
    objects.by_key.update(lived.objects)
    kafka = in_memory(partitions=3)
    kafka.topic_id = uuid.UUID(int=99).bytes
    for one, moment in enumerate(moments):
        write(kafka, one, restored_from(objects, lived.places[one, moment], partition_count=3, partition=one))
    has_a1, is_adopted, has_b1 = moments[at] != "before", moments[to] in ("adopted", "moved", "written"), moments[to] == "written"
    expected = [("a0", 0), *([("a1", 3)] if has_a1 else []), *([("b1", 5)] if has_b1 else [])]
    end = 7 if has_b1 else 5 if has_a1 or is_adopted else 3
    durable, key = FakeDurableSnapshots(objects), partition_key(TOPIC, mine)
    async with running(kafka, MemoryStateStores(), durable=durable, snapshots=ON_DEMAND, pauses=OFTEN) as started:
        await started.leads()
        await until(lambda: started.node.view.owner_of(key) is not None, "moves settled")
        # Where any snapshot knows of the move it is carried out, and where none does it was never ordered.
        aim = at if set(moments) == {"before"} else to
        await until(lambda: owner(started, mine) == aim, f"the partition at coordinator {aim}", within_s=10)
        assert not started.node.view.directory.moves  # type: ignore[union-attr]
        assert await read_all(started, mine) == expected
        # Repetitions of what the snapshots have are found; the producer goes on behind it.
        again = await committed(started, commit("a0", [batch(mine, 3, sequence=0)], owner_ids=ALL))
        assert (again.errors, again.base_offsets) == ([0], [0])
        assert await accepted(started, "new", [batch(mine, 1, sequence=end)], ALL) == [end]
        if aim == at:
            await move(started, mine, to)
            assert await read_all(started, mine) == [*expected, ("new", end)]
    async with running(kafka, MemoryStateStores(), durable=durable, snapshots=ON_DEMAND, pauses=OFTEN) as anew:
        await anew.leads()
        await until(lambda: anew.node.view.owner_of(key) is not None, "moves settled")
        assert await read_all(anew, mine) == [*expected, ("new", end)]
