"""The conclusions of `diskless doctor` from the gathered facts. Pure: facts in, findings out, each with its remedy.

A finding is `error` (something does not work, or can lose data), `warning` (less safety or speed than there should be),
`ok`, or `skipped` (nothing was given to look at).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from cli.looks.service import NodeView, ReplicaFacts, by_coordinator, lag, leader_of, replicas, silent_nodes, taken_for_leader
from coordinator.core.topic_rules import ReplicaSets, Severity, TopicExpectations, check_topic

if TYPE_CHECKING:
    from coordinator.runtime.ports import TopicFacts

CHECK_ORDER = (
    "kafka topic",
    "kafka leaders",
    "nodes",
    "placement",
    "topics",
    "moves",
    "versions",
    "leaders",
    "standbys",
    "digests",
    "damage",
    "contradictions",
    "snapshots",
    "restore",
    "files",
    "retention",
    "orphans",
    "migrations",
    "shadows",
    "gateways",
    "clocks",
    "object store",
    "data dirs",
    "security",
)
FREE_BYTES_MIN = 1024**3
FREE_SHARE_MIN = 0.1


class Health(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One finding."""

    health: Health
    check: str
    finding: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEntry:
    """The newest entry of a metadata partition: the time its leader wrote into it, and the time here when it was read."""

    partition: int
    log_end: int
    timestamp_ms: int | None
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Room in a data directory, and the databases set aside in it; `problem` with its `remedy` when it cannot be used."""

    path: str
    total_bytes: int
    free_bytes: int
    problem: str = ""
    remedy: str = ""
    evidence: Sequence[str] = ()


def diagnose_topic(facts: TopicFacts, expectations: TopicExpectations) -> list[Diagnosis]:
    """Settings, replicas and Kafka leaders of the metadata topic."""
    sets = [ReplicaSets(partition=p.partition, replicas=p.replicas, in_sync=p.in_sync) for p in facts.partitions]
    health = {Severity.REFUSE: Health.ERROR, Severity.WARN: Health.WARNING}
    found = [
        Diagnosis(health=health[one.severity], check="kafka topic", finding=f"{one.key} is {one.value}: {one.reason}", remedy=one.remedy)
        for one in check_topic(topic=facts.topic, config=facts.config, partitions=sets, expectations=expectations)
    ]
    if not found:
        found.append(_ok("kafka topic", f"{facts.topic} keeps what it acknowledges: {len(facts.partitions)} partitions, settings right"))
    without = [p.partition for p in facts.partitions if p.leader is None]
    if without:
        found.append(
            _error(
                "kafka leaders",
                f"partitions {_list(without)} of {facts.topic} have no Kafka leader: their coordinators cannot commit",
                "bring back the brokers that hold their replicas; see kafka-topics.sh --describe --unavailable-partitions",
            )
        )
    else:
        found.append(_ok("kafka leaders", "every partition has a Kafka leader"))
    return found


def diagnose_nodes(views: Sequence[NodeView], kafka_cluster_id: str | None) -> list[Diagnosis]:
    """Nodes that do not answer, or belong to another Kafka cluster."""
    found = [
        _error(
            "nodes",
            f"node {view.node.node_id} at {view.node.host}:{view.node.port} does not answer: {view.error}",
            "start it, or see its log; is its advertised address reachable from here? A node that is gone for good does no harm",
        )
        for view in views
        if view.error
    ]
    clusters = {view.cluster_id for view in views if not view.error and view.cluster_id} | ({kafka_cluster_id} - {None, ""})
    if len(clusters) > 1:
        found.append(
            _error(
                "nodes",
                f"nodes and Kafka belong to different clusters: {', '.join(sorted(map(str, clusters)))}",
                "correct bootstrap.servers of the nodes, or the Kafka address given here",
            )
        )
    return found or [_ok("nodes", f"{len(views)} nodes answer")]


def diagnose_versions(served: Mapping[int, Mapping[int, tuple[int, int]]], needed: Mapping[int, int]) -> list[Diagnosis]:
    """Nodes that do not serve the requests of this release. `served`: by node, request numbers with their version range."""
    found = []
    for node_id, ranges in sorted(served.items()):
        missing = [key for key, version in needed.items() if not ranges.get(key, (1, 0))[0] <= version <= ranges.get(key, (1, 0))[1]]
        if missing:
            found.append(
                _warning(
                    "versions",
                    f"node {node_id} does not serve requests {_list(missing)} of this release",
                    "bring nodes and this program to one release",
                )
            )
    return found or [_ok("versions", f"{len(served)} nodes serve every request of this release")]


def diagnose_coordinators(views: Sequence[NodeView], metadata_partitions: int | None, lag_max: int) -> list[Diagnosis]:
    """Leaders, standbys and digests of every coordinator."""
    groups = by_coordinator(views)
    expected = sorted(groups.keys() | set(range(metadata_partitions or 0)))
    leaders, standbys, digests = [], [], []
    nodes = sum(1 for view in views if not view.error)
    damage = [_damage(one) for one in replicas(views) if one.failures]
    for coordinator_id in expected:
        group = groups.get(coordinator_id, [])
        leaders += _leader_findings(views, coordinator_id, group)
        standbys += _standby_findings(coordinator_id, group, nodes, lag_max)
        digests += _digest_findings(coordinator_id, group)
    return [
        *(leaders or [_ok("leaders", f"{len(expected)} coordinators have a leader each")]),
        *(standbys or [_ok("standbys", f"no replica is more than {lag_max} entries behind")]),
        *(digests or [_ok("digests", "replicas with the same written offset have the same state")]),
        *(damage or [_ok("damage", "no replica failed since its node started")]),
        *(_contradiction_findings(groups) or [_ok("contradictions", "no entry of the log contradicts the entries before it")]),
    ]


def _contradiction_findings(groups: Mapping[int, Sequence[ReplicaFacts]]) -> list[Diagnosis]:
    """One finding for each coordinator whose log has an entry that some node read as a contradiction."""
    found = []
    for coordinator_id, group in sorted(groups.items()):
        told = [one for one in group if one.contradictions]
        if told:
            names = _list([one.node.node_id for one in told])
            found.append(
                _error(
                    "contradictions",
                    f"coordinator {coordinator_id}: nodes {names} met entries that contradict the log; {told[0].last_contradiction}",
                    "such entries are void for every replica. `diskless log explain PARTITION@OFFSET` tells what each says; a commit that"
                    " was acknowledged by one is lost: compare with the uploader. Keep the state databases that were set aside as evidence",
                )
            )
    return found


def _because(one: ReplicaFacts) -> str:
    return f": {one.last_failure}" if one.last_failure else ""


def _damage(one: ReplicaFacts) -> Diagnosis:
    """A replica that failed, whether it is rebuilt by now or not."""
    kept = f"; its database is kept as {one.evidence} in the data directory" if one.evidence else ""
    return _warning(
        "damage",
        f"coordinator {one.coordinator_id} failed {one.failures} times on node {one.node.node_id} since that started{_because(one)}{kept}",
        "nothing acknowledged is lost: it is rebuilt from the log. See the kernel's log of that machine for errors of its disk",
    )


def _leader_findings(views: Sequence[NodeView], coordinator_id: int, group: Sequence[ReplicaFacts]) -> list[Diagnosis]:
    found = []
    if leader_of(group) is None:
        silent = silent_nodes(views)
        states = ", ".join(f"node {one.node.node_id} {one.state}" for one in group)
        states = states or f"no node {'that answers ' if silent else ''}has a replica"
        last = taken_for_leader(views, coordinator_id, group)
        is_silent = last in silent
        what = f"was led by node {last}, which does not answer" if is_silent else "has no leader"
        so = "its topics cannot be written by whoever does not reach that node" if is_silent else "its topics cannot be written"
        found.append(
            _error(
                "leaders",
                f"coordinator {coordinator_id} {what} ({states}): {so}",
                "wait one session timeout if a node just died; else see the logs of the nodes and /ready of each",
            )
        )
    leading = [one for one in group if one.is_leader]
    if len(leading) > 1:
        names = ", ".join(f"node {one.node.node_id} (epoch {one.epoch})" for one in leading)
        found.append(
            _warning(
                "leaders",
                f"coordinator {coordinator_id}: {names} all believe to lead; only the highest epoch can commit",
                "run doctor again: it is normal for a moment while leadership moves",
            )
        )
    found += [
        _error(
            "leaders",
            f"coordinator {coordinator_id} failed on node {one.node.node_id}{_because(one)}",
            "a damaged state is kept as evidence and rebuilt by itself; a log that a newer version wrote needs that version, one that lost"
            " entries needs its topic restored",
        )
        for one in group
        if one.state == "failed"
    ]
    return found


def _standby_findings(coordinator_id: int, group: Sequence[ReplicaFacts], nodes: int, lag_max: int) -> list[Diagnosis]:
    found = [
        _warning(
            "standbys",
            f"node {one.node.node_id} is {lag(one, group)} entries behind on coordinator {coordinator_id}",
            "a fail-over to it takes as long as it needs to catch up; is its disk or its link to Kafka slow?",
        )
        for one in group
        if lag(one, group) > lag_max
    ]
    if group and len(group) < 2 and nodes > 1:
        found.append(
            _warning(
                "standbys",
                f"coordinator {coordinator_id} has one replica only, on node {group[0].node.node_id}",
                "a node that dies takes it down until another one has loaded its state: with standby.replicas above 0 a standby is being"
                " loaded, or no other node can lead it; `diskless coordinator why` says which",
            )
        )
    return found


def _digest_findings(coordinator_id: int, group: Sequence[ReplicaFacts]) -> list[Diagnosis]:
    """Replicas of one log have one state at one offset; a difference is a defect, whichever replica is right."""
    by_offset: dict[int, dict[bytes, list[int]]] = {}
    for one in group:
        if one.written_offset >= 0 and one.digest:
            by_offset.setdefault(one.written_offset, {}).setdefault(one.digest, []).append(one.node.node_id)
    return [
        _error(
            "digests",
            f"coordinator {coordinator_id} at offset {offset}: nodes "
            + " and ".join(f"{_list(nodes)} ({digest.hex()[:8]})" for digest, nodes in digests.items())
            + " have different states",
            "keep the state databases of both as evidence and report it; then delete the one that differs from most, it is rebuilt",
        )
        for offset, digests in sorted(by_offset.items())
        if len(digests) > 1
    ]


def diagnose_clocks(entries: Sequence[LastEntry], skew_max_ms: int) -> list[Diagnosis]:
    """Kafka's brokers, whose times the entries have: a newest entry from the future shows a clock that is ahead."""
    found = [
        _error(
            "clocks",
            f"the newest entry of metadata partition {one.partition} is {(one.timestamp_ms - one.now_ms) / 1000:.1f} s in the future",
            "synchronise the clock of the Kafka broker that leads this partition, or of this machine",
        )
        for one in entries
        if one.timestamp_ms is not None and one.timestamp_ms - one.now_ms > skew_max_ms
    ]
    seen = sum(one.timestamp_ms is not None for one in entries)
    return found or [_ok("clocks", f"no broker has stamped the newest entry of {seen} partitions with a time from the future")]


def diagnose_progress(views: Sequence[NodeView], entries: Sequence[LastEntry], lag_max: int) -> list[Diagnosis]:
    """Coordinators whose every replica is behind the log in Kafka."""
    groups = by_coordinator(views)
    found = []
    for entry in entries:
        group = groups.get(entry.partition, [])
        behind = entry.log_end - max((one.next_offset for one in group), default=entry.log_end)
        if behind > lag_max:
            found.append(
                _warning(
                    "standbys",
                    f"every replica of coordinator {entry.partition} is at least {behind} entries behind the log in Kafka",
                    "see the logs of the nodes: do they read from Kafka?",
                )
            )
    return found


def diagnose_space(spaces: Sequence[Space]) -> list[Diagnosis]:
    """Data directories of this machine."""
    found = []
    for space in spaces:
        if space.problem:
            found.append(_error("data dirs", f"{space.path}: {space.problem}", space.remedy))
        elif space.free_bytes < max(FREE_BYTES_MIN, FREE_SHARE_MIN * space.total_bytes):
            found.append(
                _warning(
                    "data dirs",
                    f"{space.path} has {space.free_bytes / 1024**3:.1f} of {space.total_bytes / 1024**3:.1f} GiB left",
                    "make room: a full data directory takes its replicas offline",
                )
            )
        if space.evidence:
            found.append(
                _warning(
                    "data dirs",
                    f"{space.path} holds state databases that were set aside: {', '.join(space.evidence)}",
                    "they are evidence of damage: copy away what you want to look into, and remove them; the service never reads them",
                )
            )
    return found or [_ok("data dirs", f"{len(spaces)} folders with room")]


def skipped(check: str, why: str) -> Diagnosis:
    """A check that could not be made because nothing was given to look at."""
    return Diagnosis(health=Health.SKIPPED, check=check, finding=why)


def _ok(check: str, finding: str) -> Diagnosis:
    return Diagnosis(health=Health.OK, check=check, finding=finding)


def _warning(check: str, finding: str, remedy: str) -> Diagnosis:
    return Diagnosis(health=Health.WARNING, check=check, finding=finding, remedy=remedy)


def _error(check: str, finding: str, remedy: str) -> Diagnosis:
    return Diagnosis(health=Health.ERROR, check=check, finding=finding, remedy=remedy)


def _list(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))
