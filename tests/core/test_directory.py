"""Placing, growing and deleting topics: the order of checks, even loads, and the memory of deleted ids."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.commands import (
    OK,
    ConfirmDeleted,
    ConfirmPlaced,
    CreateTopics,
    DeleteTopics,
    Outcome,
    PlacePartitions,
    RaiseSchemaLevel,
    RegisterNode,
    RemoveTopics,
    TopicRemoval,
    TopicShare,
    WantedTopic,
)
from coordinator.core.deciding.decide import decide_write
from coordinator.core.directory.decisions import decide_confirm, decide_create, decide_delete, decide_register
from coordinator.core.directory.directory import working_nodes
from coordinator.core.events import SchemaLevel
from coordinator.core.limits import Limits
from coordinator.core.tables.in_memory import BrokenInvariant, HotState
from coordinator.kafka.errors import ErrorCode
from coordinator.kafka.names import INTERNAL_TOPICS, METADATA_TOPIC, why_classic
from records.codec import decode_entry
from records.history import schema_of_header
from records.levels import LEVEL_LATEST
from records.model import Endpoint, FeatureLevelSet, NodeRegistered, PlacedRange, Record, TopicDeleting, TopicPlaced
from simulation.fakes.shard_harness import World
from tests.core.build import TOPIC, batch, commit, leading, list_offsets, view_of

LIMITS = Limits(partitions_per_topic_max=50)
A, B, GONE = bytes([1] * 16), bytes([2] * 16), bytes([3] * 16)
FIRST, SECOND = b"1" * 16, b"2" * 16
DAY_MS = 86_400_000


def wanted(topic_id: bytes, name: str, count: int) -> WantedTopic:
    return WantedTopic(topic_id=topic_id, name=name, num_partitions=count)


def create(hot: HotState, *topics: WantedTopic, eligible: dict[int, int] | None = None, offset: int = 100) -> list[tuple[ErrorCode, str]]:
    """Decide and apply; returns (error, message) per topic."""
    command = CreateTopics(topics=list(topics), eligible={0: 0, 1: 0} if eligible is None else eligible)
    records, outcomes = decide_create(hot.directory, command, LIMITS, hot.log_time_ms)
    for record in records:
        hot.apply(record, offset)
    return [(outcome.error, outcome.message or "") for outcome in outcomes]


def delete(hot: HotState, *ids: bytes, offset: int = 200) -> list[ErrorCode]:
    records, outcomes = decide_delete(hot.directory, DeleteTopics(topic_ids=list(ids)), LIMITS, hot.log_time_ms)
    for record in records:
        hot.apply(record, offset)
    return [outcome.error for outcome in outcomes]


def existing() -> HotState:
    """Topic `orders` (A) exists, `old` (GONE) was deleted."""
    hot = HotState(log_time_ms=1_000_000)
    create(hot, wanted(A, "orders", 4), wanted(GONE, "old", 1))
    delete(hot, GONE)
    return hot


def pass_time(hot: HotState, passed_ms: int) -> None:
    """Commits give what was deleted its time, and others come so much later."""
    hot.advance_time(hot.log_time_ms + 1, hot.log_time_ms + 1)
    hot.advance_time(hot.log_time_ms + passed_ms, hot.log_time_ms + passed_ms)


# In the order of the checks: a topic with this and every later flaw gets this row's error.
REFUSALS: list[tuple[str, WantedTopic, ErrorCode]] = [
    ("zero id", wanted(bytes(16), "!", 0), ErrorCode.INVALID_REQUEST),
    ("deleted id", wanted(GONE, "!", 0), ErrorCode.UNKNOWN_TOPIC_ID),
    ("id of another name", wanted(A, "!", 0), ErrorCode.INVALID_REQUEST),
    ("illegal name", wanted(B, "!", 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("empty name", wanted(B, "", 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("internal topic of Kafka", wanted(B, "__consumer_offsets", 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("metadata topic", wanted(B, METADATA_TOPIC, 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("name of another id", wanted(B, "orders", 0), ErrorCode.TOPIC_ALREADY_EXISTS),
    ("no partitions", wanted(B, "new", 0), ErrorCode.INVALID_PARTITIONS),
    ("negative partitions", wanted(B, "new", -1), ErrorCode.INVALID_PARTITIONS),
    ("too many partitions", wanted(B, "new", 51), ErrorCode.INVALID_PARTITIONS),
    ("too few for a topic that exists", wanted(A, "orders", 0), ErrorCode.INVALID_PARTITIONS),
]


@pytest.mark.parametrize(("topic", "error"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_create_checks_id_then_name_then_count(topic: WantedTopic, error: ErrorCode) -> None:
    hot = existing()
    placements = dict(hot.directory.placements)
    [(given_error, message)] = create(hot, topic)
    assert given_error == error
    assert message
    assert hot.directory.placements == placements


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a/b", "x" * 250, "a\n"], ids=ascii)
def test_names_that_kafka_refuses(name: str) -> None:
    assert create(existing(), wanted(B, name, 1))[0][0] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_longest_name_and_all_characters() -> None:
    assert create(existing(), wanted(B, "._-AZaz09".ljust(249, "x"), 1))[0][0] == 0


@pytest.mark.parametrize("classic_pending", [False, True], ids=["new", "migrated"])
@pytest.mark.parametrize("name", sorted({METADATA_TOPIC, *INTERNAL_TOPICS}))
def test_topics_that_have_to_stay_classic_are_neither_created_nor_migrated(name: str, classic_pending: bool) -> None:
    hot = existing()
    [(error, message)] = create(hot, replace(wanted(B, name, 1), classic_pending=classic_pending))
    assert error is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert name in message
    assert "stays classic" in message
    assert "choose another name" in message
    assert B not in hot.directory.placements


def test_the_metadata_topic_of_another_name_is_not_created() -> None:
    command = CreateTopics(topics=[wanted(A, "truth", 1), wanted(B, "truth2", 1)], eligible={0: 0})
    _, outcomes = decide_create(HotState().directory, command, replace(LIMITS, metadata_topic="truth"), 0)
    assert [outcome.error for outcome in outcomes] == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]


def test_a_topic_of_an_internal_name_from_before_does_not_grow_but_can_be_deleted() -> None:
    hot = HotState(log_time_ms=1_000_000)
    ranges = [PlacedRange(first_partition=0, num_partitions=1, coordinator_id=0)]
    hot.apply(TopicPlaced(topic_id=A, name="__consumer_offsets", ranges=ranges, confirmed=True), 50)
    assert [error for error, _ in create(hot, wanted(A, "__consumer_offsets", 2))] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert delete(hot, A) == [ErrorCode.NONE]


@pytest.mark.parametrize("metadata_topic", [METADATA_TOPIC, "truth"])
def test_the_metadata_topic_stays_classic_under_its_own_name_and_that_of_the_kip(metadata_topic: str) -> None:
    for name in (metadata_topic, METADATA_TOPIC):
        assert "the metadata topic of the service itself" in (why_classic(name, metadata_topic) or "")
    for name in ("orders", "__consumer_offsets-copy", "_consumer_offsets", "__diskless_metadata-2", "truth2", "__my_own"):
        assert why_classic(name, metadata_topic) is None


def test_the_same_name_or_id_twice_in_a_request_refuses_each() -> None:
    hot = existing()
    errors = create(hot, wanted(B, "x", 1), wanted(B, "y", 1), wanted(bytes([5] * 16), "z", 1), wanted(bytes([6] * 16), "z", 1))
    assert [error for error, _ in errors] == [ErrorCode.INVALID_REQUEST] * 4
    assert B not in hot.directory.placements


def test_one_bad_topic_does_not_fail_the_others() -> None:
    hot = existing()
    errors = create(hot, wanted(B, "new", 0), wanted(bytes([5] * 16), "fine", 2))
    assert [error for error, _ in errors] == [ErrorCode.INVALID_PARTITIONS, ErrorCode.NONE]
    assert hot.directory.names["fine"] == bytes([5] * 16)


@pytest.mark.parametrize("count", [1, 3, 4])
def test_repeating_or_shrinking_changes_nothing_and_succeeds(count: int) -> None:
    hot = existing()
    before = hot.directory.placements[A]
    assert create(hot, wanted(A, "orders", count), offset=300) == [(ErrorCode.NONE, "")]
    assert hot.directory.placements[A] == before


def test_growing_keeps_what_is_placed_and_orders_the_rest_anew() -> None:
    hot = existing()
    before = hot.directory.placements[A]
    create(hot, wanted(A, "orders", 10), offset=300)
    after = hot.directory.placements[A]
    assert after.ranges[: len(before.ranges)] == before.ranges
    assert (after.num_partitions, after.order_offset, after.confirmed) == (10, 300, False)
    assert [after.coordinator_of(p) is not None for p in (-1, 0, 9, 10)] == [False, True, True, False]


def test_without_a_coordinator_in_force_nothing_is_placed() -> None:
    hot = existing()
    [(error, message)] = create(hot, wanted(B, "new", 1), eligible={})
    assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "retry" in message


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 20), min_size=1), st.lists(st.integers(1, 50), min_size=1, max_size=4))
def test_new_partitions_are_spread_evenly_the_odd_ones_to_the_least_loaded(loads: dict[int, int], counts: list[int]) -> None:
    hot = HotState()
    topics = [wanted(bytes([n + 1] * 16), f"t{n}", count) for n, count in enumerate(counts)]
    create(hot, *topics, eligible=dict(loads))
    before = dict(loads)
    for topic in topics:
        ranges = hot.directory.placements[topic.topic_id].ranges
        covered = [p for placed in ranges for p in range(placed.first_partition, placed.first_partition + placed.num_partitions)]
        assert covered == list(range(topic.num_partitions))
        shares = dict.fromkeys(loads, 0) | {placed.coordinator_id: placed.num_partitions for placed in ranges}
        assert len(ranges) == sum(share > 0 for share in shares.values())
        least, odd = divmod(topic.num_partitions, len(loads))
        takers = sorted(loads, key=lambda one: (before[one], one))[:odd]
        assert shares == {one: least + (one in takers) for one in loads}
        for one, share in shares.items():
            before[one] += share


def test_a_topic_placed_while_coordinators_are_unclaimed_is_told_so() -> None:
    hot = HotState()
    command = CreateTopics(topics=[wanted(A, "wide", 8), wanted(B, "narrow", 2)], eligible={0: 0, 3: 0}, without=[2, 1])
    records, (wide, narrow) = decide_create(hot.directory, command, LIMITS, 0)
    assert len(records) == 2
    assert wide.error is ErrorCode.NONE
    assert "live on 2 of 4 coordinators, since no node has claimed coordinators 1, 2 yet" in str(wide.message)
    assert narrow == OK


def test_deleting_an_unknown_id_is_an_error_and_deleting_again_is_not() -> None:
    hot = existing()
    assert delete(hot, B, A, A, GONE) == [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE]
    assert A not in hot.directory.placements
    assert "orders" not in hot.directory.names
    assert hot.directory.deletions[A].ranges == (
        PlacedRange(first_partition=0, num_partitions=2, coordinator_id=0),
        PlacedRange(first_partition=2, num_partitions=2, coordinator_id=1),
    )
    assert create(hot, wanted(B, "orders", 1)) == [(ErrorCode.NONE, "")]


@pytest.mark.parametrize(
    ("confirmed", "age_ms", "remembered"),
    [(True, 0, True), (True, 7 * DAY_MS, True), (True, 7 * DAY_MS + 1, False), (False, 30 * DAY_MS, True)],
)
def test_a_deleted_id_is_remembered_seven_days_of_log_time_once_confirmed(confirmed: bool, age_ms: int, remembered: bool) -> None:
    hot = existing()
    if confirmed:
        hot.apply(TopicDeleting(topic_id=GONE, confirmed=True), 201)
    pass_time(hot, age_ms)
    assert delete(hot, GONE) == [ErrorCode.NONE if remembered else ErrorCode.UNKNOWN_TOPIC_ID]
    [(error, _)] = create(hot, wanted(GONE, "old", 1))
    assert error == (ErrorCode.UNKNOWN_TOPIC_ID if remembered else ErrorCode.NONE)


def test_the_wall_clock_does_not_age_a_deleted_id_in_a_partition_without_commits() -> None:
    hot = HotState()
    create(hot, wanted(A, "orders", 1))
    delete(hot, A)
    hot.apply(TopicDeleting(topic_id=A, confirmed=True), 201)
    decision = decide_write(hot, DeleteTopics(topic_ids=[A]), LIMITS)
    assert decision.answer == [OK]
    again = decide_write(hot, CreateTopics(topics=[wanted(A, "orders", 1)], eligible={0: 0}), LIMITS)
    assert isinstance(again.answer, list)
    assert [getattr(outcome, "error", None) for outcome in again.answer] == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_an_id_that_was_forgotten_can_be_placed_and_deleted_like_a_new_one() -> None:
    hot = existing()
    hot.apply(TopicDeleting(topic_id=GONE, confirmed=True), 201)
    pass_time(hot, 8 * DAY_MS)
    create(hot, wanted(GONE, "again", 1))
    assert delete(hot, GONE, offset=400) == [ErrorCode.NONE]
    assert GONE not in hot.directory.placements
    assert hot.directory.deletions[GONE].order_offset == 400
    assert hot.directory.unconfirmed >= {GONE}


def test_confirming_is_logged_once_and_only_for_the_ranges_of_now() -> None:
    hot = existing()
    placement = hot.directory.placements[A]
    old = ConfirmPlaced(topic_id=A, ranges=list(placement.ranges[:1]))
    assert decide_confirm(hot.directory, old) == []
    [record] = decide_confirm(hot.directory, ConfirmPlaced(topic_id=A, ranges=list(placement.ranges)))
    hot.apply(record, 500)
    assert hot.directory.placements[A].confirmed
    assert hot.directory.placements[A].order_offset == placement.order_offset
    assert A not in hot.directory.unconfirmed
    assert decide_confirm(hot.directory, ConfirmPlaced(topic_id=A, ranges=list(placement.ranges))) == []
    assert decide_confirm(hot.directory, ConfirmDeleted(topic_id=B)) == []
    [record] = decide_confirm(hot.directory, ConfirmDeleted(topic_id=GONE))
    hot.apply(record, 501)
    assert hot.directory.deletions[GONE].order_offset == 200
    assert decide_confirm(hot.directory, ConfirmDeleted(topic_id=GONE)) == []


def test_a_node_is_logged_only_when_something_about_it_is_new() -> None:
    hot = HotState()
    command = RegisterNode(
        node_id=4, rack="r1", endpoints=[Endpoint(listener="L", host="h", port=1)], schema_level_max=1, incarnation_id=FIRST
    )
    [record], outcome = decide_register(hot.directory, command)
    assert outcome == OK
    hot.apply(record, 1)
    assert decide_register(hot.directory, command) == ([], OK)
    moved = replace(command, rack="r2", endpoints=[])
    assert len(decide_register(hot.directory, moved)[0]) == 1


def test_a_second_process_with_the_id_of_a_registered_node_is_refused_unless_the_first_has_ended() -> None:
    hot = HotState()
    first = RegisterNode(node_id=4, rack="", endpoints=[Endpoint(listener="L", host="h", port=1)], schema_level_max=1, incarnation_id=FIRST)
    hot.apply(decide_register(hot.directory, first)[0][0], 1)
    second = replace(first, endpoints=[Endpoint(listener="L", host="other", port=2)], incarnation_id=SECOND)
    for twin in (second, replace(second, replaced_id=b"3" * 16)):
        records, outcome = decide_register(hot.directory, twin)
        assert (records, outcome.error) == ([], ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        assert "node 4 is registered by another process, at h:1" in str(outcome.message)
    [record], outcome = decide_register(hot.directory, replace(second, replaced_id=FIRST))
    assert (record.incarnation_id, outcome) == (SECOND, OK)
    hot.apply(record, 2)
    # What the first says late does not bring it back.
    assert decide_register(hot.directory, first)[1].error is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert decide_register(hot.directory, replace(second, replaced_id=FIRST)) == ([], OK)


# ---- the schema level


def with_nodes(*levels_max: int, level: int = 1) -> HotState:
    """Nodes 1, 2, ... and the highest schema level of each."""
    hot = HotState()
    for node_id, level_max in enumerate(levels_max, 1):
        hot.apply(
            NodeRegistered(
                node_id=node_id,
                rack="",
                endpoints=[],
                schema_level_max=level_max,
                incarnation_id=FIRST,
                log_dirs=[],
                is_any_dir_offline=False,
            ),
            node_id,
        )
    hot.apply(FeatureLevelSet(level=level), 100)
    return hot


def raising(hot: HotState, level: int, *gone: int) -> tuple[list[Record], Outcome]:
    decision = decide_write(hot, RaiseSchemaLevel(level=level, gone_node_ids=frozenset(gone)), LIMITS)
    assert isinstance(decision.answer, Outcome)
    return decision.records, decision.answer


def test_the_schema_level_is_part_of_the_directory_and_only_rises() -> None:
    hot = HotState()
    assert hot.directory.schema_level == 1
    hot.apply(FeatureLevelSet(level=2), 1)
    assert hot.directory.schema_level == 2
    assert hot.touched.content
    hot.apply(FeatureLevelSet(level=1), 2)
    assert hot.directory.schema_level == 2
    assert hot.copy().directory.schema_level == 2


def test_a_level_that_this_version_does_not_have_stops_the_replica() -> None:
    hot = HotState()
    message = rf"entry 7 raises the schema level to {LEVEL_LATEST + 1}, this version has levels up to {LEVEL_LATEST}"
    with pytest.raises(BrokenInvariant, match=message):
        hot.apply(FeatureLevelSet(level=LEVEL_LATEST + 1), 7)
    assert hot.directory.schema_level == 1


def test_the_level_is_raised_once_all_nodes_support_it() -> None:
    hot = with_nodes(2, 2, 7)
    [record], outcome = raising(hot, 2)
    assert (record, outcome) == (FeatureLevelSet(level=2), OK)
    hot.apply(record, 5)
    for level in (0, 1, 2):
        assert raising(hot, level) == ([], OK)


def test_nodes_that_are_behind_are_named_unless_they_are_gone() -> None:
    hot = with_nodes(2, 1, 2, 1)
    records, outcome = raising(hot, 2)
    assert (records, outcome.error) == ([], ErrorCode.INVALID_REQUEST)
    assert "node 2 supports levels up to 1, node 4 supports levels up to 1" in str(outcome.message)
    assert "schema.level.max" in str(outcome.message)
    records, outcome = raising(hot, 2, 2)
    assert (records, outcome.error) == ([], ErrorCode.INVALID_REQUEST)
    assert "node 2" not in str(outcome.message)
    assert raising(hot, 2, 2, 4, 99) == ([FeatureLevelSet(level=2)], OK)


def test_a_node_below_the_level_in_force_was_called_gone_and_holds_nothing_up_any_more() -> None:
    hot = with_nodes(2, 1, 3, level=2)
    assert [node.node_id for node in working_nodes(hot.directory)] == [1, 3]
    assert [node.node_id for node in working_nodes(with_nodes(2, 1).directory)] == [1, 2]


@pytest.mark.parametrize("level", [-1, -(2**31), LEVEL_LATEST + 1, 2**31 - 1])
def test_a_level_that_cannot_be_is_refused(level: int) -> None:
    records, outcome = raising(with_nodes(2**31 - 1), level)
    assert (records, outcome.error) == ([], ErrorCode.INVALID_REQUEST)
    assert str(level) in str(outcome.message)


def test_a_node_that_cannot_follow_the_level_in_force_is_not_registered() -> None:
    hot = with_nodes(2, level=2)
    endpoints = [Endpoint(listener="L", host="h", port=1)]
    old = RegisterNode(node_id=4, rack="", endpoints=endpoints, schema_level_max=1, incarnation_id=FIRST, log_dirs=(b"d" * 16,))
    decision = decide_write(hot, old, LIMITS)
    assert isinstance(decision.answer, Outcome)
    assert (decision.records, decision.answer.error) == ([], ErrorCode.UNSUPPORTED_VERSION)
    message = str(decision.answer.message)
    assert "node 4 supports schema levels up to 1, and level 2 is in force" in message
    assert "schema.level.max" in message
    assert len(decide_write(hot, replace(old, schema_level_max=2), LIMITS).records) == 1


def levels_written(world: World, start: int) -> list[int]:
    """The schema level of each entry from an offset on."""
    return [schema_of_header((value or b"")[:10]).level for _, value in world.log[start:]]


def test_entries_are_written_at_the_level_that_the_replica_was_told() -> None:
    world, replica = leading()
    assert replica.ask(RaiseSchemaLevel(level=2), commit("a", [batch(0, 2)]))[0] == OK
    assert FeatureLevelSet(level=2) in [record for _, value in world.log for record in decode_entry(value or b"")]
    assert replica.view.state.hot.directory.schema_level == 2
    assert set(levels_written(world, 0)) == {1}  # nobody has told the replica yet that the new level is in force everywhere
    start = len(world.log)
    replica.feed(SchemaLevel(2))
    replica.ask(commit("b", [batch(0, 2)]))
    replica.ask(list_offsets((0, -1)))
    replica.ask(RemoveTopics(removals=[TopicRemoval(topic_id=TOPIC, order_offset=9)]))
    assert levels_written(world, start) == [2, 2, 2]
    follower = world.add_replica()
    world.settle()
    assert follower.view.state.hot.directory.schema_level == 2
    assert view_of(follower.view.state.hot)["partitions"] == view_of(replica.view.state.hot)["partitions"]


# ---- the owners' side


def share(order: int, count: int = 2, first: int = 0) -> PlacePartitions:
    return PlacePartitions(shares=[TopicShare(topic_id=A, name="orders", first_partition=first, num_partitions=count, order_offset=order)])


def remove(order: int) -> RemoveTopics:
    return RemoveTopics(removals=[TopicRemoval(topic_id=A, order_offset=order)])


def do(hot: HotState, command: PlacePartitions | RemoveTopics) -> tuple[list[ErrorCode], int]:
    """(errors, number of records)"""
    decision = decide_write(hot, command, LIMITS)
    for record in decision.records:
        hot.apply(record, 7)
    assert isinstance(decision.answer, list)
    return [getattr(outcome, "error", ErrorCode.UNKNOWN_SERVER_ERROR) for outcome in decision.answer], len(decision.records)


def test_an_owner_logs_a_placement_once_and_growth_adds() -> None:
    hot = HotState()
    assert do(hot, share(1)) == ([ErrorCode.NONE], 1)
    assert do(hot, share(1)) == ([ErrorCode.NONE], 0)
    assert do(hot, share(2, count=3, first=2)) == ([ErrorCode.NONE], 1)
    assert hot.topics[A].partitions == {0, 1, 2, 3, 4}
    assert hot.topics[A].order_offset == 2


def test_a_deletion_is_logged_for_an_unknown_topic_and_refuses_the_delayed_create() -> None:
    hot = HotState()
    assert do(hot, remove(5)) == ([ErrorCode.NONE], 1)
    assert do(hot, remove(5)) == ([ErrorCode.NONE], 0)
    assert do(hot, share(3)) == ([ErrorCode.UNKNOWN_TOPIC_ID], 0)
    assert do(hot, share(6)) == ([ErrorCode.UNKNOWN_TOPIC_ID], 0)
    assert A not in hot.topics


def test_an_owner_takes_a_forgotten_id_back_but_never_an_order_from_before_its_deletion() -> None:
    hot = HotState()
    do(hot, share(1))
    do(hot, remove(5))
    pass_time(hot, 7 * DAY_MS + 1)
    assert do(hot, share(4)) == ([ErrorCode.UNKNOWN_TOPIC_ID], 0)
    assert do(hot, share(6)) == ([ErrorCode.NONE], 1)
    assert A not in hot.deleted_topics
    assert do(hot, remove(9)) == ([ErrorCode.NONE], 1)


def test_a_deleted_topic_takes_its_partitions_and_producers_along_at_once() -> None:
    _, replica = leading()
    replica.ask(commit("a", [batch(0, 2, sequence=0), batch(1, 2)]))
    [_, answer, found] = replica.ask(
        RemoveTopics(removals=[TopicRemoval(topic_id=TOPIC, order_offset=9)]), commit("b", [batch(0, 2)]), list_offsets((0, -1))
    )
    assert getattr(answer, "errors", None) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert isinstance(found, list)
    assert getattr(found[0], "outcome", OK).error == ErrorCode.UNKNOWN_TOPIC_ID
    hot = replica.view.state.hot
    assert (len(hot.partitions), len(hot.producers), dict(hot.topics)) == (0, 0, {})


def test_placements_of_records_are_complete_not_a_difference() -> None:
    hot = HotState()
    ranges = [PlacedRange(first_partition=0, num_partitions=1, coordinator_id=0)]
    hot.apply(TopicPlaced(topic_id=A, name="a", ranges=ranges, confirmed=False), 1)
    hot.apply(TopicPlaced(topic_id=A, name="a", ranges=[], confirmed=False), 2)
    assert hot.directory.placements[A].ranges == ()
