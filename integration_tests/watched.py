"""A service with a topic in all its coordinators, a recorded load on it, and the judgement of the whole history."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Self, TypeVar

from confluent_kafka.admin import AdminClient

from coordinator.client.routing.connection import ClientConnection
from coordinator.protocol.codec import Message
from integration_tests.checker import check
from integration_tests.final_state import create_topic, dump_topic, read_final_state
from integration_tests.history import Attempt, FinalState, History, UserPartition
from integration_tests.load import Load
from integration_tests.metadata_log import read_log
from integration_tests.routes import Address, expect
from integration_tests.service import Service
from integration_tests.unusual_keys import is_plain

M = TypeVar("M", bound=Message)

COMMIT_TIMEOUT_S = 5.0
"""TimeoutMs of the load's commits."""
MOVED = 'reason="foreign_claim"'
GRACE_S = 12.0
"""How much later an answer may come: a tick of the coordinator, the answers before it, a machine that stands still for seconds.

Less than what a request waits for that is not ended at its time: the end of a fault, which lasts longer."""


def ask(address: str, request: Message, kind: type[M], timeout_s: float = 30.0) -> M:
    """Ask one node one thing over a connection of its own. Raises `ConnectionLost`, `RequestTimedOut`."""

    async def call() -> Message:
        host, _, port = address.rpartition(":")
        connection = await ClientConnection.connect(host, int(port), client_id="test", timeout_s=30)
        try:
            return await connection.call(request, timeout_s)
        finally:
            await connection.close()

    return expect(asyncio.run(call()), kind)


def quiet_admin(bootstrap: str) -> AdminClient:
    """An admin client for a cluster whose brokers are being killed."""
    return AdminClient({"bootstrap.servers": bootstrap, "socket.timeout.ms": 3000, "log_level": 0, "reconnect.backoff.max.ms": 500})


class Watched:
    """See the module's text. The nodes of the service are those that run when it is made."""

    def __init__(self, service: Service, name: str, partitions: int) -> None:
        self.describe(service)
        self.owners: Mapping[UserPartition, int] = create_topic(self.nodes, name, partitions)
        assert set(self.owners.values()) == set(range(self.coordinators)), "every coordinator is to have some partitions"

    @classmethod
    def of(cls, service: Service, owners: Mapping[UserPartition, int]) -> Self:
        """Watch a topic that exists."""
        made = cls.__new__(cls)
        made.describe(service)
        made.owners = owners
        return made

    def describe(self, service: Service) -> None:
        """Take the service's nodes and its number of coordinators from its properties."""
        self.service = service
        self.coordinators = int(service.properties["diskless.metadata.topic.num.partitions"])
        self.nodes: dict[int, Address] = {}
        for node_id in service.nodes:
            self.know(node_id)
        self._load: Load | None = None

    def know(self, node_id: int) -> None:
        """Let the load use a node, too."""
        host, _, port = self.service.nodes[node_id].address.rpartition(":")
        self.nodes[node_id] = Address(host, int(port))

    def load(self, seed: int = 1) -> Load:
        """The load on the topic; one per object."""
        assert self._load is None, "there is one load"
        self._load = Load(self.nodes, self.owners, seed=seed)
        return self._load

    @property
    def history(self) -> History:
        """What the clients did so far."""
        assert self._load is not None
        return self._load.history

    @property
    def attempts(self) -> list[Attempt]:
        """What the clients tried so far."""
        return self.history.attempts

    def errors_since(self, start_s: float) -> set[int]:
        """The error codes of commits answered since a moment; those of unusual keys, which must be refused, left out."""
        attempts = [one for one in list(self.attempts) if one.answered_s > start_s and is_plain(one.object_key)]
        return {answer.error_code for one in attempts for answer in one.answers} - {0}

    def moved_terms(self) -> float:
        """Terms of all nodes that ended by a successor's claim."""
        return sum(count for labels, count in self._term_ends() if MOVED in labels)

    def broken_terms(self) -> float:
        """Terms of all nodes that ended otherwise."""
        return sum(count for labels, count in self._term_ends() if MOVED not in labels)

    def _term_ends(self) -> list[tuple[str, float]]:
        """A node without an answer would count as one without ends: a busy machine gets time for it."""
        nodes = self.service.nodes.values()
        return [sample for node in nodes for sample in node.samples("term_ends_total", timeout_s=60).items()]

    def epochs(self) -> dict[int, list[int]]:
        """The epochs of the claims in force, in the order of the log, for each coordinator."""
        logs = dump_topic(self.service.bootstrap, self.service.topic)
        return {coordinator_id: [claim.epoch for claim in read_log(messages).claims] for coordinator_id, messages in logs.items()}

    def replacements(self) -> int:
        """Claims in force of another node than the one before, of all coordinators."""
        logs = dump_topic(self.service.bootstrap, self.service.topic)
        nodes = [[claim.node_id for claim in read_log(messages).claims] for messages in logs.values()]
        return sum(before != after for claimed in nodes for before, after in pairwise(claimed))

    def check(self) -> None:
        """Fail with every contradiction of the history; every node must run, and every attempt must have an answer in time."""
        for node in self.service.nodes.values():
            assert node.process is not None
            status = node.process.exit_status()
            assert status is None, f"node {node.node_id} ended with status {status}:\n{node.log_tail(100)}"
        late = [one for one in self.attempts if not one.answers or one.answered_s - one.invoked_s > COMMIT_TIMEOUT_S + GRACE_S]
        assert late == [], f"{len(late)} of {len(self.attempts)} attempts had no answer within their TimeoutMs, the first: {late[0]}"
        self.judge()

    def judge(self) -> FinalState:
        """Read all that is left by the nodes that run, and fail with every contradiction to what clients were told."""
        processes = {node_id: self.service.nodes[node_id].process for node_id in self.nodes}
        running = {node_id: self.nodes[node_id] for node_id, one in processes.items() if one is not None and one.is_running()}
        final = read_final_state(running, self.owners, bootstrap=self.service.bootstrap, metadata_topic=self.service.topic)
        problems = check(self.history, final)
        assert not problems, f"{len(problems)} contradictions:\n" + "\n".join(problems[:20])
        return final
