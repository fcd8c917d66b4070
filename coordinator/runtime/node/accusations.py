"""Contradictions between nodes: tells leaders of entries that contradict the log, and hears it from others.

A replica that reads such an entry (`core.contradiction`) reports it to the leader whose term it is of. That leader decides by a
state that is not what the log says, so its term ends, its state is set aside as evidence, and it is built anew from the log.
A report is best effort: every other replica reads the same entry and reports it too, and the entry is void without any report.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from dataclasses import dataclass

from coordinator.core.commands import OK, Outcome
from coordinator.core.events import Contradicted
from coordinator.core.log_entry import ContradictoryEntry
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.messages import ReportContradictionRequest
from coordinator.runtime.ports import PeerUnavailable
from coordinator.runtime.routing.context import NodeContext
from records.model import LeadershipClaimed

LOG = logging.getLogger("coordinator.contradictions")

REPORT_TIMEOUT_MS = 2_000
REPORT_TRIES = 3
CONTRADICTION_KINDS = ("void", "suspected", "accused")
"""The meaning of a contradiction to this node: void for certain, a reason to build its state anew, or an entry of its own term."""
KEPT_MAX = 50
"""Contradictions are remembered for the operator, the newest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenContradiction:
    """A contradiction as the operator is told of it. `found_by` is the node that read it; this node may have been the accused one."""

    partition: int
    entry: ContradictoryEntry
    found_by: int
    is_certain: bool


class Accusations:
    """See the module's text; one per node."""

    def __init__(self, context: NodeContext) -> None:
        self.seen: deque[SeenContradiction] = deque(maxlen=KEPT_MAX)
        self.counts: Counter[tuple[int, str]] = Counter()
        """Contradictions by metadata partition and what they are: `void`, `suspected` (this state is rebuilt first) or `accused`."""
        self._node_id = context.node_id
        self._context = context
        self._retry_s = context.pauses.accusation_retry_s
        self._reports: set[asyncio.Task[None]] = set()

    def contradicted(self, partition: int, found: Contradicted, claim: LeadershipClaimed | None) -> None:
        """A replica of this node read a contradiction while `claim` was in force: remember it and tell the leader."""
        entry = found.entry
        self._note(partition, entry, self._node_id, "void" if found.is_certain else "suspected")
        LOG.error(
            "log entry contradicts the state partition=%d offset=%d epoch=%d is_void=%s reason=%r",
            partition,
            entry.offset,
            entry.epoch,
            found.is_certain,
            entry.reason,
        )
        if claim is not None and claim.node_id != self._node_id and claim.endpoints and claim.term == entry.term:
            report = asyncio.get_running_loop().create_task(
                self._report(partition, entry, claim), name=f"report-{partition}-{entry.offset}"
            )
            self._reports.add(report)
            report.add_done_callback(self._reports.discard)

    def accused(self, partition: int, entry: ContradictoryEntry, accuser_id: int) -> Outcome:
        """Another node says that an entry of this node's term contradicts the log."""
        replica = self._context.view.replicas.get(partition)
        if replica is None or replica.view is None or not replica.view.leads_term(entry.epoch, entry.term):
            message = f"node {self._node_id} does not lead epoch {entry.epoch} of coordinator {partition}"
            return Outcome(error=ErrorCode.NOT_COORDINATOR, message=message)
        self._note(partition, entry, accuser_id, "accused")
        LOG.error(
            "accused of a contradiction partition=%d offset=%d epoch=%d by_node=%d reason=%r",
            partition,
            entry.offset,
            entry.epoch,
            accuser_id,
            entry.reason,
        )
        replica.accuse(entry, accuser_id)
        return OK

    def count(self, partition: int) -> int:
        """How many contradictions this node found, or was accused of, in a metadata partition."""
        return sum(count for (of, _), count in self.counts.items() if of == partition)

    def newest(self, partition: int) -> str:
        """The newest of them for people, empty when there was none."""
        for seen in reversed(self.seen):
            if seen.partition == partition:
                entry = seen.entry
                return f"entry {partition}@{entry.offset} of epoch {entry.epoch}, found by node {seen.found_by}: {entry.reason}"
        return ""

    def _note(self, partition: int, entry: ContradictoryEntry, found_by: int, what: str) -> None:
        self.counts[(partition, what)] += 1
        self.seen.append(SeenContradiction(partition=partition, entry=entry, found_by=found_by, is_certain=what == "void"))

    async def _report(self, partition: int, entry: ContradictoryEntry, claim: LeadershipClaimed) -> None:
        endpoint = self._context.view.node_endpoint(claim.endpoints)
        request = ReportContradictionRequest(
            coordinator_id=partition,
            node_id=self._node_id,
            offset=entry.offset,
            epoch=entry.epoch,
            term=entry.term,
            reason=entry.reason,
        )
        for _ in range(REPORT_TRIES):
            try:
                await self._context.peers.call(endpoint.host, endpoint.port, request, REPORT_TIMEOUT_MS)
            except PeerUnavailable as unavailable:
                LOG.warning("leader not told of a contradiction node=%d error=%r", claim.node_id, str(unavailable))
                await asyncio.sleep(self._retry_s)
            else:
                return

    async def finished(self) -> None:
        """Wait until every report under way is delivered or given up."""
        await asyncio.gather(*self._reports)

    async def close(self) -> None:
        """Cancel what is under way."""
        for report in self._reports:
            report.cancel()
        await asyncio.gather(*self._reports, return_exceptions=True)
