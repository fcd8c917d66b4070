"""What an entry of the term in force says against the log before it is void, for every replica and at every rebuild."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from coordinator.core.commands import Barrier
from coordinator.core.events import Accused, Contradicted
from coordinator.core.leadership.states import State
from coordinator.core.limits import Limits
from coordinator.core.log_entry import ContradictoryEntry
from records import model
from records.codec import decode_entry, encode_entry
from records.committed_files.codec import FileCommitted
from records.entry_key import EntryKey, encode_key
from records.log import TOPIC_PARTITIONS_MAX
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import TOPIC, batch, commit, place, result_of, state_of

OTHER = b"o" * 16


def led() -> tuple[World, HarnessReplica, HarnessReplica]:
    """The first of two replicas leads; partition 0 has 3 records of producer 7 and 2 of nobody."""
    world = World()
    first, second = world.add_replica(), world.add_replica()
    first.lead()
    first.ask(place(count=4))
    first.ask(commit("a", [batch(0, 3, sequence=0, producer_id=7, producer_epoch=1)]), commit("b", [batch(0, 2), batch(1, 1)]))
    return world, first, second


def record_of(world: World, key: str) -> FileCommitted:
    """The record of a committed file."""
    for _, value in world.log:
        for record in decode_entry(value or b""):
            if isinstance(record, FileCommitted) and record.object_key == key:
                return record
    raise AssertionError(f"no file {key}")


def forge(world: World, leader: HarnessReplica, *entries: Sequence[model.Record]) -> None:
    """Append entries as the leader's producer would, behind what it has written."""
    fence = leader.view.fence
    for seq, records in enumerate(entries, fence.seq + 1):
        world.append(encode_key(EntryKey(fence.epoch, fence.term, seq)), encode_entry(list(records), 2))


def next_file(world: World, key: str = "c", **fields: int) -> FileCommitted:
    """A lawful next file of partition 0, or one that is not."""
    known = record_of(world, "a")
    lawful = known.batches[0]._replace(base_offset=5, base_sequence=3, producer_id=7, producer_epoch=1)
    return dataclasses.replace(known, object_key=key, batches=[lawful._replace(**fields)])


def created(first: int, count: int, topic: bytes = OTHER) -> model.PartitionCreated:
    return model.PartitionCreated(topic_id=topic, name="t", first_partition=first, num_partitions=count, order_offset=0)


def deleted_to(offset: int, partition: int = 0, topic: bytes = TOPIC) -> model.RecordsDeleted:
    return model.RecordsDeleted(topic_id=topic, partition=partition, new_log_start_offset=offset)


CONTRADICTIONS: dict[str, Callable[[World], list[model.Record]]] = {
    "offset 4, 5 is next": lambda w: [next_file(w, base_offset=4)],
    "offset 6, 5 is next": lambda w: [next_file(w, base_offset=6)],
    "-9, which does not exist here": lambda w: [next_file(w, partition=9)],
    "epoch 0 after epoch 1": lambda w: [next_file(w, producer_epoch=0)],
    "sequence 2 of epoch 1, 3 is next": lambda w: [next_file(w, base_sequence=2)],
    "sequence 4 of epoch 1, 3 is next": lambda w: [next_file(w, base_sequence=4)],
    "sequence 3 of epoch 2, 0 is next": lambda w: [next_file(w, producer_epoch=2)],
    "producer 7 in orders-3: sequence 3 of epoch 1, 0 is next": lambda w: [next_file(w, partition=3, base_offset=0)],
    "file a was committed by entry": lambda w: [next_file(w, key="a")],
    "a file is alone in its entry": lambda w: [next_file(w), model.NoOp()],
    "file c is committed beside other records": lambda w: [
        next_file(w),
        next_file(w, key="d", base_offset=8, base_sequence=6),
    ],
    "is not at seq 0": lambda w: [model.LeadershipClaimed(epoch=2, term=5, node_id=1, rack="", endpoints=[])],
    "up to 6, past the high watermark 5": lambda w: [deleted_to(6)],
    "up to 1, past the high watermark 0": lambda w: [created(0, 2), deleted_to(1, 1, OTHER)],
    "up to 2, past the high watermark 0": lambda w: [
        model.TopicDeleted(topic_id=TOPIC, order_offset=0),
        created(0, 1, TOPIC),
        deleted_to(2),
    ],
    "a topic has at most": lambda w: [created(0, TOPIC_PARTITIONS_MAX + 1)],
    "gets partitions -1 to 0": lambda w: [created(-1, 2)],
    "topic huge gets partitions": lambda w: [
        model.TopicPlaced(
            topic_id=OTHER,
            name="huge",
            ranges=[model.PlacedRange(first_partition=0, num_partitions=2**31 - 1, coordinator_id=0)],
            confirmed=False,
        )
    ],
    "file a is removed though 1 of its batches are live": lambda w: [model.FilesRemoved(object_keys=["x", "a"])],
    "file b is fenced though entry 3 committed it": lambda w: [model.FilesFenced(object_keys=["b"], created_ms=[5])],
    "file b is handed over though 2 of its batches are live": lambda w: [
        model.FilesHandedOver(object_keys=["x", "b"], next_owner_ids=[1, 1])
    ],
}


@pytest.mark.parametrize("reason", CONTRADICTIONS)
def test_an_entry_that_contradicts_the_state_changes_nothing(reason: str) -> None:
    world, first, second = led()
    before, fence = state_of(second.view.state), second.view.fence
    at = len(world.log)
    forge(world, first, CONTRADICTIONS[reason](world))
    effects_before = len(second.effects)
    second.read()
    assert second.view.failure is None
    assert state_of(second.view.state) == before
    assert second.view.state.applied_offset == at
    assert second.view.fence.seq == fence.seq + 1
    assert second.view.void_entries == {"contradiction": 1}
    [told] = [effect for effect in second.effects[effects_before:] if isinstance(effect, Contradicted)]
    assert told.is_certain
    assert (told.entry.offset, told.entry.epoch, told.entry.term) == (at, fence.epoch, fence.term)
    assert reason in told.entry.reason


LAWFUL: dict[str, Callable[[World], list[model.Record]]] = {
    "the next sequence": lambda w: [next_file(w)],
    "a new epoch from 0 on": lambda w: [next_file(w, producer_epoch=2, base_sequence=0)],
    "any sequence of a producer that is not known": lambda w: [next_file(w, producer_id=8, base_sequence=77)],
    "records deleted up to the end": lambda w: [deleted_to(5)],
    "records deleted in an unknown partition": lambda w: [deleted_to(9, 9)],
    "records deleted in a topic deleted by the same entry": lambda w: [model.TopicDeleted(topic_id=TOPIC, order_offset=0), deleted_to(9)],
    "a deletion of an unknown topic": lambda w: [model.TopicDeleted(topic_id=OTHER, order_offset=0)],
    "removing what is not known": lambda w: [model.FilesRemoved(object_keys=["x"])],
    "partitions that are there": lambda w: [created(0, 2, TOPIC)],
}


@pytest.mark.parametrize("what", LAWFUL)
def test_what_only_looks_odd_is_applied(what: str) -> None:
    world, first, second = led()
    forge(world, first, LAWFUL[what](world))
    second.read()
    assert second.view.failure is None
    assert not second.view.void_entries
    assert second.view.contradiction is None


def test_a_key_with_a_tombstone_is_not_committed() -> None:
    world, first, second = led()
    forge(world, first, [model.FilesFenced(object_keys=["c"], created_ms=[5])], [next_file(world)])
    second.read()
    assert "file c is committed though its key has a tombstone (fenced)" in str(second.view.contradiction)
    assert second.view.state.find_file("c") is None


def test_a_file_is_removed_once_all_of_it_is_deleted_however_far_the_counting_is() -> None:
    world, first, second = led()
    forge(world, first, [deleted_to(5)], [model.FilesRemoved(object_keys=["a"])])
    second.read()
    assert not second.view.void_entries
    assert second.view.state.find_file("a") is None


def reloaded(replica: HarnessReplica) -> HarnessReplica:
    """A replica with the state of another, as a database would give it back; it reads on from there."""
    return HarnessReplica(replica.world, 9, Limits(), 0, 4, loaded_from=replica.view)


def test_a_state_that_was_loaded_is_suspected_first_and_a_folded_one_decides() -> None:
    world, first, second = led()
    loaded = reloaded(second)
    forge(world, first, [next_file(world, base_offset=4)], [next_file(world)])
    loaded.read()
    assert loaded.view.phase is State.FAILED
    assert "contradicts this state, which is built anew" in (loaded.view.failure or "")
    [told] = [effect for effect in loaded.effects if isinstance(effect, Contradicted)]
    assert not told.is_certain
    assert loaded.view.state.applied_offset < told.entry.offset
    rebuilt = world.add_replica()
    rebuilt.read()
    assert rebuilt.view.failure is None
    assert rebuilt.view.void_entries == {"contradiction": 1}
    assert rebuilt.view.state.find_file("c") is not None


def test_a_leader_that_is_accused_ends_its_term_and_fails() -> None:
    _world, first, _second = led()
    [token] = first.submit(commit("late", [batch(0)]))
    fence = first.view.fence
    first.feed(Accused(contradiction=ContradictoryEntry(5, fence.epoch, fence.term, "offset 4, 5 is next"), accuser_id=3))
    assert first.view.phase is State.FAILED
    assert "node 3 reads entry 5 of this term as a contradiction (offset 4, 5 is next)" in (first.view.failure or "")
    assert set(result_of(first.answers[token]).errors) == {16}


@pytest.mark.parametrize(("epoch", "term"), [(1, 5), (2, None)])
def test_an_accusation_of_another_term_is_nothing(epoch: int, term: int | None) -> None:
    _world, first, second = led()
    fence = first.view.fence
    told = Accused(contradiction=ContradictoryEntry(5, epoch, fence.term if term is None else term, "no"), accuser_id=3)
    assert first.feed(told) == []
    assert first.view.phase is State.LEADING
    assert second.feed(told) == []
    assert second.view.phase is State.FOLLOWING


def test_a_leader_whose_entry_a_stranger_forged_ends_its_term_and_goes_on_behind_it() -> None:
    world, first, second = led()
    forge(world, first, [next_file(world, base_offset=4)])
    [token] = first.submit(commit("c", [batch(0, 2)]))
    world.settle()
    # Its own entry with the forged seq is void; it claims again, and a retry is accepted where it belongs.
    assert set(result_of(first.answers[token]).errors) == {16}
    [answer] = first.ask(commit("c", [batch(0, 2)]))
    assert result_of(answer).base_offsets == [5]
    world.settle()
    assert state_of(second.view.state) == state_of(first.view.state)
    assert first.ask(Barrier()) != []
