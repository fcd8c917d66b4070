"""The snapshots of the service as its nodes see them: every node is asked directly, so that each speaks for itself.

Gathers (`look_at_snapshots`) and computes rows; decides nothing. Invariant: a node that cannot be asked is in the result with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from cli.looks.service import NODE_TIMEOUT_S
from cli.service import milliseconds
from coordinator.client.model import ServiceNode
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.protocol.messages import (
    DescribeSnapshotsCoordinator,
    DescribeSnapshotsRequest,
    DescribeSnapshotsResponse,
    DescribeSnapshotsSnapshot,
)
from coordinator.protocol.wire import MalformedMessage

if TYPE_CHECKING:
    from cli.output import Row
    from coordinator.client.client import DisklessClient


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotView:
    """The answer of one node, or the reason for its absence (`error`); `leads` names the coordinators that it leads."""

    node: ServiceNode
    leads: frozenset[int] = frozenset()
    cluster_id: str = ""
    topic_id: bytes = b""
    coordinators: Sequence[DescribeSnapshotsCoordinator] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFacts:
    """One committed snapshot, and the nodes that have proven it or have a copy in their data directory."""

    coordinator_id: int
    snapshot: DescribeSnapshotsSnapshot
    verified_by: Sequence[int]
    local_on: Sequence[int]
    cluster_id: str
    topic_id: bytes


async def look_at_snapshots(client: DisklessClient, timeout_s: float) -> list[SnapshotView]:
    """Ask every node of the service, by id. Raises `Unavailable` when none answers."""
    description = await client.admin.describe_coordinators(timeout_ms=milliseconds(timeout_s))
    leaders = {one.coordinator_id: one.leader_id for one in description.coordinators}
    bound_s = min(timeout_s, NODE_TIMEOUT_S)
    return list(await asyncio.gather(*(_ask(client, node, leaders, bound_s) for node in description.nodes)))


async def _ask(client: DisklessClient, node: ServiceNode, leaders: dict[int, int], timeout_s: float) -> SnapshotView:
    request = DescribeSnapshotsRequest(coordinator_ids=(), timeout_ms=milliseconds(timeout_s))
    try:
        answer = await client.admin.node(node.host, node.port).call(request, milliseconds(timeout_s))
    except (ConnectionLost, RequestTimedOut, MalformedMessage) as error:
        return SnapshotView(node=node, error=str(error))
    response = cast(DescribeSnapshotsResponse, answer)
    return SnapshotView(
        node=node,
        leads=frozenset(coordinator_id for coordinator_id, leader_id in leaders.items() if leader_id == node.node_id),
        cluster_id=response.cluster_id or "",
        topic_id=response.topic_id,
        coordinators=response.coordinators,
    )


def known_snapshots(views: Sequence[SnapshotView], coordinator_ids: Sequence[int] = ()) -> list[SnapshotFacts]:
    """Every committed snapshot that a node knows, by coordinator (none named means all), the newest first."""
    told: dict[tuple[int, int, int], list[tuple[SnapshotView, DescribeSnapshotsSnapshot]]] = {}
    for view, coordinator in _told(views, coordinator_ids):
        for one in coordinator.snapshots:
            told.setdefault((coordinator.coordinator_id, -one.end_offset, -one.epoch), []).append((view, one))
    return [
        SnapshotFacts(
            coordinator_id=coordinator_id,
            snapshot=same[0][1],
            verified_by=[view.node.node_id for view, one in same if one.is_verified],
            local_on=[view.node.node_id for view, one in same if one.is_local],
            cluster_id=same[0][0].cluster_id,
            topic_id=same[0][0].topic_id,
        )
        for (coordinator_id, _, _), same in sorted(told.items())
    ]


def snapshot_rows(found: Sequence[SnapshotFacts]) -> list[Row]:
    """One row for each committed snapshot."""
    return [
        {
            "coordinator": one.coordinator_id,
            "end_offset": one.snapshot.end_offset,
            "epoch": one.snapshot.epoch,
            "mark_offset": one.snapshot.mark_offset,
            "size": one.snapshot.size_bytes,
            "verified_by": list(one.verified_by),
            "local_on": list(one.local_on),
            "location": one.snapshot.location,
            "sha256": one.snapshot.sha256.hex(),
            "digest": one.snapshot.digest.hex(),
        }
        for one in found
    ]


def standing_rows(views: Sequence[SnapshotView], coordinator_ids: Sequence[int] = ()) -> list[Row]:
    """One row for each coordinator on each node, the leader's first: how far its snapshots are, and what is in their way."""
    rows: list[Row] = []
    told = _told(views, coordinator_ids)
    for view, one in sorted(told, key=lambda pair: (pair[1].coordinator_id, not _leads(pair[1], pair[0]), pair[0].node.node_id)):
        rows.append(
            {
                "coordinator": one.coordinator_id,
                "node": view.node.node_id,
                "leads": _leads(one, view),
                "log_start": _known(one.log_start_offset),
                "applied_offset": _known(one.applied_offset),
                "newest_end": one.snapshots[0].end_offset if one.snapshots else None,
                "log_bytes_since": _known(one.bytes_since_snapshot),
                "age_s": None if one.age_ms < 0 else one.age_ms // 1000,
                "step": one.step,
                "prune_to": _known(one.prune_target),
                "prune_reason": one.prune_reason,
                "error": one.error_message or one.last_error,
            }
        )
    return rows


def prune_rows(views: Sequence[SnapshotView], coordinator_ids: Sequence[int] = ()) -> list[Row]:
    """One row for each coordinator, by the word of its leader: what would be pruned now, and why not more."""
    rows: list[Row] = []
    for view, one in _told(views, coordinator_ids):
        if _leads(one, view):
            would_prune = one.log_start_offset >= 0 and one.prune_target > one.log_start_offset
            rows.append(
                {
                    "coordinator": one.coordinator_id,
                    "leader": view.node.node_id,
                    "log_start": _known(one.log_start_offset),
                    "prune_to": one.prune_target if would_prune else None,
                    "entries": one.prune_target - one.log_start_offset if would_prune else 0,
                    "reason": one.prune_reason,
                }
            )
    return sorted(rows, key=lambda row: cast(int, row["coordinator"]))


def leaderless(views: Sequence[SnapshotView], coordinator_ids: Sequence[int] = ()) -> list[int]:
    """Of the coordinators with these ids, or of all that a node knows without ids, those for which no leader has answered."""
    wanted = set(coordinator_ids) or {one.coordinator_id for _, one in _told(views, ())}
    return sorted(wanted - {one.coordinator_id for view, one in _told(views, ()) if _leads(one, view)})


def _told(views: Sequence[SnapshotView], coordinator_ids: Sequence[int]) -> list[tuple[SnapshotView, DescribeSnapshotsCoordinator]]:
    """Return the answers of nodes about the coordinators with these ids, or about all without ids."""
    return [(view, one) for view in views for one in view.coordinators if not coordinator_ids or one.coordinator_id in coordinator_ids]


def _leads(one: DescribeSnapshotsCoordinator, view: SnapshotView) -> bool:
    return one.coordinator_id in view.leads


def _known(number: int) -> int | None:
    """A number of the wire; None where it says that it is unknown."""
    return None if number < 0 else number
