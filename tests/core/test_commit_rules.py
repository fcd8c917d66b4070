"""The rules of CommitFile, one named test per rule; each goes through a leading replica and its log."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.core.commands import CommitFile, LogInit, MigratePartitions, PlacePartitions, TopicShare
from coordinator.core.events import SchemaLevel
from coordinator.core.files.requests import RECORDS_PER_BATCH_MAX, check_whole, read_lines
from coordinator.core.limits import Limits
from coordinator.core.tables.diskless_log import OFFSETS_MAX
from coordinator.kafka.batches import BATCH, partition_key, split_partition_key
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.codec import ELEMENTS_MAX
from records.codec import decode_entry
from records.committed_files.codec import FileCommitted
from records.committed_files.lines import BatchVerdict
from records.model import FilesFenced, FilesHandedOver, FilesRemoved, NoOp, ProducersExpired, Record
from simulation.fakes.shard_harness import HarnessReplica, World
from tests.core.build import (
    MASK,
    OTHER_TOPIC,
    UNKNOWN_TOPIC,
    batch,
    batch_array,
    commit,
    delete_records,
    leading,
    place,
    result_of,
    state_of,
)

E = ErrorCode
MOVED = b"m" * 16
MAX = 2147483647


def errors(replica: HarnessReplica, command: CommitFile) -> list[int]:
    return result_of(replica.ask(command)[0]).errors


def files_logged(world: World) -> list[FileCommitted]:
    return [record for _, value in world.log for record in decode_entry(value or b"") if isinstance(record, FileCommitted)]


# ---- checks that refuse the whole request

HEADS: list[tuple[str, dict[str, object], ErrorCode]] = [
    ("empty key", {"object_key": ""}, E.INVALID_REQUEST),
    ("key over 1024 bytes", {"object_key": "k" * 1025}, E.INVALID_REQUEST),
    ("key over 1024 bytes in UTF-8", {"object_key": "ä" * 513}, E.INVALID_REQUEST),
    ("unknown object format", {"object_format": 0}, E.INVALID_REQUEST),
    ("negative file size", {"file_size": -1}, E.INVALID_REQUEST),
    ("no owner", {"owner_ids": []}, E.INVALID_REQUEST),
    ("an owner twice", {"owner_ids": [0, 1, 1]}, E.INVALID_REQUEST),
    ("a negative owner", {"owner_ids": [0, -1]}, E.INVALID_REQUEST),
    ("65 owners", {"owner_ids": list(range(65))}, E.INVALID_REQUEST),
    ("an owner twice and unknown", {"owner_ids": [0, 9, 9]}, E.INVALID_REQUEST),
    ("an owner that may be new", {"owner_ids": [0, 4]}, E.COORDINATOR_NOT_AVAILABLE),
]


@pytest.mark.parametrize(("fields", "error"), [row[1:] for row in HEADS], ids=[row[0] for row in HEADS])
def test_a_wrong_head_refuses_every_batch_and_logs_nothing(fields: dict[str, object], error: ErrorCode) -> None:
    world, replica = leading()
    length = len(world.log)
    [answer] = replica.ask(commit("a", [batch(), batch(1)], **fields) if "object_key" not in fields else _with_key(fields))
    result = result_of(answer)
    assert result.errors == [error, error]
    assert result.base_offsets == result.append_times == result.log_starts == [-1, -1]
    assert all(result.messages)
    assert len(world.log) == length


def test_a_file_that_does_not_name_its_coordinator_is_refused_behind_a_proof() -> None:
    """A leader may not know that it was replaced, and that the partition has moved to a coordinator that the file names."""
    world, replica = leading()
    answers = result_of(replica.ask(commit("a", [batch(), batch(1)], owner_ids=[1, 2]))[0])
    assert answers.errors == [E.INVALID_REQUEST] * 2
    assert "lacks coordinator 0" in str(answers.messages[0])
    assert decode_entry(world.log[-1][1] or b"") == [NoOp()]
    assert not files_logged(world)


def _with_key(fields: dict[str, object]) -> CommitFile:
    return commit(str(fields["object_key"]), [batch(), batch(1)])


FLAWS: list[tuple[str, dict[str, int]]] = [
    ("size 0", {"size": 0}),
    ("negative size", {"size": -1}),
    ("negative byte offset", {"byte_offset": -1}),
    ("bytes past the end of the file", {"byte_offset": 999, "size": 2}),
    ("bytes overlap the batch before", {"byte_offset": 9}),
    ("bytes within the batch before", {"byte_offset": 1, "size": 2}),
    ("no record", {"base_offset": 1, "last_offset": 0}),
    ("more than 2^31 records", {"last_offset": 2**31}),
    ("negative offset", {"base_offset": -1, "last_offset": 0}),
    ("magic 1", {"magic": 1}),
    ("magic 3", {"magic": 3}),
    ("timestamp type 2", {"timestamp_type": 2}),
    ("timestamp type -1", {"timestamp_type": -1}),
    ("timestamp below -1", {"max_timestamp": -2}),
]


@pytest.mark.parametrize("flaw", [row[1] for row in FLAWS], ids=[row[0] for row in FLAWS])
def test_a_malformed_batch_refuses_every_batch_and_logs_nothing(flaw: dict[str, int]) -> None:
    world, replica = leading()
    length = len(world.log)
    assert errors(replica, commit("a", [batch(), batch(1, **flaw), batch(byte_offset=500)], file_size=1000)) == [E.INVALID_REQUEST] * 3
    assert len(world.log) == length
    assert errors(replica, commit("a", [batch()])) == [0]


def test_batches_may_stand_in_any_order_with_gaps_as_long_as_bytes_do_not_overlap() -> None:
    _, replica = leading()
    rows = [batch(byte_offset=500, size=500), batch(byte_offset=0, size=100), batch(byte_offset=100, size=400)]
    assert errors(replica, commit("a", rows, file_size=1000)) == [0, 0, 0]
    assert errors(replica, commit("b", [*rows[:2], batch(byte_offset=99, size=1)], file_size=1000)) == [E.INVALID_REQUEST] * 3


@pytest.mark.parametrize(("age_ms", "accepted"), [(-60_000, True), (0, True), (900_000, True), (900_001, False)])
def test_a_file_older_than_the_maximum_age_is_refused(age_ms: int, accepted: bool) -> None:
    world, replica = leading()
    assert errors(replica, commit("a", [batch()], created_ms=world.now_ms - age_ms)) == [0 if accepted else E.INVALID_REQUEST]


def test_a_file_among_the_objects_of_the_service_is_refused() -> None:
    world = World()
    replica = world.add_replica(limits=Limits(kept_prefixes=("snapshots/", "orphan-scan/")))
    replica.lead()
    replica.ask(place())
    for key, error in (
        ("snapshots/a", E.INVALID_REQUEST),
        ("orphan-scan/a", E.INVALID_REQUEST),
        ("snapshots", 0),
        ("wal/snapshots/a", 0),
        ("ä" * 512, 0),
    ):
        [answer] = replica.ask(commit(key, [batch()]))
        assert result_of(answer).errors == [error], key


UNUSUAL_KEYS = ["wal//dbl", "wal/./dot", "wal/x/../up", "../victim", "/victim", "wal/folder/", "wal/tab\t", "wal/del\x7f", "", "k" * 1025]


@pytest.mark.parametrize("key", UNUSUAL_KEYS, ids=ascii)
def test_a_file_whose_key_no_store_lists_as_it_is_is_refused(key: str) -> None:
    world, replica = leading()
    length = len(world.log)
    assert errors(replica, commit(key, [batch(), batch(1)])) == [E.INVALID_REQUEST] * 2
    assert check_whole(commit(key, [batch()]), 1).error is E.INVALID_REQUEST
    assert len(world.log) == length


def test_a_file_of_unknown_age_is_never_too_old() -> None:
    _, replica = leading()
    assert errors(replica, commit("a", [batch()], created_ms=-1)) == [0]


def test_a_batch_of_the_most_records_is_accepted_and_wraps_its_sequence() -> None:
    _, replica = leading()
    result = result_of(replica.ask(commit("a", [batch(0, 2**31, sequence=0), batch(0, 1, sequence=0)]))[0])
    assert result.errors == [0, 0]
    assert result.base_offsets == [0, 2**31]


def test_an_empty_batch_list_answers_an_empty_list_and_registers_nothing() -> None:
    world, replica = leading()
    length = len(world.log)
    assert errors(replica, commit("a", [])) == []
    assert len(world.log) == length
    assert errors(replica, commit("a", [batch()])) == [0]


# ---- partitions that may come to be


def test_a_batch_that_may_heal_keeps_the_whole_request_out_of_the_log() -> None:
    world, replica = leading()
    command = commit("a", [batch(), batch(7), batch(topic_id=UNKNOWN_TOPIC)])
    result = result_of(replica.ask(command)[0])
    assert result.errors == [E.COORDINATOR_NOT_AVAILABLE, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_ID]
    assert result.base_offsets == [-1, -1, -1]
    assert not files_logged(world)
    replica.ask(place(count=8), place(UNKNOWN_TOPIC, 1, name="late"))
    assert errors(replica, command) == [0, 0, 0]


# ---- offsets and times


def test_offsets_are_dense_over_accepted_batches_and_the_clients_offsets_only_count_records() -> None:
    _, replica = leading()
    rows = [batch(0, 3), batch(1, 2), batch(0, 1, sequence=4), batch(0, 1, sequence=9), batch(0, 2, base_offset=77)]
    result = result_of(replica.ask(commit("a", rows))[0])
    assert result.errors == [0, 0, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]
    assert result.base_offsets == [0, 0, 3, -1, 4]
    assert result_of(replica.ask(commit("b", [batch(0), batch(1)]))[0]).base_offsets == [6, 2]


def test_offsets_never_pass_the_greatest_one() -> None:
    first = OFFSETS_MAX - 5
    world, replica = leading()
    replica.feed(SchemaLevel(2))
    share = TopicShare(topic_id=MOVED, name="moved", first_partition=0, num_partitions=2, order_offset=2, classic_pending=True)
    replica.ask(place(), PlacePartitions(shares=[share]))
    replica.ask(MigratePartitions(steps=[LogInit(MOVED, number, first, 0, 1, [], -1) for number in range(2)]))
    rows = [batch(number, count, topic_id=MOVED) for number, count in ((0, 3), (1, 6), (0, 2), (0, 1))]
    assert errors(replica, commit("a", rows)) == [0, E.INVALID_REQUEST, 0, E.INVALID_REQUEST]
    result = result_of(replica.ask(commit("b", [batch(0, topic_id=MOVED), batch(1, 5, topic_id=MOVED)]))[0])
    assert result.errors == [E.INVALID_REQUEST, 0]
    assert result.base_offsets == [-1, first]
    assert [[one.base_offset for one in file.batches] for file in files_logged(world)] == [[first, -1, first + 3, -1], [-1, first]]


def test_no_file_reaches_the_end_of_64_bits() -> None:
    assert OFFSETS_MAX + ELEMENTS_MAX * RECORDS_PER_BATCH_MAX < 2**63


def test_append_time_is_one_reading_per_file_and_only_for_log_append_time() -> None:
    world, replica = leading()
    result = result_of(replica.ask(commit("a", [batch(timestamp_type=1), batch(), batch(1, timestamp_type=1)]))[0])
    assert result.append_times == [world.now_ms, -1, world.now_ms]


def test_append_time_never_goes_backwards() -> None:
    world, replica = leading()
    first = result_of(replica.ask(commit("a", [batch(timestamp_type=1)]))[0]).append_times
    world.now_ms -= 10_000
    assert result_of(replica.ask(commit("b", [batch(timestamp_type=1)]))[0]).append_times == first


def test_the_answer_carries_the_log_start_of_now() -> None:
    _, replica = leading()
    replica.ask(commit("a", [batch(0, 5)]), delete_records((0, 3)))
    assert result_of(replica.ask(commit("b", [batch(0), batch(1)]))[0]).log_starts == [3, 0]


# ---- idempotence: behind one record of nobody, producer 5 in epoch 3 wrote sequences 10 to 12, then 13, unless a test says otherwise


def with_records() -> HarnessReplica:
    """Partitions 0 and 1 have a record of nobody each, so a producer may begin with any sequence."""
    _, replica = leading()
    assert errors(replica, commit("records", [batch(0), batch(1)])) == [0, 0]
    return replica


def with_producer() -> HarnessReplica:
    replica = with_records()
    assert errors(replica, commit("first", [_write(10, 3), _write(13, 1)])) == [0, 0]
    return replica


def _write(sequence: int, count: int = 1, epoch: int = 3, **fields: int) -> dict[str, object]:
    return batch(0, count, sequence=sequence, producer_epoch=epoch, **fields)


SEQUENCES: list[tuple[str, dict[str, object], ErrorCode]] = [
    ("next", _write(14), E.NONE),
    ("a gap", _write(15), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ("the last again but longer", _write(13, 2), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ("a part of an old one", _write(10, 2), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ("zero in the same epoch", _write(0), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ("lower epoch, next", _write(14, epoch=2), E.INVALID_PRODUCER_EPOCH),
    ("lower epoch, an old duplicate's sequences", _write(10, 3, epoch=2), E.INVALID_PRODUCER_EPOCH),
    ("higher epoch from zero", _write(0, epoch=4), E.NONE),
    ("higher epoch from elsewhere", _write(14, epoch=4), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ("span unlike the record count", _write(14, 2, last_sequence=14), E.INVALID_REQUEST),
    ("negative sequence", _write(14, base_sequence=-1, last_sequence=-1), E.INVALID_REQUEST),
    ("another producer from anywhere", _write(900, producer_id=6), E.NONE),
    ("no producer id", _write(900, producer_id=-1), E.NONE),
    ("no epoch, so its sequences do not count", _write(900, epoch=-1, last_sequence=1), E.NONE),
]


@pytest.mark.parametrize(("row", "error"), [row[1:] for row in SEQUENCES], ids=[row[0] for row in SEQUENCES])
def test_sequence_rule(row: dict[str, object], error: ErrorCode) -> None:
    replica = with_producer()
    before = state_of(replica.view.state)["producers"]
    result = result_of(replica.ask(commit("a", [row, batch(1)]))[0])
    assert result.errors == [error, 0]
    assert result.base_offsets == [-1 if error else 5, 1]
    assert result.duplicates == [False, False]
    if error:
        assert state_of(replica.view.state)["producers"] == before


def test_an_exact_duplicate_answers_the_original_offset_and_the_log_start_of_now() -> None:
    replica = with_producer()
    replica.ask(delete_records((0, 3)))
    result = result_of(replica.ask(commit("a", [_write(10, 3), _write(13, 1), _write(14)]))[0])
    assert result.errors == [0, 0, 0]
    assert result.duplicates == [True, True, False]
    assert result.base_offsets == [1, 4, 5]
    assert result.log_starts == [3, 3, 3]
    assert result.append_times == [-1, -1, -1]


def test_a_duplicate_of_a_log_append_time_batch_answers_the_original_time() -> None:
    world, replica = leading()
    replica.ask(commit("a", [batch(sequence=0, timestamp_type=1)]))
    time = world.now_ms
    world.now_ms += 500
    assert result_of(replica.ask(commit("b", [batch(sequence=0, timestamp_type=1)]))[0]).append_times == [time]


def test_earlier_batches_of_the_same_file_count() -> None:
    replica = with_records()
    rows = [batch(sequence=7), batch(sequence=7), batch(sequence=8), batch(sequence=10), batch(0, 1, sequence=0, producer_epoch=1)]
    result = result_of(replica.ask(commit("a", [*rows, batch(sequence=9)]))[0])
    assert result.errors == [0, 0, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, E.INVALID_PRODUCER_EPOCH]
    assert result.duplicates == [False, True, False, False, False, False]
    assert result.base_offsets == [1, 1, 2, -1, 3, -1]


def test_five_batches_are_remembered_and_the_sixth_last_is_out_of_order() -> None:
    _, replica = leading()
    replica.ask(commit("a", [batch(sequence=n) for n in range(6)]))
    result = result_of(replica.ask(commit("b", [batch(sequence=n) for n in range(6)]))[0])
    assert result.errors == [E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0, 0, 0, 0]
    assert result.duplicates == [False, True, True, True, True, True]


def test_five_batches_are_remembered_within_a_file_too() -> None:
    _, replica = leading()
    result = result_of(replica.ask(commit("a", [batch(sequence=n) for n in (0, 1, 2, 3, 4, 5, 0, 1)]))[0])
    assert result.errors == [0] * 6 + [E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]
    assert result.duplicates == [False] * 7 + [True]


def test_a_higher_epoch_drops_what_was_remembered() -> None:
    replica = with_producer()
    assert errors(replica, commit("a", [_write(0, epoch=4), _write(10, 3, epoch=4)])) == [0, E.OUT_OF_ORDER_SEQUENCE_NUMBER]


def test_sequences_wrap_after_the_largest_also_inside_a_batch() -> None:
    replica = with_records()
    rows = [batch(0, 2, sequence=MAX - 3), batch(0, 4, sequence=MAX - 1), batch(0, 1, sequence=2), batch(0, 4, sequence=MAX - 1)]
    result = result_of(replica.ask(commit("a", rows))[0])
    assert result.errors == [0, 0, 0, 0]
    assert result.duplicates == [False, False, False, True]
    assert int(str(rows[1]["last_sequence"])) == 1
    assert errors(replica, commit("b", [batch(0, 1, sequence=3)])) == [0]


def test_a_batch_that_wraps_is_remembered_across_files() -> None:
    replica = with_records()
    replica.ask(commit("a", [batch(0, 4, sequence=MAX - 1)]))
    result = result_of(replica.ask(commit("b", [batch(0, 4, sequence=MAX - 1), batch(0, 1, sequence=2)]))[0])
    assert result.errors == [0, 0]
    assert result.duplicates == [True, False]


def test_the_largest_sequence_is_followed_by_zero() -> None:
    replica = with_records()
    assert errors(replica, commit("a", [batch(0, 1, sequence=MASK), batch(0, 1, sequence=0)])) == [0, 0]


def test_producer_state_is_per_partition() -> None:
    replica = with_records()
    assert errors(replica, commit("a", [batch(0, 1, sequence=5), batch(1, 1, sequence=90), batch(0, 1, sequence=6)])) == [0, 0, 0]


def test_producer_state_survives_delete_records() -> None:
    replica = with_producer()
    replica.ask(delete_records((0, -1)))
    assert errors(replica, commit("a", [_write(10, 3), _write(20)])) == [0, E.OUT_OF_ORDER_SEQUENCE_NUMBER]


def test_an_expired_producer_may_start_anywhere() -> None:
    replica = with_producer()
    hot = replica.view.state.hot
    time = hot.log_time_ms
    hot.apply(ProducersExpired(before_ms=time), 50)
    assert len(hot.producers)
    hot.apply(ProducersExpired(before_ms=time + 1), 51)
    assert not len(hot.producers)


def test_a_partition_without_records_takes_only_sequence_zero_of_an_unknown_producer() -> None:
    """The earlier of two files under way comes second, and is not lost (KAFKA-15591)."""
    _, replica = leading()
    first, later = [batch(0, 17, sequence=0)], [batch(0, 5, sequence=17)]
    [refused] = replica.ask(commit("a", later))
    assert result_of(refused).errors == [E.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert result_of(refused).base_offsets == [-1]
    assert "sequence 0 is expected; 17 was found" in (result_of(refused).messages[0] or "")
    assert state_of(replica.view.state)["producers"] == {}
    assert errors(replica, commit("b", first)) == errors(replica, commit("c", later)) == [0]
    assert errors(replica, commit("d", [batch(0, 5, sequence=30, producer_id=8)])) == [0]


def test_an_earlier_batch_of_the_same_file_is_the_first_record_of_its_partition() -> None:
    _, replica = leading()
    rows = [batch(sequence=4), batch(), batch(sequence=4), batch(1, sequence=4), batch(1, sequence=0, producer_epoch=7)]
    result = result_of(replica.ask(commit("a", rows))[0])
    assert result.errors == [E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]
    assert result.base_offsets == [-1, 0, 1, -1, 0]


def test_a_partition_whose_records_are_all_deleted_has_had_records() -> None:
    replica = with_records()
    replica.ask(delete_records((0, -1)))
    assert errors(replica, commit("a", [batch(sequence=4)])) == [0]


# ---- the same key again


def test_the_same_content_answers_exactly_the_first_answer_whatever_happened_since() -> None:
    world, replica = leading()
    command = commit("a", [batch(0, 2, sequence=0, timestamp_type=1), batch(0, 2, sequence=0), batch(0, 1, sequence=7), batch(1)])
    [first] = replica.ask(command)
    replica.ask(commit("b", [batch(0, 4, sequence=2), batch(0, 1, sequence=6)]), delete_records((0, -1)))
    world.now_ms += 1_800_000
    assert replica.ask(command) == [first]
    assert result_of(first).errors == [0, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]
    assert len(files_logged(world)) == 2


def test_a_retry_in_the_same_group_and_while_in_flight_joins() -> None:
    world, replica = leading()
    one, two = replica.submit(commit("a", [batch(0, 2)]), commit("a", [batch(0, 2, request_id=9)]))
    [three] = replica.submit(commit("a", [batch(0, 2)]))
    assert not {one, two, three} & replica.answers.keys()
    world.settle()
    assert replica.answers[one] == replica.answers[two] == replica.answers[three]
    assert len(files_logged(world)) == 1


CHANGES: list[tuple[str, CommitFile]] = [
    ("another batch", commit("a", [batch(0, 2), batch(1)])),
    ("another length", commit("a", [batch(0, 3)])),
    ("another timestamp", commit("a", [batch(0, 2, max_timestamp=1001)])),
    ("another size", commit("a", [batch(0, 2)], file_size=5000)),
    ("other owners", commit("a", [batch(0, 2)], owner_ids=[0, 1])),
    ("another format", commit("a", [batch(0, 2)], object_format=2)),
    ("another topic", commit("a", [batch(0, 2, topic_id=OTHER_TOPIC)])),
]


@pytest.mark.parametrize("command", [row[1] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_other_content_under_a_known_key_is_a_duplicate_resource(command: CommitFile) -> None:
    _, replica = leading()
    replica.ask(commit("a", [batch(0, 2)]))
    assert errors(replica, command) == [E.DUPLICATE_RESOURCE] * len(command.batches)


def test_request_ids_and_age_are_not_part_of_the_content() -> None:
    world, replica = leading()
    [first] = replica.ask(commit("a", [batch(0, 2, request_id=1)], created_ms=world.now_ms))
    assert replica.ask(commit("a", [batch(0, 2, request_id=2)], created_ms=world.now_ms - 5_000_000, uploader_broker_id=8)) == [first]


def test_after_the_results_retention_a_known_key_is_never_accepted_again() -> None:
    world, replica = leading()
    command = commit("a", [batch(0, 2)])
    replica.ask(command)
    world.now_ms += Limits().commit_results_retention_ms + 1
    result = result_of(replica.ask(command)[0])
    assert result.errors == [E.DUPLICATE_RESOURCE]
    assert "no longer kept" in (result.messages[0] or "")


def test_a_file_of_which_nothing_was_accepted_is_known_all_the_same() -> None:
    world, replica = leading()
    replica.ask(commit("a", [batch(sequence=0)]))
    command = commit("b", [batch(sequence=5)])
    assert errors(replica, command) == errors(replica, command) == [E.OUT_OF_ORDER_SEQUENCE_NUMBER]
    file = replica.view.state.find_file("b")
    assert file is not None
    assert (file.batch_count, file.live_batches) == (0, 0)
    assert len(files_logged(world)) == 2


@pytest.mark.parametrize(
    ("record", "error", "text"),
    [
        (FilesFenced(object_keys=["a"], created_ms=[-1]), E.INVALID_REQUEST, "upload the data under a new key"),
        (FilesRemoved(object_keys=["a"]), E.DUPLICATE_RESOURCE, "was committed, its batches were deleted, and it is removed"),
        (FilesHandedOver(object_keys=["a"], next_owner_ids=[1]), E.DUPLICATE_RESOURCE, "was committed, its batches were deleted"),
    ],
)
def test_a_key_with_a_tombstone_is_refused(record: Record, error: ErrorCode, text: str) -> None:
    _, replica = leading()
    if error is E.DUPLICATE_RESOURCE:
        # A retry of what was committed is not told to write it a second time.
        replica.ask(commit("a", [batch()]))
    state = replica.view.state
    state.apply_entry([record], state.applied_offset + 1)
    result = result_of(replica.ask(commit("a", [batch()]))[0])
    assert result.errors == [error]
    assert text in (result.messages[0] or "")


def test_a_file_removed_while_its_commit_is_being_written_is_gone() -> None:
    _, replica = leading()
    replica.ask(commit("a", [batch()]))
    state = replica.view.state
    state.freeze(replica.shard.header("cluster", bytes(16)))
    assert state.find_file("a") is not None
    state.apply_entry([FilesRemoved(object_keys=["a"])], state.applied_offset + 1)
    assert state.find_file("a") is None
    assert errors(replica, commit("a", [batch()])) == [E.DUPLICATE_RESOURCE]


# ---- shapes


def test_a_record_has_every_batch_of_the_request_in_its_order() -> None:
    world, replica = leading()
    rows = [batch(0, 2), batch(0, 3), batch(1, 1), batch(0, 1, sequence=4), batch(0, 1, sequence=4), batch(0, 5)]
    replica.ask(commit("a", rows))
    [record] = files_logged(world)
    described = [(one.partition, BatchVerdict(one.verdict).name, one.base_offset, one.record_count) for one in record.batches]
    assert described == [
        (0, "ACCEPTED", 0, 2),
        (0, "ACCEPTED", 2, 3),
        (1, "ACCEPTED", 0, 1),
        (0, "ACCEPTED", 5, 1),
        (0, "DUPLICATE", 5, 1),
        (0, "ACCEPTED", 6, 5),
    ]


def test_the_wire_layout_of_a_batch_is_77_bytes() -> None:
    array = batch_array([batch(3, 2, sequence=MAX)])
    assert array.dtype.itemsize == 77
    assert array.tolist()[0][2] == partition_key(bytes([7] * 16), 3)


def test_a_partition_key_splits_into_what_it_was_made_of() -> None:
    for partition in (0, 1, 2**31 - 1, -1):
        assert split_partition_key(partition_key(OTHER_TOPIC, partition)) == (OTHER_TOPIC, partition)


def hashed(command: CommitFile) -> bytes | None:
    """The content hash of a commit, None when its batches are not lawful."""
    read = read_lines(command.batches.tobytes(), [command])
    return None if read.faults[0][1] else read.hashes[0]


def test_the_content_hash_knows_neither_request_ids_nor_the_clients_offsets_nor_what_a_retry_may_change() -> None:
    rows = [batch(0, 3, sequence=4, request_id=7), batch(1, 2, request_id=8)]
    again = [batch(0, 3, sequence=4, request_id=-1, base_offset=70), batch(1, 2, request_id=2**31 - 1)]
    assert hashed(commit("a", rows)) == hashed(commit("b", again, created_ms=77, uploader_broker_id=9))


@pytest.mark.parametrize(
    "change", [{"object_format": 2}, {"file_size": 1 << 21}, {"owner_ids": [1]}, {"owner_ids": [0, 1]}, {"owner_ids": []}]
)
def test_the_content_hash_is_that_of_the_head(change: dict[str, object]) -> None:
    rows = [batch(0, 3, sequence=4)]
    assert hashed(commit("a", rows, **change)) != hashed(commit("a", rows))


def test_the_content_hash_knows_order_number_and_repetition_of_batches() -> None:
    one, other = batch(0, 1, byte_offset=0), batch(0, 1, byte_offset=10)
    contents = [[], [one], [other], [one, other], [one, other, batch(0, 1, byte_offset=20)], [one, batch(1, 1, byte_offset=10)]]
    assert len({hashed(commit("a", rows)) for rows in contents}) == len(contents)


def test_a_retry_with_one_more_batch_is_another_content_even_if_that_batch_is_not_lawful() -> None:
    _, replica = leading()
    rows = [batch(0, 1), batch(1, 2)]
    assert errors(replica, commit("a", rows)) == [0, 0]
    assert errors(replica, commit("a", [*rows, batch(0, 1, magic=1)])) == [E.DUPLICATE_RESOURCE] * 3


def test_every_bit_of_an_idempotent_batch_is_in_the_content_hash() -> None:
    command = commit("a", [batch(0, 3, sequence=4, producer_id=77), batch(1, 5, sequence=9)])
    raw, content = command.batches.tobytes(), hashed(command)
    for at in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[at] ^= 1 << bit
            other = hashed(command._replace(batches=np.frombuffer(bytes(changed), BATCH)))
            is_request_id, is_tag = 1 <= at % BATCH.itemsize < 5, at % BATCH.itemsize == BATCH.itemsize - 1
            assert (other == content) == (is_request_id or is_tag), (at, bit)
