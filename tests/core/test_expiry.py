"""What a leader forgets by the log's clock: producers and deleted topics; every replica forgets the same."""

from __future__ import annotations

import pytest

from coordinator.core.commands import (
    Answer,
    CommitResult,
    ConfirmDeleted,
    CreateTopics,
    DeleteTopics,
    Outcome,
    RemoveTopics,
    TopicRemoval,
    WantedTopic,
)
from coordinator.core.limits import Limits
from coordinator.core.state.expiry import PRODUCERS_PER_ENTRY, TOMBSTONES_PER_ENTRY, decide_expiry
from coordinator.core.state.packing import Packer
from coordinator.core.state.replica_state import ShardState
from coordinator.kafka.errors import ErrorCode
from records.codec import decode_entry
from records.model import FilesFenced, NoOp, ProducersExpired, Record, TombstonesExpired
from simulation.fakes.shard_harness import EmptyColdStore, HarnessReplica, World
from simulation.fakes.state_store import MemoryStateStore
from tests.core.build import OTHER_TOPIC, TOPIC, batch, commit, place, result_of, view_of

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
E = ErrorCode


def started(limits: Limits | None = None) -> tuple[World, HarnessReplica]:
    """A replica that leads, has a topic, and has looked for what is old just now."""
    world = World()
    replica = world.add_replica(limits=limits)
    replica.lead()
    replica.ask(place(count=2))
    replica.tick()
    return world, replica


def expiries(world: World) -> list[list[Record]]:
    """The entries of the log that forget something."""
    entries = [decode_entry(value) for _, value in world.log if value is not None]
    return [records for records in entries if any(isinstance(record, ProducersExpired | TombstonesExpired) for record in records)]


def advance(replica: HarnessReplica, passed_ms: int, key: str) -> None:
    """Time passes, and a commit shows the log that it did."""
    replica.world.now_ms += passed_ms
    assert result_of(replica.ask(commit(key, [batch(1, 1)]))[0]).errors == [0]


def producers_of(replica: HarnessReplica) -> set[int]:
    producers = replica.view.state.hot.producers
    return {producers.producer.cells[row] for row in producers.rows.rows().tolist()}


def errors_of(answer: Answer) -> list[int]:
    if isinstance(answer, CommitResult):
        return answer.errors
    assert isinstance(answer, list)
    return [int(outcome.error) for outcome in answer if isinstance(outcome, Outcome)]


@pytest.mark.parametrize(("age_ms", "is_known"), [(DAY_MS, True), (DAY_MS + 1, False)])
def test_a_producer_is_forgotten_when_the_log_is_older_than_its_last_batch_by_more_than_the_limit(age_ms: int, is_known: bool) -> None:
    world, replica = started()
    replica.ask(commit("a", [batch(0, 3, sequence=0)]))
    advance(replica, age_ms, "b")
    replica.tick()
    world.settle()
    assert producers_of(replica) == ({5} if is_known else set())
    [answer] = replica.ask(commit("c", [batch(0, 1, sequence=40)]))
    assert errors_of(answer) == ([E.OUT_OF_ORDER_SEQUENCE_NUMBER] if is_known else [E.NONE])


def test_only_producers_without_a_recent_batch_go_and_the_entry_says_before_when() -> None:
    world, replica = started()
    replica.ask(commit("a", [batch(0, 1, sequence=0), batch(0, 1, sequence=0, producer_id=6)]))
    advance(replica, DAY_MS - HOUR_MS, "b")
    replica.ask(commit("c", [batch(0, 1, sequence=1)]))
    advance(replica, 2 * HOUR_MS, "d")
    replica.tick()
    world.settle()
    assert expiries(world) == [[ProducersExpired(before_ms=world.now_ms - DAY_MS)]]
    assert producers_of(replica) == {5}


def test_the_wall_clock_alone_expires_nothing_and_writes_nothing() -> None:
    world, replica = started()
    replica.ask(commit("a", [batch(0, 1, sequence=0)]))
    end = len(world.log)
    replica.tick(30 * DAY_MS)
    world.settle()
    assert len(world.log) == end
    assert producers_of(replica) == {5}


def test_the_leader_looks_once_per_interval() -> None:
    world, replica = started(Limits(producer_id_expiration_ms=1000, expiration_interval_ms=MINUTE_MS))
    replica.ask(commit("a", [batch(0, 1, sequence=0)]))
    advance(replica, 30_000, "b")
    replica.tick()
    world.settle()
    assert expiries(world) == []
    replica.tick(29_999)
    world.settle()
    assert expiries(world) == []
    replica.tick(1)
    world.settle()
    assert len(expiries(world)) == 1


def test_an_expiry_under_way_is_not_written_again_and_decides_for_what_comes_behind_it() -> None:
    world, replica = started(Limits(producer_id_expiration_ms=1000, expiration_interval_ms=1))
    replica.ask(commit("a", [batch(0, 1, sequence=0)]))
    advance(replica, 5000, "b")
    replica.tick(1)
    replica.tick(1)
    replica.tick(1)
    assert len(replica.outbox) == 1
    [answer] = replica.ask(commit("c", [batch(0, 1, sequence=40)]))
    assert errors_of(answer) == [E.NONE]
    assert len(expiries(world)) == 1


def test_a_full_pipeline_postpones_the_expiry() -> None:
    world, replica = started(Limits(producer_id_expiration_ms=1000, expiration_interval_ms=1, groups_in_flight_max=1))
    replica.ask(commit("a", [batch(0, 1, sequence=0)]))
    advance(replica, 5000, "b")
    replica.submit(commit("c", [batch(1, 1)]))
    replica.tick(1)
    assert len(replica.outbox) == 1
    world.settle()
    replica.tick(1)
    world.settle()
    assert len(expiries(world)) == 1


def test_a_follower_never_writes_an_expiry() -> None:
    world, leader = started(Limits(producer_id_expiration_ms=1000, expiration_interval_ms=1))
    follower = world.add_replica(limits=Limits(producer_id_expiration_ms=1000, expiration_interval_ms=1))
    leader.ask(commit("a", [batch(0, 1, sequence=0)]))
    advance(leader, 5000, "b")
    follower.tick(1000)
    assert not follower.outbox
    assert producers_of(follower) == {5}


def test_many_producers_go_in_bounded_entries_oldest_first() -> None:
    half = PRODUCERS_PER_ENTRY // 2
    world, replica = started(Limits(producer_id_expiration_ms=1000, expiration_interval_ms=1))
    for producer in range(5):
        rows = [batch(0, 1, sequence=0, producer_id=producer * half + number) for number in range(half)]
        replica.ask(commit(f"a{producer}", rows))
        world.now_ms += 1
    advance(replica, 5000, "b")
    left: list[set[int]] = []
    for _ in range(4):
        replica.tick(1)
        world.settle()
        left.append({producer // half for producer in producers_of(replica)})
    assert left == [{2, 3, 4}, {4}, set(), set()]
    assert len(expiries(world)) == 3


def test_a_follower_and_a_replica_from_the_database_hold_what_the_leader_holds() -> None:
    world, leader = started()
    follower = world.add_replica()
    leader.ask(commit("a", [batch(0, 1, sequence=0), batch(0, 1, sequence=0, producer_id=6)]))
    leader.ask(RemoveTopics(removals=[TopicRemoval(topic_id=OTHER_TOPIC, order_offset=9)]))
    world.settle()
    # A file of this size is decided with numpy; it is also the one that dates the deletion.
    world.now_ms += HOUR_MS
    leader.ask(commit("b", [batch(1, 1)] * 60))
    assert leader.view.state.hot.deleted_topics[OTHER_TOPIC].time_ms == world.now_ms
    store = MemoryStateStore()
    packer = Packer()
    flush(leader, store, packer)
    advance(leader, 8 * DAY_MS, "c")
    leader.ask(commit("d", [batch(0, 1, sequence=0, producer_id=7)]))
    leader.tick()
    world.settle()
    assert expiries(world) != []
    assert producers_of(leader) == {7}
    assert OTHER_TOPIC not in leader.view.state.hot.deleted_topics
    assert view_of(follower.view.state.hot) == view_of(leader.view.state.hot)
    flush(leader, store, packer)
    stored = store.load()
    assert stored is not None
    restored = ShardState.restore(stored, store)
    assert view_of(restored.hot) == view_of(leader.view.state.hot)
    assert [topic.topic_id for topic in stored.topics] == [TOPIC]


def flush(replica: HarnessReplica, store: MemoryStateStore, packer: Packer) -> None:
    state = replica.view.state
    store.write(packer.pack(state.freeze(replica.shard.header("cluster", b"t" * 16))))
    state.written()


# ---- tombstones of files


@pytest.mark.parametrize(("age_ms", "is_known"), [(HOUR_MS, True), (HOUR_MS + 1, False)])
def test_a_fenced_key_is_forgotten_when_its_file_is_older_than_the_retention(age_ms: int, is_known: bool) -> None:
    state = ShardState(cold=EmptyColdStore())
    state.hot.log_time_ms = 10 * DAY_MS
    record = FilesFenced(object_keys=["old", "timeless"], created_ms=[10 * DAY_MS - age_ms, -1])
    state.apply_entry([record], 0)
    records, has_more = decide_expiry(state.hot, state.tombstone_ages, Limits())
    assert not has_more
    assert bool(records) is not is_known
    if records:
        state.apply_entry(records, 1)
    assert (state.find_tombstone("old") is not None) is is_known
    assert state.may_know("old") is is_known, "known keys do not grow for ever"
    assert state.find_tombstone("timeless") is not None
    assert len(state.tombstone_ages) == 1 + is_known


def test_a_key_that_is_fenced_again_expires_by_its_newest_tombstone() -> None:
    state = ShardState(cold=EmptyColdStore())
    for offset, created_ms in enumerate((5, 500)):
        state.apply_entry([FilesFenced(object_keys=["k"], created_ms=[created_ms])], offset)
    state.apply_entry([TombstonesExpired(keys_before_ms=100, topics_before_ms=0)], 2)
    assert state.find_tombstone("k") is not None
    state.apply_entry([TombstonesExpired(keys_before_ms=501, topics_before_ms=0)], 3)
    assert not state.may_know("k")


def test_one_entry_forgets_a_bounded_number_of_keys_the_oldest_first() -> None:
    state = ShardState(cold=EmptyColdStore())
    state.hot.log_time_ms = 10 * DAY_MS
    count = TOMBSTONES_PER_ENTRY + 1
    state.apply_entry([FilesFenced(object_keys=[f"k{n}" for n in range(count)], created_ms=list(range(count)))], 0)
    for offset, left in ((1, 1), (2, 0)):
        records, has_more = decide_expiry(state.hot, state.tombstone_ages, Limits())
        assert has_more == bool(left)
        state.apply_entry(records, offset)
        assert len(state.known_keys) == len(state.tombstone_ages) == left
    assert decide_expiry(state.hot, state.tombstone_ages, Limits()) == ([], False)


# ---- deleted topics


def test_an_owner_forgets_a_deleted_id_after_its_retention_and_may_then_have_it_again() -> None:
    world, replica = started()
    replica.ask(RemoveTopics(removals=[TopicRemoval(topic_id=OTHER_TOPIC, order_offset=9)]))
    advance(replica, HOUR_MS, "a")
    advance(replica, 7 * DAY_MS, "b")
    replica.tick()
    world.settle()
    assert OTHER_TOPIC in replica.view.state.hot.deleted_topics
    advance(replica, MINUTE_MS, "c")
    replica.tick()
    world.settle()
    assert expiries(world) == [[TombstonesExpired(keys_before_ms=0, topics_before_ms=world.now_ms - 7 * DAY_MS)]]
    assert OTHER_TOPIC not in replica.view.state.hot.deleted_topics
    [answer] = replica.ask(place(OTHER_TOPIC, name="again", order=12))
    assert errors_of(answer) == [E.NONE]


def test_a_deletion_on_a_quiet_coordinator_is_remembered_from_the_next_commit_on() -> None:
    # The log's newest time may be weeks old when the topic goes: counted from it, the id would be free at once.
    world, replica = started()
    replica.ask(commit("a", [batch(0, 1)]))
    world.now_ms += 30 * DAY_MS
    replica.ask(RemoveTopics(removals=[TopicRemoval(topic_id=OTHER_TOPIC, order_offset=9)]))
    advance(replica, 1, "b")
    replica.tick()
    world.settle()
    assert expiries(world) == []
    [answer] = replica.ask(place(OTHER_TOPIC, name="again", order=12))
    assert errors_of(answer) == [E.UNKNOWN_TOPIC_ID]
    advance(replica, 7 * DAY_MS + 1, "c")
    replica.tick()
    world.settle()
    [answer] = replica.ask(place(OTHER_TOPIC, name="again", order=12))
    assert errors_of(answer) == [E.NONE]


def test_the_directory_forgets_a_deletion_only_when_its_owners_have_logged_it() -> None:
    world, replica = started()
    wanted = WantedTopic(topic_id=OTHER_TOPIC, name="other", num_partitions=1)
    replica.ask(CreateTopics(topics=[wanted], eligible={0: 2}))
    replica.ask(DeleteTopics(topic_ids=[OTHER_TOPIC]))
    advance(replica, 1, "a")
    advance(replica, 8 * DAY_MS, "b")
    replica.tick()
    world.settle()
    assert OTHER_TOPIC in replica.view.state.hot.directory.deletions
    replica.ask(ConfirmDeleted(topic_id=OTHER_TOPIC))
    replica.tick(MINUTE_MS)
    world.settle()
    assert replica.view.state.hot.directory.deletions == {}
    answers = replica.ask(DeleteTopics(topic_ids=[OTHER_TOPIC]))
    assert errors_of(answers[0]) == [E.UNKNOWN_TOPIC_ID]


def test_what_waits_for_its_time_survives_a_restart_from_the_database() -> None:
    _, replica = started()
    wanted = WantedTopic(topic_id=OTHER_TOPIC, name="other", num_partitions=1)
    replica.ask(CreateTopics(topics=[wanted], eligible={0: 2}), DeleteTopics(topic_ids=[OTHER_TOPIC]))
    replica.ask(RemoveTopics(removals=[TopicRemoval(topic_id=OTHER_TOPIC, order_offset=9)]))
    store = MemoryStateStore()
    flush(replica, store, Packer())
    stored = store.load()
    assert stored is not None
    restored = ShardState.restore(stored, store)
    assert restored.hot.undated == {OTHER_TOPIC}
    assert restored.hot.directory.undated == {OTHER_TOPIC}
    for state in (replica.view.state, restored):
        state.hot.advance_time(77_000, 78_000)
        state.apply_entry([NoOp()], state.applied_offset + 1)
    assert view_of(restored.hot) == view_of(replica.view.state.hot)
    assert restored.hot.deleted_topics[OTHER_TOPIC].time_ms == 77_000
    assert restored.hot.directory.deletions[OTHER_TOPIC].time_ms == 77_000
