"""What all parts of a node work with."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import Cluster, Peers
from coordinator.runtime.routing.cluster_view import ClusterView
from coordinator.runtime.routing.replicas import Replicas
from coordinator.runtime.routing.router import Router
from coordinator.runtime.telemetry import Telemetry
from records.model import NodeRegistered


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """One per node."""

    node_id: int
    replicas: Replicas
    view: ClusterView
    router: Router
    peers: Peers
    cluster: Cluster
    rng: random.Random
    clock_ms: Callable[[], int]
    pauses: Pauses
    telemetry: Telemetry
    spawn: Callable[[Coroutine[None, None, None], str], None]
    """Runs a task for as long as the node lives; an error that the task raises ends the process."""

    def other_nodes(self) -> list[NodeRegistered]:
        """The other nodes that are registered, as far as this node has read the directory."""
        directory = self.view.directory
        return [] if directory is None else [one for one in directory.nodes.values() if one.node_id != self.node_id]
