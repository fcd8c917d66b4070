"""Moves of partitions at one coordinator: which steps are lawful, what they change, and that what contradicts the log before is void."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordinator.core.commands import OK, AdoptPartition, Outcome, ReleasedPartition, ReleasePartition
from coordinator.core.events import SchemaLevel
from coordinator.core.limits import Limits
from coordinator.core.reads.retention import Bound
from coordinator.kafka.batches import partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.topic_configs import Retention
from records import model
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import TOPIC, batch, commit, place, result_of
from tests.core.test_contradictions import forge

KEY = partition_key(TOPIC, 0)


def release(move_id: int, partition: int = 0) -> ReleasePartition:
    return ReleasePartition(topic_id=TOPIC, partition=partition, move_id=move_id, to_coordinator=1)


def two(limits: Limits | None = None) -> tuple[World, HarnessReplica, HarnessReplica]:
    """The first of two replicas leads; partition 0 has 5 records of producer 7."""
    world = World()
    first, second = world.add_replica(limits=limits), world.add_replica(limits=limits)
    first.lead()
    for replica in (first, second):
        replica.feed(SchemaLevel(2))
    first.ask(place(count=2))
    first.ask(commit("a", [batch(0, 3, sequence=0, producer_id=7)]), commit("b", [batch(0, 2, sequence=3, producer_id=7), batch(1)]))
    return world, first, second


def released(replica: HarnessReplica, command: ReleasePartition) -> ReleasedPartition:
    [[answer]] = replica.ask(command)  # type: ignore[misc]
    assert isinstance(answer, ReleasedPartition)
    return answer


def test_a_release_tells_all_that_the_next_owner_needs_and_a_repetition_is_answered_alike() -> None:
    _, leader, _ = two()
    told = released(leader, release(4))
    assert (told.outcome.error, told.name, told.start_offset, told.end_offset) == (ErrorCode.NONE, "orders", 0, 5)
    assert [(one.base_sequence, one.last_sequence, one.base_offset) for one in told.producers] == [(0, 2, 0), (3, 4, 3)]
    assert [(one.coordinator_id, one.end_offset, one.move_id) for one in told.earlier] == [(0, 5, 4)]
    assert released(leader, release(4)) == told
    refused = released(leader, release(3))
    assert refused.outcome.error is ErrorCode.INVALID_REQUEST
    answer = result_of(leader.ask(commit("c", [batch(0), batch(1)]))[0])
    assert answer.errors == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_partition_whose_producers_fit_no_request_stays_and_goes_on() -> None:
    _, leader, _ = two(Limits(handed_over_max=1))
    refused = released(leader, release(4)).outcome
    assert refused.error is ErrorCode.MESSAGE_TOO_LARGE
    assert "2 batches of its producers are remembered, and 1 fit a request" in (refused.message or "")
    assert result_of(leader.ask(commit("c", [batch(0, 1, sequence=5, producer_id=7)]))[0]).base_offsets == [5]
    assert released(leader, release(5, partition=1)).outcome.error is ErrorCode.NONE


def adopted(**fields: object) -> model.PartitionAdopted:
    known: dict[str, object] = {
        "topic_id": TOPIC, "partition": 7, "name": "orders", "move_id": 9, "start_offset": 2, "base_offset": 5, "earlier": [],
    }  # fmt: skip
    return model.PartitionAdopted(**known | fields)  # type: ignore[arg-type]


def producers(partition: int = 7, base_offset: int = 4) -> model.ProducersAdopted:
    seed = model.SeededProducerBatch(
        producer_id=1, producer_epoch=0, base_sequence=0, last_sequence=1, base_offset=base_offset, timestamp_ms=-1
    )
    return model.ProducersAdopted(topic_id=TOPIC, partition=partition, producers=[seed], time_ms=1)


UNLAWFUL: dict[str, Sequence[model.Record]] = {
    "it is here already": [adopted(partition=0)],
    "do not fit": [adopted(start_offset=6)],
    "it is not adopted with them": [producers()],
    "is not below the start offset": [adopted(), producers(base_offset=5)],
    "one of them twice": [adopted(), producers(), producers()],
    "with another record of it": [adopted(), adopted(move_id=10)],
    "it is not here": [model.PartitionReleased(topic_id=TOPIC, partition=7, move_id=1, to_coordinator=1, time_ms=1)],
    "is migrated or moved by one entry that deletes its records": [
        adopted(),
        model.RecordsDeleted(topic_id=TOPIC, partition=7, new_log_start_offset=1),
    ],
}


@pytest.mark.parametrize("reason", UNLAWFUL)
def test_a_step_that_contradicts_the_log_is_void(reason: str) -> None:
    world, leader, follower = two()
    forge(world, leader, UNLAWFUL[reason])
    follower.read()
    assert follower.view.contradiction is not None
    assert reason in follower.view.contradiction.reason
    assert not follower.view.stretches


def test_a_leader_logs_no_adoption_that_contradicts() -> None:
    _, leader, _ = two()
    seeds = tuple(producers(base_offset=5).producers)
    given = ReleasedPartition(outcome=OK, name="orders", start_offset=2, end_offset=5, time_ms=1, producers=seeds)
    [refused] = leader.ask(AdoptPartition(topic_id=TOPIC, partition=7, move_id=9, released=given))
    assert isinstance(refused, Outcome)
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert "a batch at offset 5 is not below the start offset 5" in (refused.message or "")
    assert result_of(leader.ask(commit("c", [batch(0, 1, sequence=5, producer_id=7)]))[0]).base_offsets == [5]


def test_what_was_adopted_goes_on_where_it_ended_and_older_steps_are_refused() -> None:
    _, leader, _ = two()
    given = ReleasedPartition(
        outcome=OK,
        name="orders",
        start_offset=2,
        end_offset=5,
        time_ms=1,
        producers=tuple(producers().producers),
    )
    adopt = AdoptPartition(topic_id=TOPIC, partition=7, move_id=9, released=given)
    assert leader.ask(adopt) == leader.ask(adopt) == [OK]
    looked = leader.view.past_retention(TOPIC, 7, Retention(-1, 1), Bound(now_ms=1), None)
    assert looked is not None
    assert (looked.batches, looked.has_more) == (0, False), "a limit of size finds its end where no batch is yet"
    assert result_of(leader.ask(commit("c", [batch(7, 2, sequence=2, producer_id=1)]))[0]).base_offsets == [5]
    duplicate = result_of(leader.ask(commit("d", [batch(7, 2, sequence=0, producer_id=1)]))[0])
    assert (duplicate.base_offsets, duplicate.duplicates) == ([4], [True])
    assert leader.view.bounds(TOPIC, 7) == (2, 7)
    assert released(leader, release(8, 7)).outcome.error is ErrorCode.INVALID_REQUEST
    assert released(leader, release(10, 7)).end_offset == 7
