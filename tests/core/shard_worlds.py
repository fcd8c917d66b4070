"""Two replicas of one coordinator over one log that tests step by hand, and how their answers are read."""

from __future__ import annotations

from typing import Any

from coordinator.core.commands import Answer, FoundOffset, Outcome
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.kafka.errors import ErrorCode
from records.codec import decode_entry, encode_entry, encode_key
from records.entry_key import EntryKey
from records.model import LeadershipClaimed, Record
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import place, result_of


def two(limits: Limits | None = None) -> tuple[World, HarnessReplica, HarnessReplica]:
    """The first of two replicas leads a topic of two partitions; both have read everything."""
    world = World()
    first, second = world.add_replica(limits=limits), world.add_replica(limits=limits)
    first.lead()
    first.ask(place())
    assert first.view.phase is State.LEADING
    return world, first, second


def error_of(answer: Answer) -> ErrorCode:
    """The one error of an answer."""
    if isinstance(answer, Outcome):
        return answer.error
    parts: list[Any] = answer if isinstance(answer, list) else []
    errors = {getattr(part, "outcome", part).error for part in parts} or set(result_of(answer).errors)
    [error] = errors
    return ErrorCode(error)


def offset_of(answer: Answer) -> int:
    assert isinstance(answer, list)
    [found] = answer
    assert isinstance(found, FoundOffset)
    return found.offset


def own_key(replica: HarnessReplica, seq: int) -> bytes:
    return encode_key(EntryKey(replica.view.fence.epoch, replica.view.fence.term, seq))


def claim(world: World, epoch: int, term: int, node_id: int = 9) -> None:
    record = LeadershipClaimed(epoch=epoch, term=term, node_id=node_id, rack="", endpoints=[])
    world.append(encode_key(EntryKey(epoch, term, 0)), encode_entry([record]))


def records_in(world: World) -> list[Record]:
    return [record for _, value in world.log for record in decode_entry(value or b"")]


def replay(world: World) -> HarnessReplica:
    """A replica that has read the whole log in one piece."""
    replica = HarnessReplica(World(log=world.log, now_ms=world.now_ms), 50, Limits(), 0, 4)
    replica.read()
    return replica
