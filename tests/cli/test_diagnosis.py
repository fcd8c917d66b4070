"""What `doctor` concludes: every kind of trouble is found, named and given a remedy; a healthy service has none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cli.doctor.diagnosis import (
    CHECK_ORDER,
    Diagnosis,
    Health,
    LastEntry,
    Space,
    diagnose_clocks,
    diagnose_coordinators,
    diagnose_nodes,
    diagnose_progress,
    diagnose_space,
    diagnose_topic,
    diagnose_versions,
)
from cli.doctor.dirs import CHECK as DIRS
from cli.doctor.files import diagnose_files, diagnose_orphan_scan
from cli.doctor.gateways import CHECK as GATEWAYS
from cli.doctor.migrations import CHECK as MIGRATIONS
from cli.doctor.moves import diagnose_moves
from cli.doctor.nodes import diagnose_narrow_topics, diagnose_placement
from cli.doctor.retention import diagnose_retention
from cli.doctor.security import CHECK as SECURITY
from cli.doctor.shadows import CHECK as SHADOWS
from cli.doctor.snapshots import CHECK as SNAPSHOTS
from cli.doctor.snapshots import diagnose_snapshots
from cli.looks.leadership import led_by
from cli.looks.service import NodeView, node_rows, replica_rows, status_rows, with_rates
from cli.output import Row
from coordinator.client.calls.orphans import OrphanScanState
from coordinator.client.model import ServiceNode
from coordinator.core.topic_rules import TOPIC_CONFIG, TopicExpectations
from coordinator.protocol.messages import DescribeCoordinatorsCoordinator
from coordinator.runtime.ports import PartitionFacts, TopicFacts

DIGEST = bytes(16)


def replica(
    coordinator_id: int, *, leads: bool = False, state: str = "", epoch: int = 1, end: int = 10, digest: bytes = DIGEST
) -> DescribeCoordinatorsCoordinator:
    return DescribeCoordinatorsCoordinator(
        error_code=0,
        coordinator_id=coordinator_id,
        state=state or ("leading" if leads else "following"),
        leader_id=1,
        leader_epoch=epoch,
        term=5,
        host="h",
        port=1,
        applied_offset=end - 1,
        log_end_offset=end,
        live_partitions=3,
        digest=digest,
        is_local=leads,
        directory_id=bytes(16),
    )


def view(node_id: int, *coordinators: DescribeCoordinatorsCoordinator, error: str = "", cluster: str = "c") -> NodeView:
    return NodeView(node=ServiceNode(node_id, "h", 9192 + node_id, None), cluster_id=cluster, coordinators=coordinators, error=error)


def elsewhere(seen: NodeView, assigned: dict[int, int]) -> NodeView:
    """What a node tells that does not follow some coordinators, but knows to whom they are assigned."""
    return replace(seen, coordinator_count=len(seen.coordinators) + len(assigned), assigned=assigned)


HEALTHY = [view(1, replica(0, leads=True), replica(1)), view(2, replica(0), replica(1, leads=True))]


def topic(replicas: int = 3, in_sync: int = 3, leader: int | None = 1, **config: str) -> TopicFacts:
    ids = tuple(range(1, replicas + 1))
    return TopicFacts(
        cluster_id="c",
        topic="t",
        topic_id=bytes(16),
        partitions=(PartitionFacts(partition=0, leader=leader, replicas=ids, in_sync=ids[:in_sync]),),
        config={**TOPIC_CONFIG, "min.insync.replicas": "2"} | {key.replace("_", "."): value for key, value in config.items()},
    )


def troubles(found: list[Diagnosis]) -> list[tuple[Health, str]]:
    bad = [one for one in found if one.health is not Health.OK]
    assert all(one.remedy for one in bad), "a finding without a remedy"
    assert all(one.check in CHECK_ORDER for one in found)
    return [(one.health, one.check) for one in bad]


def test_a_healthy_service_has_no_trouble() -> None:
    found = [
        *diagnose_topic(topic(), TopicExpectations()),
        *diagnose_nodes(HEALTHY, "c"),
        *diagnose_narrow_topics({"orders": range(8)}, 8),
        *diagnose_moves([], {}),
        *diagnose_placement(HEALTHY, 2),
        *diagnose_versions({1: {3: (9, 12)}}, {3: 12}),
        *diagnose_coordinators(HEALTHY, 2, 100),
        *diagnose_clocks([LastEntry(partition=0, log_end=10, timestamp_ms=1000, now_ms=900)], 5000),
        *diagnose_progress(HEALTHY, [LastEntry(partition=0, log_end=10, timestamp_ms=1000, now_ms=900)], 0),
        *diagnose_space([Space(path="/d", total_bytes=100 * 1024**3, free_bytes=50 * 1024**3)]),
        *diagnose_snapshots([], 1024, 1000),
        *diagnose_files([], 1000),
        *diagnose_orphan_scan(OrphanScanState(), 1000),
        *diagnose_retention([], {}),
    ]
    assert troubles(found) == []
    # The object store is asked, not judged; nothing is said of a restore where there was none; gateways have tests of their own.
    assert {one.check for one in found} == {*CHECK_ORDER} - {"object store", "restore", MIGRATIONS, SECURITY, GATEWAYS, SHADOWS}


def test_every_check_has_its_place_among_the_findings() -> None:
    assert {MIGRATIONS, SECURITY, DIRS, SNAPSHOTS} <= {*CHECK_ORDER}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (topic(retention_ms="604800000"), [(Health.ERROR, "kafka topic")]),
        (topic(min_insync_replicas="1"), [(Health.ERROR, "kafka topic")]),
        (topic(replicas=1, in_sync=1), [(Health.ERROR, "kafka topic")]),
        (topic(in_sync=1), [(Health.WARNING, "kafka topic")]),
        (topic(leader=None), [(Health.ERROR, "kafka leaders")]),
    ],
    ids=["retention", "min insync", "replicas", "in sync", "no leader"],
)
def test_topics_that_lose_data(facts: TopicFacts, expected: list[tuple[Health, str]]) -> None:
    assert troubles(diagnose_topic(facts, TopicExpectations())) == expected


def test_a_silent_node_and_a_node_of_another_cluster() -> None:
    assert troubles(diagnose_nodes([HEALTHY[0], view(2, error="refused")], None)) == [(Health.ERROR, "nodes")]
    assert troubles(diagnose_nodes(HEALTHY, "another")) == [(Health.ERROR, "nodes")]
    assert troubles(diagnose_nodes([HEALTHY[0], view(2, cluster="another")], None)) == [(Health.ERROR, "nodes")]


@pytest.mark.parametrize("served", [{}, {3: (9, 11)}, {3: (13, 14)}], ids=["missing", "older", "newer"])
def test_a_node_of_another_release(served: dict[int, tuple[int, int]]) -> None:
    assert troubles(diagnose_versions({1: served}, {3: 12})) == [(Health.WARNING, "versions")]


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        ([view(1, replica(0)), view(2, replica(0))], [(Health.ERROR, "leaders")]),
        ([view(1, replica(0, leads=True), replica(1, leads=True))], []),
        ([view(1, replica(0, leads=True)), view(2, replica(0, leads=True, epoch=2))], [(Health.WARNING, "leaders")]),
        ([view(1, replica(0, leads=True)), view(2, replica(0, state="failed"))], [(Health.ERROR, "leaders")]),
        ([view(1, replica(0, leads=True, end=500)), view(2, replica(0, end=10))], [(Health.WARNING, "standbys")]),
        ([view(1, replica(0, leads=True)), view(2)], [(Health.WARNING, "standbys")]),
        ([view(1, replica(0, leads=True)), view(2, replica(0, digest=b"x" * 16))], [(Health.ERROR, "digests")]),
        ([view(1, replica(0, leads=True)), view(2, replica(0, digest=b"x" * 16, end=9))], []),
    ],
    ids=["none leads", "alone", "two lead", "failed", "lag", "one replica", "digests differ", "digests at other offsets"],
)
def test_coordinators_in_trouble(views: list[NodeView], expected: list[tuple[Health, str]]) -> None:
    assert troubles(diagnose_coordinators(views, None, 100)) == expected


def test_a_metadata_partition_that_no_node_knows() -> None:
    assert troubles(diagnose_coordinators(HEALTHY, 3, 100)) == [(Health.ERROR, "leaders")]


def test_a_clock_that_is_ahead_and_replicas_that_do_not_read() -> None:
    ahead = LastEntry(partition=0, log_end=10, timestamp_ms=10_000, now_ms=1_000)
    assert troubles(diagnose_clocks([ahead], 5_000)) == [(Health.ERROR, "clocks")]
    assert troubles(diagnose_progress(HEALTHY, [LastEntry(partition=0, log_end=500, timestamp_ms=0, now_ms=0)], 100)) == [
        (Health.WARNING, "standbys")
    ]


@pytest.mark.parametrize(
    ("space", "health"),
    [
        (Space(path="/d", total_bytes=100 * 1024**3, free_bytes=9 * 1024**3), Health.WARNING),
        (Space(path="/d", total_bytes=2 * 1024**3, free_bytes=1024**3 - 1), Health.WARNING),
        (Space(path="/d", total_bytes=1, free_bytes=1, problem="not writable", remedy="mount it"), Health.ERROR),
    ],
)
def test_folders_without_room(space: Space, health: Health) -> None:
    assert troubles(diagnose_space([space])) == [(health, "data dirs")]


def test_commits_of_a_second_are_those_of_one_process() -> None:
    def look(commits: int, *, epoch: int = 1, node_id: int = 1) -> list[Row]:
        return status_rows([view(node_id, replace(replica(0, leads=True, epoch=epoch), commits=commits))])

    assert [row["commits_s"] for row in with_rates(look(130), look(100), 4.0)] == [7.5]
    for before in ([], look(100, epoch=2), look(100, node_id=2), look(200), status_rows([view(1, replica(0))])):
        assert [row["commits_s"] for row in with_rates(look(130), before, 4.0)] == [None]


def test_led_by_is_what_a_node_claimed_last_or_takes_itself_for_the_leader_of() -> None:
    late = [
        view(1, replica(0, leads=True), replica(1, leads=True)),
        view(2, replace(replica(0, leads=True, epoch=2), leader_id=2), replica(1)),
    ]
    assert (led_by(late, 1), led_by(late, 2)) == ([0, 1], [0])
    gone = [view(1, error="refused"), view(2, replica(1))]
    assert led_by(gone, 1) == [1]


# What is told of coordinator 1, which node 1 leads or led, when these are seen: its state in `status`, whether the node it names answers,
# whether node 1 leads it for `drain`, and the words of doctor.
FOLLOWS, SILENT = view(2, replica(0, leads=True, state="leading"), replica(1)), "refused"
UNSEEN = [
    ([view(1, replica(1, leads=True)), FOLLOWS], ("leading", True, True, "")),
    ([view(1, error=SILENT), FOLLOWS], ("no answer", False, True, "was led by node 1, which does not answer (node 2 following)")),
    ([view(1, replica(1)), FOLLOWS], ("no leader", True, True, "has no leader (node 1 following, node 2 following)")),
    (
        [view(1, error=SILENT), elsewhere(view(2, replica(0, leads=True)), {1: 1})],
        ("no answer", False, True, "was led by node 1, which does not answer (no node that answers has a replica)"),
    ),
    (
        [view(1), view(2, error=SILENT), elsewhere(view(3, replica(0, leads=True)), {1: -1})],
        ("no answer", True, True, "has no leader (no node that answers has a replica)"),
    ),
    (
        [view(1, error=SILENT), elsewhere(view(2, replica(0, leads=True)), {1: 3}), view(3)],
        ("no leader", True, False, "has no leader (no node that answers has a replica)"),
    ),
    ([view(1), elsewhere(view(2, replica(0, leads=True)), {1: -1})], ("no leader", True, True, "has no leader (no node has a replica)")),
]


@pytest.mark.parametrize(("views", "told"), UNSEEN)
def test_of_a_coordinator_whose_nodes_do_not_answer_nothing_is_told_that_is_not_known(
    views: list[NodeView], told: tuple[str, bool, bool, str]
) -> None:
    state, does_answer, is_led_by_one, words = told
    row = next(row for row in status_rows(views) if row["coordinator"] == 1)
    assert (row["state"], row["last_leader_answers"], 1 in led_by(views, 1)) == (state, does_answer, is_led_by_one)
    found = [one.finding for one in diagnose_coordinators(views, None, 100) if one.check == "leaders" and one.health is Health.ERROR]
    assert any(f"coordinator 1 {words}" in one for one in found) if words else not any("coordinator 1 " in one for one in found), found


def test_the_screens_show_leaders_standbys_and_silent_nodes() -> None:
    views = [view(1, replica(0, leads=True, end=12)), view(2, replica(0, end=10)), view(3, error="refused")]
    [status] = status_rows(views)
    assert (status["leader"], status["standbys"], status["lag_max"], status["log_end"]) == (1, 1, 2, 12)
    assert [(row["node"], row["lag"]) for row in replica_rows(views, [])] == [(1, 0), (2, 2)]
    assert replica_rows(views, [7]) == []
    assert [(row["node"], row["leads"], row["reachable"]) for row in node_rows(views)] == [(1, [0], True), (2, [], True), (3, [], False)]
    assert status_rows([view(1, replica(0))])[0]["state"] == "no leader"
    deposed = [view(1, replica(0, leads=True)), view(2, replica(0, leads=True, epoch=2))]
    assert [(row["leads"], row["follows"]) for row in node_rows(deposed)] == [([], 1), ([0], 0)]


def test_a_replica_that_failed_is_told_with_its_reason_and_the_file_it_left() -> None:
    failed = replace(replica(0), failures=2, last_failure="page 7 is damaged", evidence="partition-0.db.failed-5")
    found = diagnose_coordinators([view(1, replica(0, leads=True)), view(2, failed)], 1, 100)
    assert troubles(found) == [(Health.WARNING, "damage")]
    [told] = [one.finding for one in found if one.check == "damage"]
    assert told == (
        "coordinator 0 failed 2 times on node 2 since that started: page 7 is damaged;"
        " its database is kept as partition-0.db.failed-5 in the data directory"
    )
    still = replace(failed, state="failed", evidence=None)
    found = diagnose_coordinators([view(1, replica(0, leads=True)), view(2, still)], 1, 100)
    assert (Health.ERROR, "leaders") in troubles(found)
