"""The whole service as its nodes see it: every node is asked directly, so that each replica speaks for itself.

Gathers (`look`) and computes rows; decides nothing. Invariant: a node that cannot be asked is in the result with the reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from cli.node_security import node_security
from cli.outcome import Exit, Failed
from cli.output import term_text
from cli.service import milliseconds
from coordinator.client.model import RecordedDirectory, ServiceNode
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.client.routing.identify import ServerKind, identify_all
from coordinator.core.drains import drain_text
from coordinator.kafka.directory_ids import directory_text
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeCoordinatorsCoordinator,
    DescribeCoordinatorsDirectory,
    DescribeCoordinatorsRequest,
    DescribeCoordinatorsResponse,
)
from coordinator.protocol.wire import MalformedMessage
from coordinator.runtime.loading.progress import LoadStatus, LoadStep

if TYPE_CHECKING:
    from cli.output import Row
    from coordinator.client.client import DisklessClient

NODE_TIMEOUT_S = 5.0

STANDBY_STATES = ("following", "recovering", "fencing")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The answer of one node, or the reason for its absence (`error`)."""

    node: ServiceNode
    cluster_id: str | None
    coordinators: Sequence[DescribeCoordinatorsCoordinator]
    """Those that the node follows."""
    error: str
    coordinator_count: int = 0
    """How many there are, as far as the node knows."""
    assigned: Mapping[int, int] = field(default_factory=dict)
    """Of those that it does not follow, the node that is assigned to lead; -1 where it does not know."""
    incarnation_id: bytes = b""
    registered_id: bytes = b""
    """The process that the directory has under this node's id, as far as the node knows."""
    registered_address: str = ""
    """Where that process is registered."""
    ahead_ms: tuple[float, float] = (0.0, 0.0)
    """How far its clock is ahead of the one here: at least, at most."""
    withheld: str | None = None
    store_problem: str | None = None
    placement_rules: str = ""
    """The settings by which it places leaders and standbys, as text."""
    reserved_ids: Sequence[int] = ()
    """The coordinators that it is reserved for; empty for any."""
    directories: Sequence[DescribeCoordinatorsDirectory] = ()
    queued_assignments: int = 0
    assignment_wait_ms: int = 0
    """Replicas whose data directory partition 0 has not recorded yet, and how long the one of them has waited that waits longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """One coordinator on one node. `next_offset` is the first offset that this replica has not read."""

    coordinator_id: int
    node: ServiceNode
    state: str
    is_leader: bool
    leader_id: int
    epoch: int
    term: int
    written_offset: int
    next_offset: int
    live_partitions: int
    digest: bytes
    live_files: int = 0
    live_file_bytes: int = 0
    producers: int = 0
    state_bytes: int = -1
    commits: int = 0
    failures: int = 0
    last_failure: str = ""
    evidence: str = ""
    contradictions: int = 0
    last_contradiction: str = ""


async def look(client: DisklessClient, timeout_s: float) -> list[NodeView]:
    """Ask every node of the service, by id. Raises `Unavailable` when none answers."""
    description = await client.admin.describe_coordinators(timeout_ms=milliseconds(timeout_s))
    return list(await asyncio.gather(*(_ask(client, node, min(timeout_s, NODE_TIMEOUT_S)) for node in description.nodes)))


async def _ask(client: DisklessClient, node: ServiceNode, timeout_s: float) -> NodeView:
    request = DescribeCoordinatorsRequest(coordinator_ids=(), timeout_ms=milliseconds(timeout_s))
    asked_ms = time.time() * 1000
    try:
        answer = await client.admin.node(node.host, node.port).call(request, milliseconds(timeout_s))
    except (ConnectionLost, RequestTimedOut, MalformedMessage) as error:
        return NodeView(node=node, cluster_id=None, coordinators=(), error=str(error))
    response = cast(DescribeCoordinatorsResponse, answer)
    if response.node_id != node.node_id:
        what = f"{node.host}:{node.port} is node {response.node_id}; two nodes announce the same address"
        return NodeView(node=node, cluster_id=response.cluster_id, coordinators=(), error=what)
    registered = next((one for one in response.nodes if one.node_id == node.node_id), None)
    return NodeView(
        node=node,
        cluster_id=response.cluster_id,
        coordinators=tuple(one for one in response.coordinators if one.error_code == ErrorCode.NONE),
        coordinator_count=len(response.coordinators),
        assigned={one.coordinator_id: one.leader_id for one in response.coordinators if one.error_code != ErrorCode.NONE},
        error="",
        incarnation_id=response.incarnation_id,
        registered_id=b"" if registered is None else registered.incarnation_id,
        registered_address="" if registered is None else f"{registered.host}:{registered.port}",
        ahead_ms=(response.time_ms - time.time() * 1000, response.time_ms - asked_ms),
        withheld=response.withheld_reason,
        store_problem=response.store_problem,
        placement_rules=response.placement_rules,
        reserved_ids=response.reserved_ids,
        directories=response.directories,
        queued_assignments=response.queued_assignments,
        assignment_wait_ms=response.assignment_wait_ms,
    )


def replicas(views: Sequence[NodeView]) -> list[ReplicaFacts]:
    """Every replica of every coordinator, by coordinator, the leader first."""
    found = [
        ReplicaFacts(
            coordinator_id=one.coordinator_id,
            node=view.node,
            state=one.state,
            is_leader=one.is_local and one.state in ("leading", "resigning"),
            leader_id=one.leader_id,
            epoch=one.leader_epoch,
            term=one.term,
            written_offset=one.applied_offset,
            next_offset=one.log_end_offset,
            live_partitions=one.live_partitions,
            digest=one.digest,
            live_files=one.live_files,
            live_file_bytes=one.live_file_bytes,
            producers=one.producers,
            state_bytes=one.state_bytes,
            commits=one.commits,
            failures=one.failures,
            last_failure=one.last_failure or "",
            evidence=one.evidence or "",
            contradictions=one.contradictions,
            last_contradiction=one.last_contradiction or "",
        )
        for view in views
        for one in view.coordinators
    ]
    return sorted(found, key=lambda one: (one.coordinator_id, not one.is_leader, one.node.node_id))


def leader_of(found: Sequence[ReplicaFacts]) -> ReplicaFacts | None:
    """The leader among the replicas of one coordinator: of two that both believe to lead, that of the higher epoch."""
    return max((one for one in found if one.is_leader), key=lambda one: one.epoch, default=None)


def by_coordinator(views: Sequence[NodeView]) -> dict[int, list[ReplicaFacts]]:
    """The replicas of every coordinator that a node knows, by its id; none of one that no node follows which answers."""
    groups: dict[int, list[ReplicaFacts]] = {one: [] for one in range(max((view.coordinator_count for view in views), default=0))}
    for one in replicas(views):
        groups.setdefault(one.coordinator_id, []).append(one)
    return dict(sorted(groups.items()))


def taken_for_leader(views: Sequence[NodeView], coordinator_id: int, group: Sequence[ReplicaFacts]) -> int:
    """The node that the newest claim of which a replica knows makes the leader, else the one that is assigned; -1 if unknown."""
    if group:
        return max(group, key=lambda one: one.epoch).leader_id
    return max((view.assigned.get(coordinator_id, -1) for view in views), default=-1)


def silent_nodes(views: Sequence[NodeView]) -> frozenset[int]:
    """Those that do not answer."""
    return frozenset(view.node.node_id for view in views if view.error)


def lag(replica: ReplicaFacts, group: Sequence[ReplicaFacts]) -> int:
    """Entries that a replica is behind the one that has read furthest."""
    return max(one.next_offset for one in group) - replica.next_offset


def leader_text(node_id: int, *, answers: bool) -> str:
    """A leader as tables show it: its number, or that the node does not answer."""
    return str(node_id) if answers else f"node {node_id} (does not answer)"


async def answering(client: DisklessClient, node_ids: Collection[int], timeout_s: float) -> set[int]:
    """Those of the nodes that answer; needs no right. Raises `Unavailable` when no node tells where they are."""
    nodes = [node for node in await client.admin.nodes(timeout_ms=milliseconds(timeout_s)) if node.node_id in node_ids]
    found = await identify_all([node.address for node in nodes], min(timeout_s, NODE_TIMEOUT_S), node_security().context())
    return {node.node_id for node, one in zip(nodes, found, strict=True) if one.kind is ServerKind.NODE}


def status_rows(views: Sequence[NodeView]) -> list[Row]:
    """One row for each coordinator: who leads it and how far the others are.

    Without a leader `last_leader` is the node that the others take for it, -1 for none. It may lead all the same where it does not answer.
    """
    silent = silent_nodes(views)
    rows: list[Row] = []
    for coordinator_id, group in by_coordinator(views).items():
        leader = leader_of(group)
        standbys = [one for one in group if one is not leader]
        lags = [lag(one, group) for one in standbys if one.state in STANDBY_STATES]
        last_leader = taken_for_leader(views, coordinator_id, group) if leader is None else leader.node.node_id
        is_untold = last_leader in silent or (last_leader < 0 and not group and bool(silent))
        rows.append(
            {
                "coordinator": coordinator_id,
                "state": leader.state if leader is not None else "no answer" if is_untold else "no leader",
                "leader": None if leader is None else leader.node.node_id,
                "last_leader": last_leader,
                "last_leader_answers": last_leader not in silent,
                "address": None if leader is None else f"{leader.node.host}:{leader.node.port}",
                "epoch": max((one.epoch for one in group), default=None),
                "log_end": max((one.next_offset for one in group), default=None),
                "standbys": len(lags),
                "lag_max": max(lags, default=None),
                "live_partitions": max((one.live_partitions for one in group), default=None),
                "commits": None if leader is None else leader.commits,
                "live_files": max((one.live_files for one in group), default=None),
                "producers": max((one.producers for one in group), default=None),
                "state_bytes": max((one.state_bytes for one in group), default=None),
                "loading": {
                    str(view.node.node_id): load_status(one).text
                    for view in views
                    for one in view.coordinators
                    if one.coordinator_id == coordinator_id and one.load_step is not None
                },
            }
        )
    return rows


def with_rates(rows: Sequence[Row], before: Sequence[Row], seconds: float) -> list[Row]:
    """Add the commits of a second since an earlier look, where the same process led: `commits_s`, None elsewhere."""
    counted = {(row["coordinator"], row["leader"], row["epoch"]): row["commits"] for row in before if row["leader"] is not None}

    def rate(row: Row) -> float | None:
        then, now = counted.get((row["coordinator"], row["leader"], row["epoch"])), row["commits"]
        is_same = isinstance(then, int) and isinstance(now, int) and now >= then and seconds > 0
        return round((cast(int, now) - cast(int, then)) / seconds, 1) if is_same else None

    return [{**row, "commits_s": rate(row)} for row in rows]


def notes(views: Sequence[NodeView]) -> list[str]:
    """Sentences about nodes that do not answer or drain, replicas that are not loaded yet, and data directories that are offline."""
    found = []
    for view in views:
        name = f"node {view.node.node_id}"
        found += [f"{name} drains {drain_text(view.node.drain)}: it gives up what it leads"] if view.node.drain else []
        found += [f"{name} does not answer: {view.error}"] if view.error else []
        loading = [one for one in view.coordinators if one.load_step is not None and one.state != "failed"]
        found += [f"{name}: coordinator {one.coordinator_id} is being loaded: {load_status(one).text}" for one in loading]
        offline = [one for one in view.directories if one.offline_reason is not None]
        found += [f"{name}: data directory {one.path} is offline: {one.offline_reason}" for one in offline]
    return found


def load_status(one: DescribeCoordinatorsCoordinator) -> LoadStatus:
    """How far a node is with the loading of its replica, which it has told of."""
    return LoadStatus(LoadStep(one.load_step), one.load_snapshot, one.loaded_bytes, one.load_bytes, one.loaded_entries, one.load_entries)


def recorded_state(recorded: RecordedDirectory, view: NodeView) -> str:
    """The state of a data directory, and of the replicas in it, as coordinator 0 has recorded it."""
    if not recorded.is_online:
        return "offline"
    return "no answer" if view.error else "online"


def is_recorded_only(recorded: RecordedDirectory, view: NodeView) -> bool:
    """Whether nobody but coordinator 0 tells of replicas in a directory; a node that answers has let go of others that are recorded."""
    return bool(view.error) or not recorded.is_online


def replica_rows(views: Sequence[NodeView], coordinator_ids: Sequence[int]) -> list[Row]:
    """One row for each replica of the coordinators, or of all; of a node that does not answer, what coordinator 0 has recorded."""
    groups = by_coordinator(views)
    homes = {(view.node.node_id, one.coordinator_id): one.directory_id for view in views for one in view.coordinators}
    recorded = {
        (view.node.node_id, coordinator_id): (one.directory_id, recorded_state(one, view))
        for view in views
        for one in view.node.directories
        for coordinator_id in one.coordinator_ids
        if (view.node.node_id, coordinator_id) in homes or is_recorded_only(one, view)
    }
    unheard: list[Row] = [
        {
            "coordinator": coordinator_id,
            "node": node_id,
            "state": state,
            "directory_id": directory_text(directory_id),
            "directory_state": state,
        }
        for (node_id, coordinator_id), (directory_id, state) in recorded.items()
        if (node_id, coordinator_id) not in homes and (not coordinator_ids or coordinator_id in coordinator_ids)
    ]
    told: list[Row] = [
        {
            "coordinator": one.coordinator_id,
            "node": one.node.node_id,
            "state": one.state,
            "epoch": one.epoch,
            "term": term_text(one.term),
            "log_end": one.next_offset,
            "lag": lag(one, group),
            "written_offset": one.written_offset,
            "digest": one.digest.hex(),
            "live_partitions": one.live_partitions,
            "live_files": one.live_files,
            "live_file_bytes": one.live_file_bytes,
            "producers": one.producers,
            "state_bytes": one.state_bytes,
            "commits": one.commits,
            "directory_id": directory_text(homes[one.node.node_id, coordinator_id]),
            "directory_state": recorded.get((one.node.node_id, coordinator_id), (b"", None))[1],
        }
        for coordinator_id, group in sorted(groups.items())
        if not coordinator_ids or coordinator_id in coordinator_ids
        for one in group
    ]
    return sorted(told + unheard, key=lambda row: cast(int, row["coordinator"]))


def node_rows(views: Sequence[NodeView]) -> list[Row]:
    """One row for each node: where it is and what it leads and follows. One that has not heard of a newer leader leads no more."""
    leaders = [leader_of(group) for group in by_coordinator(views).values()]
    rows: list[Row] = []
    for view in views:
        own = replicas([view])
        leads = [one.coordinator_id for one in leaders if one is not None and one.node.node_id == view.node.node_id]
        rows.append(
            {
                "node": view.node.node_id,
                "address": f"{view.node.host}:{view.node.port}",
                "rack": view.node.rack,
                "reachable": not view.error,
                "leads": leads,
                "follows": len(own) - len(leads),
                "live_partitions": sum(one.live_partitions for one in own if one.coordinator_id in leads),
                "state_bytes": sum(max(0, one.state_bytes) for one in own),
                "drains": drain_text(view.node.drain),
                "error": view.error,
            }
        )
    return rows


async def check_coordinators(client: DisklessClient, wanted: Sequence[int], timeout_s: float) -> None:
    """Raise `Failed` when no node knows one of the coordinators that a command names.

    Asking for its leader would go on until the time is over, and of what nodes tell nothing would be left: both look like another trouble.
    """
    if not wanted:
        return
    known = {one.coordinator_id for one in (await client.admin.describe_coordinators()).coordinators}
    if known.issuperset(wanted):
        return
    # One node may not have seen yet that the metadata topic has grown: a coordinator exists as soon as any node knows it.
    for view in await look(client, timeout_s):
        known.update(range(view.coordinator_count))
    unknown = sorted(set(wanted) - known)
    # Nodes that have just started know of no coordinator yet: then the command goes on and finds out for itself.
    if known and unknown:
        raise Failed(f"there is no coordinator {unknown[0]}; the service has {len(known)}: 0 to {max(known)}", Exit.NOT_FOUND)
