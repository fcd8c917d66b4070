"""Classic partitions that become diskless: what each step may do, what it changes, and what is answered meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from coordinator.core.commands import (
    OK,
    DeletedTo,
    DescribeDisklessLogs,
    DescribedLog,
    LogFacts,
    LogInit,
    LogOrigin,
    LogRepair,
    LogReset,
    MigratedLog,
    MigratePartitions,
    MigrationStep,
    NamedLog,
    OffsetQuery,
    PlacePartitions,
    PrefixReport,
    TopicShare,
)
from coordinator.core.events import SchemaLevel
from coordinator.core.reads.queries import list_offset
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.timestamps import EARLIEST, EARLIEST_LOCAL, LATEST, MAX_TIMESTAMP
from records.codec import decode_entry, encode_entry
from records.entry_key import EntryKey, encode_key
from records.model import (
    DisklessLogInitialized,
    DisklessLogRepaired,
    DisklessLogReset,
    NoOp,
    PartitionCreated,
    PrefixStartReported,
    Record,
    RecordsDeleted,
    SeededProducerBatch,
)
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import TOPIC, batch, commit, delete_records, found, list_offsets, place, result_of, state_of

CLASSIC = b"c" * 16
B0 = 100
PRODUCER = 7
E = ErrorCode


def seeds(count: int = 3, *, producer_id: int = PRODUCER, epoch: int = 2) -> list[SeededProducerBatch]:
    """Batches of 10 records each, the last one ends at sequence 10 * `count` - 1 and offset 99."""
    return [
        SeededProducerBatch(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=10 * n,
            last_sequence=10 * n + 9,
            base_offset=B0 - 10 * (count - n),
            timestamp_ms=-1,
        )
        for n in range(count)
    ]


def init(start: int = B0, prefix: int = 20, epoch: int = 4, producers: Sequence[SeededProducerBatch] = (), partition: int = 0) -> LogInit:
    return LogInit(CLASSIC, partition, start, prefix, epoch, list(producers), max((one.base_offset for one in producers), default=-1))


def reset(epoch: int) -> LogReset:
    return LogReset(CLASSIC, 0, epoch)


def repair(start: int, epoch: int = 4, *, is_dry_run: bool = False) -> LogRepair:
    return LogRepair(CLASSIC, 0, start, epoch, is_dry_run)


def report(prefix: int, epoch: int = 4) -> PrefixReport:
    return PrefixReport(CLASSIC, 0, prefix, epoch)


def pending(level: int = 2) -> tuple[World, HarnessReplica, HarnessReplica]:
    """The first of two replicas leads; of its topics one was born diskless, and a classic one of two partitions is not initialised."""
    world = World()
    leader, follower = world.add_replica(), world.add_replica()
    leader.lead()
    for replica in (leader, follower):
        replica.feed(SchemaLevel(level))
    share = TopicShare(topic_id=CLASSIC, name="old", first_partition=0, num_partitions=2, order_offset=2, classic_pending=True)
    leader.ask(place(), PlacePartitions(shares=[share]))
    return world, leader, follower


def begun(**fields: object) -> tuple[World, HarnessReplica, HarnessReplica]:
    world, leader, follower = pending()
    [answer] = step(leader, init(**fields))  # type: ignore[arg-type]
    assert answer.outcome is OK
    return world, leader, follower


def step(replica: HarnessReplica, *steps: MigrationStep) -> list[MigratedLog]:
    answers = replica.ask(MigratePartitions(steps=steps))[0]
    assert isinstance(answers, list)
    return answers  # type: ignore[return-value]


def error(replica: HarnessReplica, one: MigrationStep) -> ErrorCode:
    [answer] = step(replica, one)
    return answer.outcome.error


def facts(replica: HarnessReplica, partition: int = 0, topic_id: bytes = CLASSIC) -> LogFacts:
    [[answer]] = replica.ask(DescribeDisklessLogs(partitions=[NamedLog(topic_id, partition)]))
    assert isinstance(answer, DescribedLog)
    assert answer.outcome is OK
    return answer.facts


def classic(base: int = 0, count: int = 1, **fields: int) -> dict[str, object]:
    return batch(base, count, topic_id=CLASSIC, **fields)


def offset(replica: HarnessReplica, timestamp: int) -> tuple[int, int]:
    answer = list_offset(replica.view.state, OffsetQuery(CLASSIC, 0, timestamp))
    return answer.timestamp, answer.offset


# ---- where a partition stands


def test_a_classic_partition_is_pending_and_others_are_born_diskless() -> None:
    _, leader, follower = pending()
    assert facts(leader) == LogFacts()
    assert facts(leader).origin is LogOrigin.PENDING
    assert facts(leader, topic_id=TOPIC).origin is LogOrigin.BORN
    assert leader.view.migration_counts() == (2, 0)
    step(leader, init(epoch=0), reset(3)._replace(partition=1))
    assert leader.view.migration_counts() == (1, 1)
    assert state_of(leader.view.state) == state_of(follower.view.state)


@pytest.mark.parametrize("start", [0, B0])
def test_an_initialised_partition_begins_at_b0_wherever_that_is(start: int) -> None:
    _, leader, _ = begun(start=start, prefix=0)
    assert facts(leader) == LogFacts(start, 0, start, start, 4)
    assert facts(leader).origin is LogOrigin.INITIALISED


def test_before_level_2_no_partition_is_created_pending() -> None:
    _, leader, _ = pending(level=1)
    assert error(leader, init()) is E.UNKNOWN_TOPIC_ID


# ---- while a partition is pending


def test_a_commit_that_touches_a_pending_partition_logs_nothing_and_heals() -> None:
    world, leader, _ = pending()
    command = commit("a", [batch(0, 2), classic()])
    result = result_of(leader.ask(command)[0])
    assert result.errors == [E.COORDINATOR_NOT_AVAILABLE, E.NOT_LEADER_OR_FOLLOWER]
    assert "retry" in str(result.messages[1])
    assert decode_entry(world.log[-1][1] or b"") == [NoOp()]
    step(leader, init())
    again = result_of(leader.ask(command)[0])
    assert (again.errors, again.base_offsets) == ([0, 0], [0, B0])


def test_reads_and_deletions_of_a_pending_partition_are_answered_retriably() -> None:
    _, leader, _ = pending()
    [offsets] = leader.ask(list_offsets((0, LATEST), (0, EARLIEST), (0, 5), topic_id=CLASSIC))
    assert [one.outcome.error for one in offsets] == [E.NOT_LEADER_OR_FOLLOWER] * 3  # type: ignore[union-attr]
    [batches] = found(leader.view.state, [(0, 0, 10)], topic_id=CLASSIC)
    assert batches is not None
    assert batches.outcome.error is E.NOT_LEADER_OR_FOLLOWER
    [[deleted]] = leader.ask(delete_records((0, 0), topic_id=CLASSIC))  # type: ignore[misc]
    assert deleted.outcome.error is E.NOT_LEADER_OR_FOLLOWER  # type: ignore[union-attr]
    assert error(leader, report(0)) is E.NOT_LEADER_OR_FOLLOWER
    assert error(leader, repair(0)) is E.INVALID_REQUEST


# ---- beginning


def test_offsets_and_sequences_go_on_where_the_classic_log_ended() -> None:
    _, leader, follower = begun(producers=seeds())
    rows = [
        classic(0, 10, sequence=20, producer_id=PRODUCER, producer_epoch=2),  # a retry of the newest classic batch
        classic(0, 10, sequence=0, producer_id=PRODUCER, producer_epoch=2),  # and of the oldest
        classic(0, 5, sequence=30, producer_id=PRODUCER, producer_epoch=2),
        classic(0, 5, sequence=36, producer_id=PRODUCER, producer_epoch=2),
        classic(0, 1, sequence=0, producer_id=PRODUCER, producer_epoch=1),
        classic(0, 1, sequence=55, producer_id=8, producer_epoch=0),
    ]
    result = result_of(leader.ask(commit("a", rows))[0])
    assert result.errors == [0, 0, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.INVALID_PRODUCER_EPOCH, 0]
    assert result.duplicates == [True, True, False, False, False, False]
    assert result.base_offsets == [90, 70, 100, -1, -1, 105]
    assert state_of(leader.view.state) == state_of(follower.view.state)


@pytest.mark.parametrize(("start", "errors"), [(100, [0, 0]), (0, [E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0])], ids=["records", "none"])
def test_the_first_sequence_of_a_producer_without_seeds_depends_on_the_classic_records(start: int, errors: list[int]) -> None:
    """Its state may have expired in the classic log; a classic log without records had none."""
    _, leader, follower = begun(start=start, prefix=0)
    rows = [classic(0, 5, sequence=55, producer_id=8, producer_epoch=0), classic(0, 5, sequence=0, producer_id=9, producer_epoch=0)]
    assert result_of(leader.ask(commit("a", rows))[0]).errors == errors
    assert state_of(leader.view.state) == state_of(follower.view.state)


def test_a_retry_of_a_batch_of_log_append_time_gets_its_time() -> None:
    seed = [dataclasses.replace(one, timestamp_ms=1234) for one in seeds(1)]
    _, leader, _ = begun(producers=seed)
    row = classic(0, 10, sequence=0, producer_id=PRODUCER, producer_epoch=2, timestamp_type=1)
    result = result_of(leader.ask(commit("a", [row]))[0])
    assert (result.duplicates, result.append_times) == ([True], [1234])


@pytest.mark.parametrize("epoch", [4, 5], ids=["same", "later"])
def test_the_same_b0_again_is_a_success_whoever_asks(epoch: int) -> None:
    world, leader, follower = begun(producers=seeds())
    leader.ask(commit("a", [classic(0, 5, sequence=30, producer_id=PRODUCER, producer_epoch=2)]))
    length = len(world.log)
    assert error(leader, init(prefix=0, epoch=epoch, producers=seeds(2))) is E.NONE
    assert facts(leader) == LogFacts(B0, 20, B0, B0 + 5, epoch)
    logged = [one for _, value in world.log[length:] for one in decode_entry(value or b"") if isinstance(one, DisklessLogInitialized)]
    assert [one.producers for one in logged] == [[]] * (epoch - 4)
    row = classic(0, 1, sequence=35, producer_id=PRODUCER, producer_epoch=2)
    assert result_of(leader.ask(commit("b", [row]))[0]).errors == [0]
    assert state_of(leader.view.state) == state_of(follower.view.state)


INIT_FAULTS: dict[str, tuple[LogInit, ErrorCode]] = {
    "epoch of a replaced leader": (init(epoch=3), E.FENCED_LEADER_EPOCH),
    "epoch of a replaced leader, and nonsense": (init(start=-5, epoch=3), E.FENCED_LEADER_EPOCH),
    "other b0": (init(start=B0 + 1), E.INVALID_REQUEST),
    "other b0 of a later leader": (init(start=B0 - 1, epoch=9), E.INVALID_REQUEST),
    "negative": (init(start=-1, prefix=-1), E.INVALID_REQUEST),
    "prefix beyond b0": (init(prefix=B0 + 1), E.INVALID_REQUEST),
}


@pytest.mark.parametrize("name", INIT_FAULTS)
def test_a_begun_log_refuses_what_is_not_the_same(name: str) -> None:
    world, leader, _ = begun()
    before, length = state_of(leader.view.state), len(world.log)
    asked, expected = INIT_FAULTS[name]
    [answer] = step(leader, asked)
    assert answer.outcome.error is expected
    assert answer.outcome.message is not None
    assert answer.outcome.message.startswith("old-0: ")
    assert state_of(leader.view.state) == before
    assert not any(isinstance(one, DisklessLogInitialized) for _, value in world.log[length:] for one in decode_entry(value or b""))


SEED = seeds(1)[0]
SEED_FAULTS: dict[str, list[SeededProducerBatch]] = {
    "at b0": [dataclasses.replace(SEED, base_offset=B0)],
    "negative offset": [dataclasses.replace(SEED, base_offset=-1)],
    "negative producer": [dataclasses.replace(SEED, producer_id=-1)],
    "epoch beyond 16 bits": [dataclasses.replace(SEED, producer_epoch=1 << 15)],
    "negative sequence": [dataclasses.replace(SEED, base_sequence=-1)],
    "timestamp": [dataclasses.replace(SEED, timestamp_ms=-2)],
    "six": seeds(6),
    "twice": [*seeds(1), *seeds(1, producer_id=9), *seeds(1)],
    "two epochs": [*seeds(1), dataclasses.replace(SEED, producer_epoch=3, base_offset=95)],
    "not in order": seeds(2)[::-1],
}


@pytest.mark.parametrize("name", SEED_FAULTS)
def test_seeds_that_cannot_be_are_refused_and_void(name: str) -> None:
    world, leader, follower = pending()
    assert error(leader, init(producers=SEED_FAULTS[name])) is E.INVALID_REQUEST
    assert facts(leader) == LogFacts()
    before = state_of(follower.view.state)
    forge(world, leader, started(producers=SEED_FAULTS[name]))
    follower.read()
    assert state_of(follower.view.state) == before


def test_a_batch_that_ends_at_b0_is_refused() -> None:
    _, leader, _ = pending()
    assert error(leader, init(producers=seeds())._replace(last_offset=B0)) is E.INVALID_REQUEST
    assert error(leader, init(producers=seeds())._replace(last_offset=B0 - 1)) is E.NONE


def test_born_partitions_unknown_ones_and_doubled_ones_are_refused() -> None:
    _, leader, _ = pending()
    assert error(leader, init()._replace(topic_id=TOPIC, start_offset=0, prefix_start=0)) is E.INVALID_REQUEST
    assert error(leader, init(partition=5)) is E.UNKNOWN_TOPIC_OR_PARTITION
    assert error(leader, init()._replace(topic_id=b"?" * 16)) is E.UNKNOWN_TOPIC_ID
    answers = step(leader, init(), init(partition=1), init())
    assert [one.outcome.error for one in answers] == [E.NONE, E.NONE, E.INVALID_REQUEST]


# ---- the classic part


def test_earliest_is_the_start_of_the_classic_part_as_long_as_there_is_one() -> None:
    _, leader, _ = begun(prefix=20)
    leader.ask(commit("a", [classic(0, 5), classic(0, 5)]))
    assert [offset(leader, which)[1] for which in (EARLIEST, EARLIEST_LOCAL, LATEST)] == [20, B0, B0 + 10]
    assert [error(leader, report(prefix)) for prefix in (60, 40, 60)] == [E.NONE] * 3
    assert offset(leader, EARLIEST)[1] == 60
    assert error(leader, report(B0 + 1)) is E.INVALID_REQUEST
    assert error(leader, report(70, epoch=3)) is E.FENCED_LEADER_EPOCH
    leader.ask(delete_records((0, B0 + 7), topic_id=CLASSIC))
    assert [offset(leader, which)[1] for which in (EARLIEST, EARLIEST_LOCAL)] == [60, B0 + 7]
    assert error(leader, report(B0)) is E.NONE
    assert offset(leader, EARLIEST)[1] == B0 + 7


def deleted(leader: HarnessReplica, *offsets: int) -> list[tuple[E, int]]:
    [answers] = leader.ask(delete_records(*((0, offset) for offset in offsets), topic_id=CLASSIC))
    assert isinstance(answers, list)
    return [(one.outcome.error, one.low_watermark) for one in answers if isinstance(one, DeletedTo)]


def test_records_below_b0_are_not_deleted_here_and_that_is_said() -> None:
    world, leader, _ = begun(prefix=20)
    length = len(world.log)
    for refused_offset in (21, 50, B0, -1):  # -1 is B0 too: nothing is behind it
        assert deleted(leader, refused_offset) == [(E.OFFSET_OUT_OF_RANGE, -1)]
    [[answer]] = leader.ask(delete_records((0, 50), topic_id=CLASSIC))  # type: ignore[misc]
    told = "the records from offset 20 to 99 are in the classic topic, where Kafka deletes them"
    assert told in (answer.outcome.message or "")  # type: ignore[union-attr]
    assert deleted(leader, 0, 20) == [(E.NONE, 20)] * 2  # nothing is there
    assert not any(isinstance(one, RecordsDeleted) for _, value in world.log[length:] for one in decode_entry(value or b""))


def test_deletions_behind_b0_tell_what_stays_in_the_classic_part() -> None:
    _, leader, _ = begun(prefix=20)
    leader.ask(commit("a", [classic(0, 5), classic(0, 5)]))
    assert deleted(leader, B0 + 5, B0 + 3, B0) == [(E.NONE, 20), (E.NONE, 20), (E.OFFSET_OUT_OF_RANGE, -1)]
    assert offset(leader, EARLIEST_LOCAL)[1] == B0 + 5
    assert error(leader, report(B0)) is E.NONE  # the classic part is gone
    assert deleted(leader, 50, B0, B0 + 7, -1) == [(E.NONE, B0 + 5)] * 2 + [(E.NONE, B0 + 7), (E.NONE, B0 + 10)]


def test_fetches_below_b0_are_out_of_range() -> None:
    _, leader, _ = begun()
    [answer] = found(leader.view.state, [(0, B0 - 1, 10)], topic_id=CLASSIC)
    assert answer is not None
    assert (answer.outcome.error, answer.log_start, answer.high_watermark) == (E.OFFSET_OUT_OF_RANGE, B0, B0)


def test_times_are_looked_up_behind_b0_only() -> None:
    _, leader, _ = begun()
    assert [offset(leader, which) for which in (0, MAX_TIMESTAMP)] == [(-1, -1), (-1, -1)]
    leader.ask(commit("a", [classic(0, 5, max_timestamp=500), classic(0, 5, max_timestamp=900)]))
    assert [offset(leader, which) for which in (0, 600, 901, MAX_TIMESTAMP)] == [(500, B0), (900, B0 + 5), (-1, -1), (900, B0 + 9)]


# ---- reset and repair


def test_a_reset_needs_a_later_leader_and_an_empty_log() -> None:
    _, leader, follower = begun(producers=seeds())
    assert error(leader, reset(4)) is E.FENCED_LEADER_EPOCH
    assert error(leader, reset(3)) is E.FENCED_LEADER_EPOCH
    assert error(leader, reset(5)) is E.NONE
    assert facts(leader) == LogFacts(leader_epoch=5)
    assert error(leader, reset(5)) is E.NONE  # again
    assert error(leader, init(start=80, epoch=4)) is E.FENCED_LEADER_EPOCH
    assert error(leader, init(start=80, prefix=0, epoch=5, producers=seeds(1, epoch=9)[:0])) is E.NONE
    # Nothing is left of the producers of the first attempt, and the classic part had records: any sequence goes.
    row = classic(0, 1, sequence=77, producer_id=PRODUCER, producer_epoch=0)
    assert result_of(leader.ask(commit("a", [row]))[0]).base_offsets == [80]
    assert error(leader, reset(6)) is E.INVALID_REQUEST
    leader.ask(delete_records((0, -1), topic_id=CLASSIC))
    assert error(leader, reset(6)) is E.INVALID_REQUEST
    assert state_of(leader.view.state) == state_of(follower.view.state)


def test_a_repair_of_an_empty_log_moves_all_of_it() -> None:
    _, leader, _ = begun()
    [dry] = step(leader, repair(90, is_dry_run=True))
    assert (dry.before.start_offset, dry.after) == (B0, LogFacts(90, 20, 90, 90, 4))
    assert facts(leader) == LogFacts(B0, 20, B0, B0, 4)
    assert error(leader, repair(90)) is E.NONE
    assert facts(leader) == LogFacts(90, 20, 90, 90, 4)
    assert result_of(leader.ask(commit("a", [classic()]))[0]).base_offsets == [90]


def test_a_repair_keeps_committed_records_where_they_are() -> None:
    _, leader, follower = begun()
    leader.ask(commit("a", [classic(0, 5)]))
    assert [error(leader, repair(start)) for start in (B0 + 1, 19)] == [E.INVALID_REQUEST] * 2
    assert error(leader, repair(90, epoch=3)) is E.FENCED_LEADER_EPOCH
    assert [error(leader, repair(90, epoch=5)) for _ in range(2)] == [E.NONE] * 2
    assert facts(leader) == LogFacts(90, 20, B0, B0 + 5, 5)
    assert [offset(leader, which)[1] for which in (EARLIEST, EARLIEST_LOCAL)] == [20, B0]
    [answer] = found(leader.view.state, [(0, B0, 10)], topic_id=CLASSIC)
    assert answer is not None
    assert [one.base_offset for one in answer.batches] == [B0]
    assert state_of(leader.view.state) == state_of(follower.view.state)


# ---- entries that contradict


def started(base: int = B0, prefix: int = 0, epoch: int = 4, producers: Sequence[SeededProducerBatch] = ()) -> DisklessLogInitialized:
    return DisklessLogInitialized(
        topic_id=CLASSIC, partition=0, base_offset=base, prefix_start_offset=prefix, leader_epoch=epoch, producers=list(producers)
    )


def forge(world: World, leader: HarnessReplica, *records: Record) -> None:
    """Append an entry as the leader's producer would, behind what it has written."""
    fence = leader.view.fence
    world.append(encode_key(EntryKey(fence.epoch, fence.term, fence.seq + 1)), encode_entry(list(records), 2))


def test_a_step_that_may_not_be_is_void_for_everybody() -> None:
    of = {"topic_id": CLASSIC, "partition": 0}
    for records in (
        [started(B0 + 1)],
        [started(epoch=3)],
        [DisklessLogReset(**of, leader_epoch=4)],  # type: ignore[arg-type]
        [DisklessLogReset(**of, leader_epoch=9)],  # type: ignore[arg-type]
        [DisklessLogRepaired(**of, base_offset=B0 + 1, leader_epoch=4)],  # type: ignore[arg-type]
        [PrefixStartReported(**of, prefix_start_offset=B0 + 1, leader_epoch=4)],  # type: ignore[arg-type]
        [dataclasses.replace(started(), partition=9)],
        [dataclasses.replace(started(0), topic_id=TOPIC)],
        [started(), started()],
        [started(), RecordsDeleted(**of, new_log_start_offset=B0)],  # type: ignore[arg-type]
        [
            PartitionCreated(topic_id=CLASSIC, name="old", first_partition=2, num_partitions=1, order_offset=3, classic_pending=True),
            dataclasses.replace(started(), partition=2),
        ],
    ):
        world, leader, follower = begun()
        leader.ask(commit("a", [classic(0, 5)]))
        before = state_of(follower.view.state)
        forge(world, leader, *records)
        follower.read()
        assert state_of(follower.view.state) == before, records
        assert follower.view.contradiction is not None, records


def test_a_commit_to_a_pending_partition_in_the_log_is_void() -> None:
    world, leader, follower = begun()
    leader.ask(commit("a", [classic(0, 5)]))
    value = world.log[-1][1]
    record = decode_entry(value or b"")[0]
    other, first, second = pending()
    before = state_of(second.view.state)
    forge(other, first, dataclasses.replace(record, object_key="b"))
    second.read()
    assert state_of(second.view.state) == before
    assert second.view.contradiction is not None
    assert "not initialised" in second.view.contradiction.reason
    assert follower.view.contradiction is None
