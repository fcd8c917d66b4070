"""`diskless dirs`, and Kafka's own log dirs tool, against real nodes with two data directories each."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.dev.kafka import Kafka
from cli.main import root
from cli.outcome import Exit
from coordinator.kafka.directory_ids import directory_id_text
from integration_tests.commands import run
from integration_tests.kafka_scripts import java_program
from integration_tests.service import UNDISTURBED, Service
from integration_tests.test_snapshot_dump import TOOL_TIMEOUT_S
from integration_tests.waiting import wait_until

# The first test may have to fetch the jars.
pytestmark = pytest.mark.timeout(600)

PARTITIONS = 4


@pytest.fixture(scope="module")
def service(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two nodes with a topic on every coordinator."""
    with Service(kafka.bootstrap, tmp_path_factory.mktemp("dirs"), partitions=PARTITIONS, properties=UNDISTURBED) as service:
        for node_id in (1, 2):
            service.add(node_id, data_dirs=",".join(map(str, paths(service, node_id)))).start()
        service.wait_shared()
        # A node leads before it is registered.
        wait_until(lambda: {row["node"] for row in run(service, "dirs", "list")} == {1, 2}, "both nodes to be registered")
        create(service, "before")
        yield service


def paths(service: Service, node_id: int) -> list[Path]:
    """The data directories of a node."""
    return [service.folder / f"disk-{node_id}-{name}" for name in ("one", "two")]


def create(service: Service, name: str) -> None:
    """Create a topic with partitions on every coordinator: each writes to its log."""
    run(service, "topics", "create", name, "--partitions", str(2 * PARTITIONS))


def homes(service: Service, node_id: int) -> dict[object, str]:
    """The name of the folder of each replica of a node."""
    rows = run(service, "dirs", "list", "--replicas")
    return {row["coordinator"]: Path(str(row["path"])).name for row in rows if row["node"] == node_id}


def recorded(service: Service, node_id: int) -> dict[int, str]:
    """The directory ids that partition 0 has of a node's replicas, by the entries of its log."""
    words = ["log", "dump", "--metadata-topic", service.topic, "--partition", "0", "--bootstrap-server", service.bootstrap, "-o", "jsonl"]
    result = CliRunner().invoke(root, words, prog_name="diskless")
    assert result.exit_code == 0, result.stderr
    found: dict[int, str] = {}
    for line in result.stdout.splitlines():
        for record in json.loads(line).get("records") or []:
            if record["type"] == "ReplicasAssignedToDirs" and record["node_id"] == node_id:
                for one in record["assignments"]:
                    found |= dict.fromkeys(one["partitions"], one["directory_id"])
    return found


def test_the_directories_of_every_node_are_listed(service: Service) -> None:
    rows = run(service, "dirs", "list")
    assert [(row["node"], row["path"], row["state"]) for row in rows] == [
        (node_id, str(path), "online") for node_id in (1, 2) for path in paths(service, node_id)
    ]
    assert sorted(place for row in rows for place in row["coordinators"]) == sorted([*range(PARTITIONS)] * 2)  # type: ignore[attr-defined]
    assert all(row["total"] > row["free"] > 0 for row in rows)  # type: ignore[operator]
    assert len({row["directory_id"] for row in rows}) == 4


def test_partition_0_records_where_the_replicas_are(service: Service) -> None:
    for node_id in (1, 2):
        wait_until(lambda node_id=node_id: len(recorded(service, node_id)) == PARTITIONS, "every replica to be recorded")
        assert len(set(recorded(service, node_id).values())) == 2


def test_replicas_move_while_the_service_goes_on(service: Service) -> None:
    one, two = paths(service, 1)
    before = homes(service, 1)
    moved = sorted(place for place, name in before.items() if name == one.name)  # type: ignore[type-var]
    assert moved
    said = run(service, "dirs", "move", *map(str, moved), "--node", "1", "--to", str(two), "--timeout", "60", output=False)
    assert all(f"coordinator {place}: is there" in str(said) for place in moved)
    assert set(homes(service, 1).values()) == {two.name}
    assert list(one.glob("partition-*.db")) == []
    create(service, "after")
    run(service, "dirs", "move", "0", "--node", "1", "--to", str(one), "--no-wait", output=False)
    wait_until(lambda: homes(service, 1)[0] == one.name, "the replica to be in its new home")
    wait_until(lambda: len(set(recorded(service, 1).values())) == 2, "both homes to be recorded")


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("0", "--node", "7", "--to", "/mnt"), Exit.NOT_FOUND, "there is no node 7; the service has 1, 2"),
        (("9", "--node", "1", "--to", "/mnt"), Exit.NOT_FOUND, "node 1 has no replica of coordinator 9"),
        (("0", "--node", "1", "--to", "/mnt"), Exit.NOT_FOUND, "node 1 has no data directory /mnt; it has "),
    ],
)
def test_a_move_that_cannot_be_names_what_is_there(service: Service, words: tuple[str, ...], status: Exit, says: str) -> None:
    assert says in str(run(service, "dirs", "move", *words, status=status, output=False))


def test_kafkas_own_tool_describes_the_directories_of_a_node(service: Service) -> None:
    tool = java_program("org.apache.kafka.tools.LogDirsCommand")
    words = ["--describe", "--bootstrap-server", service.addresses[0], "--broker-list", "1,2", "--topic-list", service.topic]
    done = subprocess.run([*tool, *words], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"^\{.*\}$", done.stdout, re.MULTILINE)
    assert told is not None, done.stdout + done.stderr
    found = {
        broker["broker"]: {one["logDir"]: sorted(replica["partition"] for replica in one["partitions"]) for one in broker["logDirs"]}
        for broker in json.loads(told[0])["brokers"]
    }
    rows = run(service, "dirs", "list")
    assert found == {
        node_id: {
            row["path"]: [f"{service.topic}-{place}" for place in row["coordinators"]]  # type: ignore[attr-defined]
            for row in rows
            if row["node"] == node_id
        }
        for node_id in (1, 2)
    }


def test_a_lost_directory_is_named_by_ready_doctor_and_the_list(service: Service) -> None:
    node, lost = service.nodes[2], paths(service, 2)[1]
    lost.rename(lost.with_name("gone"))
    wait_until(lambda: list(node.readiness()[1]["offline_directories"]) == [str(lost)], "/ready to name the lost directory")  # type: ignore[call-overload]
    wait_until(lambda: set(homes(service, 2).values()) == {paths(service, 2)[0].name}, "all replicas to be in the other one")
    row = next(row for row in run(service, "dirs", "list") if row["path"] == str(lost))
    assert (row["state"], row["coordinators"]) == ("offline", [])
    assert row["reason"]
    [told] = [one for one in run(service, "doctor", status=Exit.FAILURE) if one["check"] == "data dirs" and one["health"] == "error"]
    assert f"node 2: data directory {lost} is offline: {row['reason']}" == told["finding"]
    wait_until(lambda: len(set(recorded(service, 2).values())) == 1, "the new homes to be recorded")
    service.wait_shared()


def test_replicas_of_a_dead_node_are_shown_as_they_are_recorded(service: Service) -> None:
    """Last in this module: it ends a node."""
    expected = {place: directory_id_text(bytes.fromhex(one)) for place, one in recorded(service, 2).items()}
    assert len(expected) == PARTITIONS
    service.nodes[2].kill()
    rows = [row for row in run(service, "dirs", "list", "--replicas", "--timeout", "20") if row["node"] == 2]
    assert {row["coordinator"]: row["directory_id"] for row in rows} == expected
    assert {(row["state"], row["path"]) for row in rows} == {("no answer", None)}
    listed = [row for row in run(service, "dirs", "list", "--timeout", "20") if row["node"] == 2]
    assert [(row["state"], row["coordinators"]) for row in listed] == [("no answer", [*range(PARTITIONS)])]
    described = run(service, "coordinator", "describe", "1", "--timeout", "20")
    assert [(row["node"], row["directory_state"]) for row in described] == [(1, "online"), (2, "no answer")]
    assert described[1]["directory_id"] == expected[1]


def test_a_dead_leader_is_named_by_the_status_and_by_topics(service: Service) -> None:
    """After the test that ends a node: its session lasts for a minute, and so long nobody else leads its coordinators."""
    led = {row["coordinator"]: row for row in run(service, "coordinator", "status", status=Exit.UNAVAILABLE)}
    dead = {place for place, row in led.items() if row["leader"] is None}
    assert dead
    assert {(row["last_leader"], row["last_leader_answers"]) for place, row in led.items() if place in dead} == {(2, False)}
    assert {(row["leader"], row["last_leader_answers"]) for place, row in led.items() if place not in dead} <= {(1, True)}
    partitions = run(service, "topics", "describe", "before")
    assert {(row["leader"], row["leader_answers"]) for row in partitions if row["coordinator"] in dead} == {(2, False)}
    assert {row["leader_answers"] for row in partitions if row["coordinator"] not in dead} <= {True}
    for words, status in ((("coordinator", "status"), Exit.UNAVAILABLE), (("topics", "describe", "before"), Exit.OK)):
        shown = CliRunner().invoke(root, [*words, "--bootstrap-server", ",".join(service.addresses)], prog_name="diskless")
        assert shown.exit_code == status, shown.output
        assert "node 2 (does not answer)" in shown.stdout
