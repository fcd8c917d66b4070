"""In which data directories replicas are: told by their nodes, kept in partition 0, and offline with their directory (KIP-858)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from coordinator.core.commands import OK, AssignReplicasToDirs, Outcome, RegisterNode
from coordinator.core.deciding.decide import decide_write
from coordinator.core.directory.content import content_of, items_of, restore_content
from coordinator.core.directory.decisions import decide_register
from coordinator.core.directory.directory import Directory
from coordinator.core.directory.replica_dirs import ASSIGNMENTS_MAX, node_epoch, recorded_directories
from coordinator.core.limits import Limits
from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.directory_ids import LOST, MIGRATING, UNASSIGNED
from coordinator.kafka.errors import ErrorCode
from records.model import Endpoint, ReplicasAssignedToDirs

LIMITS = Limits()
FIRST, SECOND = b"1" * 16, b"2" * 16
EPOCH_FIRST = node_epoch(FIRST)
DIR_1, DIR_2 = b"d" * 16, b"e" * 16


def with_node(*log_dirs: bytes, is_any_dir_offline: bool = False) -> HotState:
    """Node 4, whose process FIRST has these directories online."""
    hot = HotState()
    node = RegisterNode(
        node_id=4,
        rack="",
        endpoints=[Endpoint(listener="L", host="h", port=1)],
        schema_level_max=1,
        incarnation_id=FIRST,
        log_dirs=log_dirs,
        is_any_dir_offline=is_any_dir_offline,
    )
    hot.apply(decide_register(hot.directory, node)[0][0], 1)
    return hot


def assigning(hot: HotState, *assignments: tuple[bytes, tuple[int, ...]], epoch: int = EPOCH_FIRST, node_id: int = 4) -> Outcome:
    """Decide an assignment and apply what it logs."""
    command = AssignReplicasToDirs(node_id=node_id, node_epoch=epoch, assignments=assignments)
    decision = decide_write(hot, command, LIMITS)
    for record in decision.records:
        hot.apply(record, 2)
    assert isinstance(decision.answer, Outcome)
    return decision.answer


def test_a_process_that_loses_a_directory_is_registered_anew() -> None:
    hot = with_node(DIR_1, DIR_2)
    known = hot.directory.nodes[4]
    assert (known.log_dirs, known.is_any_dir_offline) == ([DIR_1, DIR_2], False)
    told = RegisterNode(
        node_id=4, rack="", endpoints=known.endpoints, schema_level_max=1, incarnation_id=FIRST, log_dirs=(DIR_2,), is_any_dir_offline=True
    )
    [record], outcome = decide_register(hot.directory, told)
    assert outcome == OK
    assert record == replace(known, log_dirs=[DIR_2], is_any_dir_offline=True)


def test_replicas_are_where_their_node_said_last() -> None:
    hot = with_node(DIR_1, DIR_2)
    assert assigning(hot, (DIR_1, (0, 1)), (DIR_2, (2,))) == OK
    assert assigning(hot, (DIR_2, (1, 2))) == OK
    assert hot.directory.replica_dirs == {(4, 0): DIR_1, (4, 1): DIR_2, (4, 2): DIR_2}
    assert hot.copy().directory.replica_dirs == hot.directory.replica_dirs
    assert hot.touched.content


def test_an_assignment_that_is_known_is_not_logged_again() -> None:
    hot = with_node(DIR_1)
    assigning(hot, (DIR_1, (0, 1)))
    command = AssignReplicasToDirs(node_id=4, node_epoch=EPOCH_FIRST, assignments=((DIR_1, (0, 1)),))
    assert decide_write(hot, command, LIMITS).records == []
    more = replace(command, assignments=((DIR_1, (0, 1, 2)),))
    [record] = decide_write(hot, more, LIMITS).records
    assert isinstance(record, ReplicasAssignedToDirs)
    assert [(one.directory_id, one.partitions) for one in record.assignments] == [(DIR_1, [2])]


@pytest.mark.parametrize(
    ("node_id", "epoch", "directory_id", "partitions", "error", "says"),
    [
        (5, EPOCH_FIRST, DIR_1, (0,), ErrorCode.BROKER_ID_NOT_REGISTERED, "node 5 is not registered"),
        (4, node_epoch(SECOND), DIR_1, (0,), ErrorCode.STALE_BROKER_EPOCH, "registered by another process"),
        (4, EPOCH_FIRST, DIR_1, range(ASSIGNMENTS_MAX + 1), ErrorCode.INVALID_REQUEST, "2251 replicas are assigned to directories; 2250"),
        (4, EPOCH_FIRST, UNASSIGNED, (0,), ErrorCode.INVALID_REQUEST, "reserved by Kafka"),
        (4, EPOCH_FIRST, MIGRATING, (0,), ErrorCode.INVALID_REQUEST, "reserved by Kafka"),
    ],
)
def test_an_assignment_is_refused(
    node_id: int, epoch: int, directory_id: bytes, partitions: Iterable[int], error: ErrorCode, says: str
) -> None:
    hot = with_node(DIR_1)
    outcome = assigning(hot, (directory_id, tuple(partitions)), epoch=epoch, node_id=node_id)
    assert (outcome.error, says in str(outcome.message)) == (error, True)
    assert hot.directory.replica_dirs == {}


def test_a_replica_is_offline_when_its_directory_is_not_among_those_its_node_has() -> None:
    hot = with_node(DIR_1)
    assigning(hot, (DIR_1, (0,)), (DIR_2, (1,)), (LOST, (2,)))
    told = recorded_directories(hot.directory, hot.directory.nodes[4], range(5), followed={0, 3})
    assert told == [(DIR_1, True, [0]), (DIR_2, False, [1]), (LOST, False, [2]), (UNASSIGNED, True, [3])]


def test_directories_of_replicas_are_written_and_read_back() -> None:
    hot = with_node(DIR_1, is_any_dir_offline=True)
    assigning(hot, (DIR_1, (0, 3)), (LOST, (1,)))
    content = content_of(hot.directory, (), None, {})
    read = Directory()
    restore_content(read, json.dumps(content))
    assert (read.nodes, read.replica_dirs) == (hot.directory.nodes, hot.directory.replica_dirs)
    assert ("replica directory", "4-3", {"directory_id": DIR_1.hex()}) in list(items_of(content))
