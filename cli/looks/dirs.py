"""The data directories of the service as its nodes see them: every node is asked directly, so that each speaks for itself.

Gathers (`look_at_dirs`, `ask_dirs`, `begin_moves`) and computes rows; decides nothing. Invariant: a node that cannot be asked is in
the result with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cli.looks.service import NODE_TIMEOUT_S, NodeView, is_recorded_only, look, recorded_state
from cli.service import milliseconds
from coordinator.client.model import ServiceNode
from coordinator.client.routing.connection import ConnectionLost, RequestTimedOut
from coordinator.kafka.directory_ids import directory_text
from coordinator.kafka.errors import ErrorCode
from coordinator.operations.log_dirs import (
    DescribedDirectory,
    DescribedReplica,
    WantedPlace,
    alter_outcomes,
    alter_request,
    describe_request,
    described_directories,
)
from coordinator.protocol.wire import MalformedMessage

if TYPE_CHECKING:
    from cli.output import Row
    from coordinator.client.client import DisklessClient


@dataclass(frozen=True, slots=True, kw_only=True)
class DirsView:
    """The answers of one node, or the reason for its absence (`view.error`)."""

    view: NodeView
    directories: Sequence[DescribedDirectory]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProgress:
    """A replica that moves. `copied_lag`: how many entries its copy lags; None when there is no copy any more."""

    coordinator_id: int
    is_there: bool
    copied_lag: int | None


async def look_at_dirs(client: DisklessClient, timeout_s: float) -> list[DirsView]:
    """Ask every node of the service, by id. Raises `Unavailable` when none answers."""
    views = await look(client, timeout_s)
    return list(await asyncio.gather(*(_ask(client, view, min(timeout_s, NODE_TIMEOUT_S)) for view in views)))


async def _ask(client: DisklessClient, view: NodeView, timeout_s: float) -> DirsView:
    directories: Sequence[DescribedDirectory] = ()
    if not view.error:
        try:
            directories = await ask_dirs(client, view.node, timeout_s)
        except (ConnectionLost, RequestTimedOut, MalformedMessage) as error:
            return DirsView(view=NodeView(node=view.node, cluster_id=view.cluster_id, coordinators=(), error=str(error)), directories=())
    return DirsView(view=view, directories=directories)


async def ask_dirs(client: DisklessClient, node: ServiceNode, timeout_s: float) -> Sequence[DescribedDirectory]:
    """The directories of a node. Raises `ConnectionLost`, `RequestTimedOut`, `MalformedMessage`."""
    _, directories = described_directories(await client.admin.node(node.host, node.port).call(describe_request(), milliseconds(timeout_s)))
    return directories


async def begin_moves(client: DisklessClient, node: ServiceNode, wanted: Sequence[WantedPlace], timeout_s: float) -> dict[int, ErrorCode]:
    """Ask a node to move replicas; the error of each metadata partition. Raises as `ask_dirs`."""
    return alter_outcomes(await client.admin.node(node.host, node.port).call(alter_request(wanted), milliseconds(timeout_s)))


def progress_of(directories: Sequence[DescribedDirectory], path: str, coordinator_ids: Sequence[int]) -> list[MoveProgress]:
    """How far replicas are on their way into a directory."""
    there = {one.partition for directory in directories if directory.path == path for one in directory.replicas if not one.is_future}
    copies = {one.partition: one.offset_lag for directory in directories for one in directory.replicas if one.is_future}
    return [
        MoveProgress(coordinator_id=one, is_there=one in there and one not in copies, copied_lag=copies.get(one)) for one in coordinator_ids
    ]


def directory_rows(views: Sequence[DirsView]) -> list[Row]:
    """One row for each data directory of each node; of a node that does not answer, as coordinator 0 has recorded them."""
    rows: list[Row] = []
    for node in views:
        if node.view.error:
            rows += [
                {
                    "node": node.view.node.node_id,
                    "path": None,
                    "directory_id": directory_text(recorded.directory_id),
                    "state": recorded_state(recorded, node.view),
                    "coordinators": sorted(recorded.coordinator_ids),
                    "size": None,
                    "free": None,
                    "total": None,
                    "reason": "the node does not answer; coordinator 0 has recorded this",
                }
                for recorded in node.view.node.directories
            ]
        known = {one.path: one for one in node.view.directories}
        for one in node.directories:
            told = known.get(one.path)
            is_online = one.error is ErrorCode.NONE
            rows.append(
                {
                    "node": node.view.node.node_id,
                    "path": one.path,
                    "directory_id": None if told is None else directory_text(told.directory_id),
                    "state": "online" if is_online else "offline",
                    "coordinators": sorted(replica.partition for replica in one.replicas if not replica.is_future),
                    "size": sum(max(0, replica.size_bytes) for replica in one.replicas),
                    "free": one.usable_bytes if one.usable_bytes >= 0 else None,
                    "total": one.total_bytes if one.total_bytes >= 0 else None,
                    "reason": None if told is None else told.offline_reason,
                }
            )
    return rows


def replica_rows(views: Sequence[DirsView], coordinator_ids: Sequence[int]) -> list[Row]:
    """One row for each replica, of the coordinators or of all, with the copy that a move makes of it.

    Replicas that are offline, and those of a node that does not answer, are where coordinator 0 has recorded them.
    """
    rows: list[Row] = []
    for node in views:
        here = {one.partition for _, one in _replicas(node.directories)}
        rows += [
            {
                "coordinator": coordinator_id,
                "node": node.view.node.node_id,
                "state": recorded_state(recorded, node.view),
                "path": None,
                "directory_id": directory_text(recorded.directory_id),
                "size": None,
                "moves_to": None,
                "lag": None,
            }
            for recorded in node.view.node.directories
            for coordinator_id in recorded.coordinator_ids
            if coordinator_id not in here and is_recorded_only(recorded, node.view)
            if not coordinator_ids or coordinator_id in coordinator_ids
        ]
        ids = {one.path: directory_text(one.directory_id) for one in node.view.directories}
        copies = {one.partition: (path, one.offset_lag) for path, one in _replicas(node.directories) if one.is_future}
        for path, one in sorted(_replicas(node.directories), key=lambda pair: pair[1].partition):
            if one.is_future or (coordinator_ids and one.partition not in coordinator_ids):
                continue
            to, lag = copies.get(one.partition, (None, None))
            rows.append(
                {
                    "coordinator": one.partition,
                    "node": node.view.node.node_id,
                    "state": "online",
                    "path": path,
                    "directory_id": ids.get(path),
                    "size": one.size_bytes if one.size_bytes >= 0 else None,
                    "moves_to": to,
                    "lag": lag,
                }
            )
    return sorted(rows, key=lambda row: (row["coordinator"], row["node"]))


def _replicas(directories: Sequence[DescribedDirectory]) -> Iterator[tuple[str, DescribedReplica]]:
    for directory in directories:
        for one in directory.replicas:
            yield directory.path, one
