"""Whether a node is ready, and what it waits for: the answer of /ready."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.app.version import installed_version
from coordinator.core.leadership.states import State
from coordinator.runtime.node.node import Node


def readiness(node: Node) -> tuple[bool, Mapping[str, object]]:
    """Ready: a member of the group that others can find, every assigned partition leads, none has failed, nothing is withheld.

    And everything that it stands by for was warm once since it started, so that a rollout waits until it could take over. What it is told
    to follow later may load while it serves.
    A node whose object store is not that of the service is not ready either, which stops a rollout of a wrong URL.
    """
    waiting = [p for p in sorted(node.assignment) if (shard := node.replicas.shard(p)) is None or shard.phase is not State.LEADING]
    followed = node.replicas.followed()
    failed = {one.partition: reason for one in followed if (reason := one.failure) is not None}
    loading = [one.partition for one in followed if one.view is None and one.partition not in failed]
    detail = {
        "version": installed_version(),
        "joined": node.is_joined,
        "unregistered": node.standing.is_unknown,
        "assigned": sorted(node.assignment),
        "leading": node.replicas.led(),
        "assigned_not_leading": waiting,
        "loading": loading,
        "progress": {partition: status.text for partition, status in node.loading().items()},
        "failed": failed,
        "offline_directories": {one.path: one.offline_reason for one in node.keeper.directories.directories() if one.offline_reason},
        "withheld": node.withheld_reason,
        "draining": node.standing.is_draining,
        "object_store": node.workers.marking.problem or None,
    }
    is_held = node.withheld_reason is not None or bool(node.workers.marking.problem) or node.standing.is_unknown
    return node.is_joined and node.keeper.following.has_warmed_up and not waiting and not failed and not is_held, detail
