"""What `diskless dirs` shows of the answers of nodes, and when a move is done."""

from __future__ import annotations

from dataclasses import replace

from cli.looks.dirs import DirsView, MoveProgress, directory_rows, progress_of, replica_rows
from cli.looks.service import NodeView
from cli.looks.service import replica_rows as described_rows
from coordinator.client.model import RecordedDirectory, ServiceNode
from coordinator.kafka.directory_ids import LOST
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.log_dirs import DescribedDirectory, DescribedReplica
from coordinator.protocol.messages import DescribeCoordinatorsDirectory
from tests.cli.test_diagnosis import replica

ONE = DescribedDirectory("/one", ErrorCode.NONE, 100, 40, [DescribedReplica("t", 2, 7, 0, False), DescribedReplica("t", 0, 5, 0, False)])
TWO = DescribedDirectory("/two", ErrorCode.NONE, 100, 90, [DescribedReplica("t", 2, 0, 12, True)])
GONE = DescribedDirectory("/gone", ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, [])
TOLD = [
    DescribeCoordinatorsDirectory(directory_id=b"1" * 16, path="/one"),
    DescribeCoordinatorsDirectory(directory_id=LOST, path="/gone", offline_reason="not mounted; mount it"),
]


def view(node_id: int, *directories: DescribedDirectory, error: str = "") -> DirsView:
    node = ServiceNode(node_id, "h", 9192, None)
    return DirsView(view=NodeView(node=node, cluster_id="c", coordinators=(), error=error, directories=TOLD), directories=directories)


def test_each_directory_of_each_node_has_a_row() -> None:
    rows = directory_rows([view(1, ONE, GONE), view(2, TWO), view(3, error="no answer")])
    shown = [(one["node"], one["path"], one["state"], one["coordinators"], one["size"], one["free"], one["reason"]) for one in rows]
    assert shown == [
        (1, "/one", "online", [0, 2], 12, 40, None),
        (1, "/gone", "offline", [], 0, None, "not mounted; mount it"),
        (2, "/two", "online", [], 0, 90, None),
    ]
    assert [one["directory_id"] for one in rows] == ["MTExMTExMTExMTExMTExMQ", "LOST", None]


def test_a_replica_that_moves_has_one_row() -> None:
    rows = replica_rows([view(1, ONE, TWO)], [])
    assert [(one["coordinator"], one["path"], one["moves_to"], one["lag"]) for one in rows] == [
        (0, "/one", None, None),
        (2, "/one", "/two", 12),
    ]
    assert [one["coordinator"] for one in replica_rows([view(1, ONE, TWO)], [0])] == [0]


RECORDED = (RecordedDirectory(b"3" * 16, True, (0, 2)), RecordedDirectory(LOST, False, (1,)))


def with_record(told: DirsView) -> DirsView:
    """The same node, with what coordinator 0 has recorded of it."""
    return replace(told, view=replace(told.view, node=told.view.node._replace(directories=RECORDED)))


def test_offline_replicas_and_those_of_a_dead_node_are_where_they_are_recorded() -> None:
    views = [with_record(view(1, ONE)), with_record(view(2, error="no answer"))]
    shown = [(one["coordinator"], one["node"], one["state"], one["path"], one["directory_id"]) for one in replica_rows(views, [])]
    lives, dead = "MTExMTExMTExMTExMTExMQ", "MzMzMzMzMzMzMzMzMzMzMw"
    assert shown == [
        (0, 1, "online", "/one", lives),
        (0, 2, "no answer", None, dead),
        (1, 1, "offline", None, "LOST"),
        (1, 2, "offline", None, "LOST"),
        (2, 1, "online", "/one", lives),
        (2, 2, "no answer", None, dead),
    ]
    assert [one["node"] for one in replica_rows(views, [1])] == [1, 2]
    dirs = [(one["directory_id"], one["state"], one["coordinators"]) for one in directory_rows(views) if one["node"] == 2]
    assert dirs == [(dead, "no answer", [0, 2]), ("LOST", "offline", [1])]


def test_coordinators_are_described_with_the_directories_that_are_recorded() -> None:
    told = replace(replica(2), directory_id=b"3" * 16)
    views = [replace(with_record(view(1)).view, coordinators=(told,)), with_record(view(2, error="no answer")).view]
    shown = [(one["coordinator"], one["node"], one["state"], one["directory_state"]) for one in described_rows(views, [])]
    assert shown == [
        (0, 2, "no answer", "no answer"),
        (1, 1, "offline", "offline"),
        (1, 2, "offline", "offline"),
        (2, 1, "following", "online"),
        (2, 2, "no answer", "no answer"),
    ]


def test_a_move_is_done_when_the_replica_is_there_and_has_no_copy() -> None:
    there = TWO._replace(replicas=[DescribedReplica("t", 2, 7, 0, False)])
    for directories, expected in (
        ((ONE, TWO), MoveProgress(coordinator_id=2, is_there=False, copied_lag=12)),
        ((ONE,), MoveProgress(coordinator_id=2, is_there=False, copied_lag=None)),
        ((ONE._replace(replicas=[]), there), MoveProgress(coordinator_id=2, is_there=True, copied_lag=None)),
    ):
        assert progress_of(directories, "/two", [2]) == [expected]
