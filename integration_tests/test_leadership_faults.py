"""Leadership moves between processes that join, die, stop and freeze, under clients that never pause; nothing is lost or doubled.

Every test records what its clients did and were told (`load`), and a checker that knows nothing of the product's core
judges the whole history at the end (`checker`). A dead or frozen leader is replaced as long after its last heartbeat as the
group's session timeout says, Kafka's minimum of 6 s; one that stops or gives partitions up never waits for the end of its
session, which is a minute in those tests. Both take well below 2 s more where nothing else runs; the limits here leave room
for a machine that stands still for seconds, and a claim that waits for the end of a session breaks them. How long each
partition went without an acknowledgement is printed (`pytest -s`, or in the report of a failed test).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka, KafkaCluster
from coordinator.protocol.messages import DescribeCoordinatorsRequest, DescribeCoordinatorsResponse
from integration_tests.final_state import dump_topic
from integration_tests.history import FinalState, longest_gap_s
from integration_tests.metadata_log import read_log
from integration_tests.service import UNDISTURBED, Service
from integration_tests.waiting import wait_until
from integration_tests.watched import Watched, ask

METADATA_PARTITIONS = 8
USER_PARTITIONS = 24
SESSION_TIMEOUT_S = 6.0
PAUSE_MAX_S = 15.0
"""Of a partition whose leader hands over or goes on, on a machine that stands still for seconds."""
FREEZE_S = SESSION_TIMEOUT_S + 1.5
UNHEALTHY_S = 0.2


class Run(Watched):
    """A service with a topic whose partitions lie in every coordinator, and the load on it; nodes join and die."""

    def __init__(self, service: Service, nodes: int) -> None:
        super().__init__(service.start(nodes), "orders", USER_PARTITIONS)

    def add(self, node_id: int) -> None:
        """Start one more node."""
        self.service.add(node_id).start()
        self.know(node_id)

    def stop(self, node_id: int) -> None:
        """SIGTERM to a node, which must end well."""
        node = self.node(node_id)
        status = node.terminate()
        assert status == 0, f"node {node_id} ended with status {status}\n{node.log_tail()}"

    def led(self, node_id: int) -> list[int]:
        """The coordinators a node leads, by its own account."""
        leading = self.node(node_id).readiness()[1].get("leading", [])
        assert isinstance(leading, list)
        return leading

    def followers(self) -> dict[int, frozenset[int]]:
        """The nodes that have a replica of each coordinator, leading or following, as those say that run."""
        found: dict[int, set[int]] = {}
        for node_id, node in self.service.nodes.items():
            if node.process is not None and node.process.is_running():
                told = ask(node.address, DescribeCoordinatorsRequest(coordinator_ids=()), DescribeCoordinatorsResponse)
                for one in told.coordinators:
                    if one.state in ("leading", "following"):
                        found.setdefault(one.coordinator_id, set()).add(node_id)
        return {partition: frozenset(nodes) for partition, nodes in found.items()}

    def is_settled(self) -> bool:
        """Whether the running nodes lead equally much, and each coordinator has one standby."""
        running = [node_id for node_id, node in self.service.nodes.items() if node.process is not None and node.process.is_running()]
        led = [len(self.led(node_id)) for node_id in running]
        standbys = [len(nodes) - 1 for partition, nodes in self.followers().items() if partition]
        return sum(led) == METADATA_PARTITIONS and max(led) - min(led) <= 1 and standbys == [1] * (METADATA_PARTITIONS - 1)

    def node(self, node_id: int) -> CoordinatorProcess:
        """A node."""
        return self.service.nodes[node_id]

    def claims(self) -> dict[int, int]:
        """How often each coordinator was claimed."""
        logs = dump_topic(self.service.bootstrap, self.service.topic)
        return {partition: len(read_log(messages).claims) for partition, messages in logs.items()}

    def gaps_s(self, start_s: float, end_s: float) -> dict[int, float]:
        """The longest time without an acknowledgement, per coordinator, between two moments."""
        return {c: longest_gap_s(self.history.acknowledged_at_s(c), start_s, end_s) for c in range(METADATA_PARTITIONS)}


def show(what: str, gaps_s: Mapping[int, float]) -> None:
    """Print the longest gaps."""
    print(f"{what}: longest {max(gaps_s.values()):.2f} s; " + " ".join(f"{c}:{gap:.2f}" for c, gap in sorted(gaps_s.items())))


@pytest.fixture
def undisturbed(kafka: Kafka, data_folder: Path) -> Iterator[Service]:
    """A service whose nodes lose nothing by standing still for a while."""
    with Service(kafka.bootstrap, data_folder, properties=UNDISTURBED) as made:
        yield made


@pytest.mark.long
def test_a_third_node_joins_under_load_and_takes_its_share(undisturbed: Service) -> None:
    run = Run(undisturbed, 2)
    with run.load() as load:
        load.wait_flowing()
        start_s = time.monotonic()
        run.add(3)
        undisturbed.wait_shared()
        # The group may hand partitions over in several steps; in between all are led, but not yet evenly.
        wait_until(
            lambda: undisturbed.is_shared() and all(len(run.led(one)) >= METADATA_PARTITIONS // 3 for one in (1, 2, 3)), "even shares"
        )
        moved = run.led(3)
        print(f"join to shared {time.monotonic() - start_s:.2f} s, moved {moved}")
        load.wait_flowing()
        end_s = time.monotonic()
    gaps_s = run.gaps_s(start_s, end_s)
    show("join", gaps_s)
    assert max(gaps_s.values()) < PAUSE_MAX_S
    assert all(run.history.acknowledged_at_s(c, node_id=3) for c in moved)
    run.judge()


def test_a_killed_leader_is_replaced_by_warm_standbys_within_the_session_timeout_and_comes_back(service: Service) -> None:
    run = Run(service, 3)
    with run.load() as load:
        load.wait_flowing()
        wait_until(run.is_settled, "one warm standby of every coordinator")
        orphaned, warm = run.led(1), run.followers()
        assert all(len(nodes) == 2 for partition, nodes in warm.items() if partition)
        start_s = time.monotonic()
        run.node(1).kill()
        wait_until(lambda: len(run.led(2)) + len(run.led(3)) == METADATA_PARTITIONS, "the others to lead everything")
        print(f"kill to leading everything {time.monotonic() - start_s:.2f} s")
        for node_id in (2, 3):
            assert all(node_id in warm[partition] for partition in run.led(node_id) if partition in orphaned), "none is loaded first"
        wait_until(lambda: len(run.led(2)) == len(run.led(3)), "even shares")
        load.wait_flowing()
        end_s = time.monotonic()
        run.node(1).start()
        service.wait_shared()
        wait_until(lambda: len(run.led(1)) >= METADATA_PARTITIONS // 3, "the share of the node that came back")
        load.wait_flowing()
    gaps_s = run.gaps_s(start_s, end_s)
    show("kill", gaps_s)
    assert max(gaps_s[c] for c in orphaned) < SESSION_TIMEOUT_S + PAUSE_MAX_S
    assert max(gaps_s[c] for c in gaps_s if c not in orphaned) < PAUSE_MAX_S
    run.judge()


@pytest.mark.long  # a killed leader, above, and a drained one, in test_operators_moves.py, are in every run
def test_a_rolling_restart_never_pauses_a_partition_for_long(undisturbed: Service) -> None:
    run = Run(undisturbed, 4)
    with run.load() as load:
        load.wait_flowing()
        wait_until(run.is_settled, "one warm standby of every coordinator")
        before = run.claims()
        start_s = time.monotonic()
        for node_id in (1, 2, 3, 4):
            run.stop(node_id)
            load.wait_flowing()
            run.node(node_id).start()
            undisturbed.wait_shared()
            wait_until(run.is_settled, "one warm standby of every coordinator")
            print(f"claims by partition after the restart of node {node_id}: {run.claims()}")
            load.wait_flowing()
        end_s = time.monotonic()
    gaps_s = run.gaps_s(start_s, end_s)
    show(f"rolling restart of {end_s - start_s:.1f} s", gaps_s)
    assert max(gaps_s.values()) < PAUSE_MAX_S
    run.judge()
    moves = {partition: count - before[partition] for partition, count in run.claims().items()}
    print(f"moves by partition {moves}")
    # Two for most: away when its node stops, and back. A third one evens out what the restart before left uneven.
    assert max(moves.values()) <= 4
    assert sum(moves.values()) <= 3 * len(moves)


@pytest.mark.long  # a frozen node that steps down, in test_clocks_and_doubles.py, is in every run
def test_a_frozen_leader_acknowledges_nothing_after_it_was_replaced_and_becomes_useful_again(service: Service) -> None:
    run = Run(service, 2)
    with run.load() as load:
        load.wait_flowing()
        frozen = run.led(1)
        start_s = time.monotonic()
        run.node(1).pause()
        wait_until(lambda: len(run.led(2)) == METADATA_PARTITIONS, "node 2 to lead everything")
        print(f"freeze to leading everything {time.monotonic() - start_s:.2f} s")
        load.wait_flowing()
        wait_until(lambda: time.monotonic() - start_s > FREEZE_S, "the freeze to outlast the session")
        end_s = time.monotonic()
        run.node(1).resume()
        service.wait_shared()
        load.wait_flowing()
        # Whatever it had in hand was judged; now it must carry everything alone.
        run.stop(2)
        wait_until(lambda: len(run.led(1)) == METADATA_PARTITIONS, "node 1 to lead everything")
        load.wait_flowing()
    gaps_s = run.gaps_s(start_s, end_s)
    show("freeze", gaps_s)
    assert max(gaps_s[c] for c in frozen) < SESSION_TIMEOUT_S + PAUSE_MAX_S
    final = run.judge()
    assert_zombie_was_silent(run, final, frozen, start_s)


def assert_zombie_was_silent(run: Run, final: FinalState, frozen: list[int], frozen_at_s: float) -> None:
    """Between the claim that replaced it and its own next one, node 1 told nobody of anything that lies behind that claim."""
    wall_s = time.time() - time.monotonic()
    for coordinator_id in frozen:
        log = read_log(final.logs[coordinator_id])
        frozen_at_ms = (frozen_at_s + wall_s) * 1000
        successor = next(claim for claim in log.claims if claim.node_id == 2 and claim.timestamp_ms > frozen_at_ms)
        own_next = next(claim for claim in log.claims if claim.node_id == 1 and claim.offset > successor.offset)
        offsets = {commit.object_key: commit.offset for commit in log.commits}
        late = [void.offset for void in log.voids if void.offset > successor.offset]
        told = [
            ack
            for ack in run.history.acknowledgements()
            if ack.attempt.node_id == 1
            and run.history.batch(ack.origin).coordinator_id == coordinator_id
            and successor.timestamp_ms < (ack.attempt.answered_s + wall_s) * 1000 < own_next.timestamp_ms
        ]
        print(f"coordinator {coordinator_id}: void entries {late} behind the claim at {successor.offset}, {len(told)} late answers")
        lies = [ack for ack in told if offsets[ack.origin.object_key] > successor.offset]
        assert not lies, f"coordinator {coordinator_id} was led by node 2 from {successor} on, but node 1 acknowledged {lies[:3]}"


@pytest.mark.long
def test_without_its_database_or_directory_a_node_only_starts_slower(service: Service) -> None:
    run = Run(service, 2)
    node = run.node(1)
    with run.load() as load:
        load.wait_flowing(30)
        run.stop(1)
        kept_s = restart(run)
        run.stop(1)
        databases = sorted(node.data_folder.rglob("*.db")) or sorted(node.data_folder.rglob("*.sqlite*"))
        assert len(databases) >= METADATA_PARTITIONS, f"state databases expected, found {sorted(node.data_folder.rglob('*'))}"
        databases[3].unlink()
        one_s = restart(run)
        load.wait_flowing()
        run.stop(1)
        shutil.rmtree(node.data_folder)
        all_s = restart(run)
        load.wait_flowing()
    print(f"start to sharing: all kept {kept_s:.2f} s, one database gone {one_s:.2f} s, directory gone {all_s:.2f} s")
    run.judge()


def restart(run: Run) -> float:
    """Start node 1 and return how long it took to share the partitions, in seconds."""
    start_s = time.monotonic()
    run.node(1).start()
    run.service.wait_shared()
    return time.monotonic() - start_s


@pytest.fixture
def own_kafka(kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    """A broker of the test's own, which it may freeze."""
    return kafka_cluster(1)


def test_commits_of_unknown_outcome_are_answered_or_made_once_by_the_next_leader(own_kafka: KafkaCluster, service: Service) -> None:
    with Service(own_kafka.bootstrap, service.folder / "own", partitions=METADATA_PARTITIONS) as frozen:
        run = Run(frozen, 2)
        with run.load() as load:
            load.wait_flowing()
            orphaned = run.led(1)
            ends = log_ends(run)
            # The broker takes what the leader sends into its socket, but answers nothing any more.
            own_kafka.pause(1)
            paused_s = time.monotonic()
            wait_until(lambda: all(has_entry_under_way(run.node(1), c) for c in orphaned), "commits without outcome")
            run.node(1).kill()
            own_kafka.resume(1)
            print(f"broker frozen for {time.monotonic() - paused_s:.2f} s")
            wait_until(lambda: len(run.led(2)) == METADATA_PARTITIONS, "node 2 to lead everything")
            load.wait_flowing()
        final = run.judge()
        unheard = {c: unheard_commits(run, final, c, after=ends[c]) for c in orphaned}
        print(f"commits whose acknowledgement died with the leader: {unheard}")
        assert sum(unheard.values()) > 0, "no commit had an unknown outcome: the broker got nothing before the leader died"


def has_entry_under_way(node: CoordinatorProcess, coordinator_id: int) -> bool:
    """Whether a leader waits for the acknowledgement of an entry for longer than a healthy broker takes."""
    return node.metric("oldest_unacknowledged_entry_age_seconds", partition=str(coordinator_id)) > UNHEALTHY_S


def log_ends(run: Run) -> dict[int, int]:
    """The end offset of every metadata partition now."""
    logs = dump_topic(run.service.bootstrap, run.service.topic)
    return {c: messages[-1].offset + 1 for c, messages in logs.items()}


def unheard_commits(run: Run, final: FinalState, coordinator_id: int, *, after: int) -> int:
    """Commits that count in the log by a term of node 1, which only node 2 told the clients of."""
    log = read_log(final.logs[coordinator_id])
    told_by: dict[str, set[int]] = {}
    for ack in run.history.acknowledgements():
        if run.history.batch(ack.origin).coordinator_id == coordinator_id:
            told_by.setdefault(ack.origin.object_key, set()).add(ack.attempt.node_id)
    late = [c for c in log.commits if c.offset >= after and c.claim.node_id == 1]
    return sum(1 for commit in late if told_by.get(commit.object_key) == {2})
