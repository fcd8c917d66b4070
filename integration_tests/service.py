"""A service under test: coordinator processes of one metadata topic and group on a given Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.place import HERE, Place
from integration_tests.waiting import WAIT_S, wait_until

# For services in which nobody is to die: a machine that stands still for longer than a short session moves no leadership.
UNDISTURBED = {"session.timeout.ms": "60000"}


class Service:
    """Some nodes that share a metadata topic; each is a real process, and ends with the block: `with Service(..) as service`."""

    def __init__(self, bootstrap: str, folder: Path, *, partitions: int = 8, properties: Mapping[str, str] | None = None) -> None:
        mark = uuid.uuid4().hex[:8]
        self.bootstrap = bootstrap
        self.folder = folder
        self.topic = f"__diskless_metadata-{mark}"
        self.nodes: dict[int, CoordinatorProcess] = {}
        self.properties = {
            "metadata.topic": self.topic,
            "group.id": f"diskless-{mark}",
            "diskless.metadata.topic.num.partitions": str(partitions),
            "object.store.url": f"file://{folder / 'objects'}",
            **(properties or {}),
        }

    def add(
        self, node_id: int, *, place: Place = HERE, environment: Mapping[str, str] | None = None, **properties: str
    ) -> CoordinatorProcess:
        """Make a node without starting it; other keyword names are properties, with underscores for dots."""
        own = {key.replace("_", "."): value for key, value in properties.items()}
        node = CoordinatorProcess(
            node_id,
            bootstrap=self.bootstrap,
            folder=self.folder / f"node-{node_id}",
            properties={**self.properties, **own},
            place=place,
            environment=environment,
        )
        self.nodes[node_id] = node
        return node

    def start(self, count: int) -> Service:
        """Start nodes 1 to `count` and wait until they share the partitions and all lead."""
        for node_id in range(1, count + 1):
            self.add(node_id).start()
        self.wait_shared()
        return self

    def wait_shared(self, timeout_s: float = WAIT_S) -> None:
        """Wait until every running node is ready and together they lead every partition exactly once."""
        wait_until(self.is_shared, "every partition to be led by exactly one node", timeout_s)

    def is_shared(self) -> bool:
        """Whether every running node leads its assigned partitions, which are all there are."""
        led: list[int] = []
        for node in self.nodes.values():
            if node.process is None or not node.process.is_running():
                continue
            ready, detail = node.readiness()
            if not ready:
                return False
            led += detail["leading"]  # type: ignore[misc]
            if not detail["leading"]:
                return False
        return sorted(led) == list(range(int(self.properties["diskless.metadata.topic.num.partitions"])))

    @property
    def addresses(self) -> list[str]:
        """Where clients connect to."""
        return [node.address for node in self.nodes.values()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process that still runs."""
        for node in self.nodes.values():
            node.close()
