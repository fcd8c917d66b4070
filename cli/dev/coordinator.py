"""Coordinator processes for development and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cli.dev.place import HERE, Place
from cli.dev.ports import lease_ports
from cli.dev.service_process import ProcessFailedError as CoordinatorFailedError
from cli.dev.service_process import ServiceProcess

__all__ = ["CoordinatorFailedError", "CoordinatorProcess"]


class CoordinatorProcess(ServiceProcess):
    """One coordinator."""

    def __init__(
        self,
        node_id: int,
        *,
        bootstrap: str,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        ports: Sequence[int] = (),
        place: Place = HERE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`folder` gets the configuration, the log and (unless `data.dirs` says otherwise) the data directory.

        `ports` are the preferred ones of the listener and of HTTP; others are taken when they are in use.
        """
        self.node_id = node_id
        self.data_folder = folder / "data"
        leases = lease_ports(2, preferred=ports)
        port, http_port = (lease.port for lease in leases)
        own = {
            "node.id": str(node_id),
            "bootstrap.servers": bootstrap,
            "listeners": f"PLAINTEXT://{place.host}:{port}",
            "http.listener": f"{place.host}:{http_port}",
            "data.dirs": str(self.data_folder),
            "object.store.url": f"file://{folder / 'objects'}",
            "diskless.metadata.topic.replication.factor": "1",
            "diskless.metadata.topic.min.insync.replicas": "1",
            **(properties or {}),
        }
        super().__init__(f"coordinator node {node_id}", "coordinator.app", folder, leases, own, place=place, environment=environment)
