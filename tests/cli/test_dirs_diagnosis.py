"""What doctor says of data directories, and the notes of `coordinator status`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cli.doctor.diagnosis import Health
from cli.doctor.dirs import diagnose_dirs
from cli.looks.service import NodeView, notes, status_rows
from coordinator.client.model import RecordedDirectory
from coordinator.protocol.messages import DescribeCoordinatorsDirectory
from tests.cli.test_diagnosis import replica, view

GIB = 1024**3
ROOMY = DescribeCoordinatorsDirectory(directory_id=b"1" * 16, path="/one", total_bytes=100 * GIB, free_bytes=50 * GIB)
HOME = replace(replica(0, leads=True), directory_id=b"1" * 16)


def with_dirs(*directories: DescribeCoordinatorsDirectory, **changes: object) -> NodeView:
    return replace(view(1, HOME), directories=directories, **changes)  # type: ignore[arg-type]


def recording(told: NodeView) -> NodeView:
    """The same node, of which coordinator 0 has recorded replicas in a directory that it does not have online."""
    recorded = (RecordedDirectory(b"1" * 16, True, (0,)), RecordedDirectory(b"2" * 16, False, (4, 3)))
    return replace(told, node=told.node._replace(directories=recorded))


@pytest.mark.parametrize(
    ("told", "health", "says"),
    [
        (with_dirs(ROOMY), Health.OK, "1 data directories of 1 nodes are online"),
        (with_dirs(replace(ROOMY, offline_reason="I/O error")), Health.ERROR, "node 1: data directory /one is offline: I/O error"),
        (with_dirs(replace(ROOMY, free_bytes=5 * GIB)), Health.WARNING, "node 1: /one has 5.0 of 100.0 GiB left"),
        (with_dirs(replace(ROOMY, total_bytes=-1, free_bytes=-1)), Health.OK, "online"),
        (with_dirs(ROOMY, coordinators=(replica(3),)), Health.WARNING, "no data directory holds a replica of coordinator 3"),
        (
            with_dirs(ROOMY, queued_assignments=2, assignment_wait_ms=31_000),
            Health.WARNING,
            "node 1: coordinator 0 has not recorded the data directories of 2 replicas, for 31 s",
        ),
        (
            with_dirs(ROOMY, coordinators=(replace(HOME, state_locked_since_ms=0),)),
            Health.WARNING,
            "node 1: another connection has locked /one/partition-0.db since 1970-01-01 00:00:00 UTC",
        ),
        (with_dirs(ROOMY, queued_assignments=2, assignment_wait_ms=900), Health.OK, "online"),
        (
            recording(view(1, error="no answer")),
            Health.WARNING,
            "node 1: coordinator 3, 4 has its replica in a data directory that is offline",
        ),
        (recording(with_dirs(ROOMY)), Health.WARNING, "coordinator 3, 4 has its replica"),
        (view(1, error="no answer"), Health.OK, "0 data directories of 0 nodes"),
    ],
)
def test_doctor_judges_the_directories_of_nodes(told: NodeView, health: Health, says: str) -> None:
    [found] = diagnose_dirs([told])
    assert (found.health, says in found.finding) == (health, True), found
    assert (found.health is Health.OK) == (not found.remedy)


def test_status_notes_what_is_loaded_and_what_is_offline() -> None:
    loading = replace(replica(0, state="loading"), load_step="snapshot", load_snapshot="7-1.checkpoint", loaded_bytes=5, load_bytes=20)
    reading = replace(replica(1), load_step="log", loaded_entries=3, load_entries=9)
    seen = replace(view(2, loading, reading), directories=(replace(ROOMY, offline_reason="full"), ROOMY))
    assert notes([with_dirs(ROOMY), seen]) == [
        "node 2: coordinator 0 is being loaded: loading snapshot 7-1.checkpoint, 5 of 20 bytes",
        "node 2: coordinator 1 is being loaded: reading the log, 3 of 9 entries",
        "node 2: data directory /one is offline: full",
    ]
    assert [row["loading"] for row in status_rows([with_dirs(ROOMY), seen])] == [
        {"2": "loading snapshot 7-1.checkpoint, 5 of 20 bytes"},
        {"2": "reading the log, 3 of 9 entries"},
    ]
