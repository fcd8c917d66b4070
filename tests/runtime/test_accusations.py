"""Entries that contradict the log: who reads one tells its leader, whose state is set aside and built anew; both are on record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.adapters.sqlite import StateDatabases
from coordinator.app.telemetry import node_samples
from coordinator.core.events import Contradicted
from coordinator.core.leadership.states import State
from coordinator.core.log_entry import ContradictoryEntry
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import ReportContradictionRequest, ReportContradictionResponse
from coordinator.runtime.answers.descriptions import Descriptions
from coordinator.runtime.node.accusations import Accusations
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import PeerUnavailable
from coordinator.runtime.routing.cluster_view import ClusterView
from coordinator.runtime.routing.replicas import Replicas
from records.codec import encode_entry
from records.entry_key import EntryKey, encode_key
from records.model import Endpoint, LeadershipClaimed, RecordsDeleted
from tests.core.build import TOPIC, batch, commit, place, result_of
from tests.runtime.nodes import Running, context_of, in_memory, running

ENTRY = ContradictoryEntry(77, 3, 99, "offset 4, 5 is next")

SOON = Pauses(revive_s=(0.05, 1.0), accusation_retry_s=0.001)


def claim(node_id: int, term: int = 99) -> LeadershipClaimed:
    endpoints = [Endpoint(listener="PLAINTEXT", host="other", port=9192)]
    return LeadershipClaimed(epoch=3, term=term, node_id=node_id, rack="", endpoints=endpoints)


class Peer:
    """Keeps what it is told; fails as often as it is said to."""

    def __init__(self, failures: int = 0) -> None:
        self.told: list[tuple[str, int, Message]] = []
        self._failures = failures

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        self.told.append((host, port, request))
        if len(self.told) <= self._failures:
            raise PeerUnavailable("not there")
        return ReportContradictionResponse(error_code=0)


async def told_by(found: Contradicted, its_claim: LeadershipClaimed | None, peer: Peer) -> Accusations:
    accusations = Accusations(context_of(view=ClusterView(Replicas(), "PLAINTEXT"), peers=peer, pauses=SOON))
    accusations.contradicted(4, found, its_claim)
    await accusations.finished()
    return accusations


@pytest.mark.parametrize("failures", [0, 1])
async def test_the_leader_of_the_term_is_told(failures: int) -> None:
    peer = Peer(failures)
    await told_by(Contradicted(ENTRY, is_certain=True), claim(2), peer)
    assert len(peer.told) == failures + 1
    host, port, request = peer.told[-1]
    assert (host, port) == ("other", 9192)
    assert request == ReportContradictionRequest(coordinator_id=4, node_id=1, offset=77, epoch=3, term=99, reason="offset 4, 5 is next")


@pytest.mark.parametrize("its_claim", [None, claim(1), claim(2, term=98)], ids=["no leader", "itself", "another term"])
async def test_nobody_else_is_told(its_claim: LeadershipClaimed | None) -> None:
    peer = Peer()
    accusations = await told_by(Contradicted(ENTRY, is_certain=False), its_claim, peer)
    assert peer.told == []
    assert accusations.counts == {(4, "suspected"): 1}
    assert accusations.newest(4) == "entry 4@77 of epoch 3, found by node 1: offset 4, 5 is next"
    assert (accusations.count(5), accusations.newest(5)) == (0, "")


async def with_a_file(started: Running) -> None:
    await started.leads()
    await started.ask(0, place())
    assert result_of(await started.ask(0, commit("a", [batch(0, 3)]))).errors == [0]


async def heals(started: Running, failed: Callable[[], int]) -> None:
    """The replica failed once, leads again and gives out the next offset."""
    await started.until(lambda: failed() == 1, "the failure")
    await started.until(lambda: started.node.replicas.is_leading(0), "leadership")
    assert result_of(await started.ask(0, commit("b", [batch(0, 1)]))).base_offsets == [3]
    assert not started.fatal


async def test_an_accused_leader_sets_its_state_aside_and_leads_on_with_a_new_one(tmp_path: Path) -> None:
    async with running(in_memory(partitions=1), StateDatabases(tmp_path), pauses=SOON) as started:
        await with_a_file(started)
        node, shard = started.node, started.node.replicas[0].view
        assert shard is not None
        entry = ContradictoryEntry(2, shard.fence.epoch, shard.fence.term, "offset 0, 9 is next")
        assert node.accusations.accused(0, entry, 7).error is ErrorCode.NONE
        assert shard.phase is State.FAILED
        await heals(started, lambda: node.keeper.failures[0].count)
        assert node.keeper.failures[0].evidence
        [told] = Descriptions(node).coordinators([0])
        assert told.contradictions == 1
        assert told.last_contradiction == f"entry 0@2 of epoch {entry.epoch}, found by node 7: offset 0, 9 is next"
        samples = [sample for sample in node_samples(node, lambda: 0) if sample[0] == "contradictions_total"]
        assert {sample[1]: sample[2] for sample in samples} == {(0, "void"): 0, (0, "suspected"): 0, (0, "accused"): 1}
        # The term it is accused of is over.
        assert node.accusations.accused(0, entry, 7).error is ErrorCode.NOT_COORDINATOR
        assert node.accusations.accused(9, entry, 7).error is ErrorCode.NOT_COORDINATOR


async def test_a_forged_entry_is_void_and_what_it_says_is_on_record(tmp_path: Path) -> None:
    kafka = in_memory(partitions=1)
    async with running(kafka, StateDatabases(tmp_path), pauses=SOON) as started:
        await with_a_file(started)
        shard = started.node.replicas[0].view
        assert shard is not None
        fence = shard.fence
        forged = RecordsDeleted(topic_id=TOPIC, partition=0, new_log_start_offset=1_000)
        kafka.append(0, encode_key(EntryKey(fence.epoch, fence.term, fence.seq + 1)), encode_entry([forged]))
        # The leader's own entry of that seq is void. It reads what was forged, builds its state anew, and claims again behind that.
        first = result_of(await started.ask(0, commit("b", [batch(0, 1)])))
        assert first.errors == [ErrorCode.NOT_COORDINATOR]
        await heals(started, lambda: started.node.keeper.failures[0].count)
        assert started.node.accusations.counts == {(0, "suspected"): 1, (0, "void"): 1}
        assert "up to 1000, past the high watermark 3" in started.node.accusations.newest(0)
