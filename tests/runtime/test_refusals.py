"""A node that could not lead a partition refuses it, says why, and writes nothing to the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from coordinator.app.readiness import readiness
from coordinator.core.leadership.states import State
from records.codec import encode_entry
from records.entry_key import EntryKey, encode_key
from records.levels import LEVEL_LATEST
from records.model import Endpoint, FeatureLevelSet, LeadershipClaimed, NoOp, Record
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import Heard, Running, in_memory, running

EVERYTHING = frozenset({0, 1})
UNKNOWN_SCHEMA = b"\xc3\x01" + b"unknown!" + b"body"


def newer_leader_wrote(kafka: FakeKafka, value: bytes) -> int:
    """Let another node claim partition 1 and write an entry there; returns the end of the log."""
    endpoints = [Endpoint(listener="PLAINTEXT", host="two", port=9192)]
    claim: Record = LeadershipClaimed(epoch=1, term=77, node_id=2, rack="", endpoints=endpoints)
    kafka.append(1, encode_key(EntryKey(1, 77, 0)), encode_entry([claim], 1))
    kafka.append(1, encode_key(EntryKey(1, 77, 1)), value)
    kafka.append(1, encode_key(EntryKey(1, 77, 2)), encode_entry([NoOp()], 1))
    return kafka.logs[1].end_offset


@asynccontextmanager
async def unable(value: bytes) -> AsyncIterator[tuple[Running, FakeKafka, int]]:
    """A node alone in the group that cannot apply the log of partition 1."""
    kafka = in_memory()
    end = newer_leader_wrote(kafka, value)
    stores = MemoryStateStores()
    async with running(kafka, stores) as started:
        node = started.node
        await started.until(lambda: node.assignment == EVERYTHING and node.replicas.led() == [0], "leadership of partition 0")
        await started.until(lambda: node.withheld_reason is not None, "the reason")
        yield started, kafka, end
    assert started.fatal == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (UNKNOWN_SCHEMA, "cannot be read by this version"),
        (
            encode_entry([FeatureLevelSet(level=LEVEL_LATEST + 1)], 1),
            "raises the schema level to",
        ),
    ],
    ids=["schema", "record"],
)
async def test_a_log_of_a_newer_version_is_given_to_another_member_and_no_epoch_is_used(value: bytes, reason: str) -> None:
    async with unable(value) as (started, kafka, end):
        node, other = started.node, Heard()
        shard = node.replicas[1].view
        assert shard is not None
        assert shard.phase is State.FAILED
        ready, detail = readiness(node)
        assert not ready
        assert "metadata partition 1: entry 1" in str(detail["withheld"])
        assert reason in str(detail["withheld"])
        assert reason in str(detail["failed"])
        member = kafka.node("2").membership
        member.join(other)
        # It is given partition 1, and nothing else as long as it has no warm replica.
        await started.until(lambda: bool(other.assignments) and 1 in other.assignments[-1], "the other member's turn")
        assert node.replicas.led() == [0]
        member.leave()
        await started.until(lambda: node.assignment == EVERYTHING, "everything when nobody else is left")
        await started.until(lambda: node.replicas.led() == [0], "leadership of partition 0")
        assert kafka.logs[1].end_offset == end
        assert node.replicas[1].view is shard


async def test_who_refuses_everything_leads_on_and_is_assigned_it_again_when_it_is_fit() -> None:
    kafka, other = in_memory(), Heard()
    async with running(kafka, MemoryStateStores()) as started:
        await started.leads()
        refusals = started.node.standing.refusals
        refusals.withhold("unsupported", "for the test")
        assert started.node.withheld_reason == "for the test"
        await started.until(lambda: started.node.assignment == EVERYTHING, "the assignment, for nobody else is there")
        kafka.node("2").membership.join(other)
        await started.until(lambda: EVERYTHING in other.assignments, "the other member's turn")
        assert started.node.is_joined
        assert started.node.assignment == frozenset()
        assert started.node.replicas.led() == [0, 1]
        refusals.release("unsupported")
        await started.until(lambda: started.node.assignment == EVERYTHING, "what is led here to be assigned here again")
        assert started.node.withheld_reason is None
        await started.until(lambda: readiness(started.node)[0], "readiness")


async def test_a_round_comes_when_refusals_change_and_not_when_the_reason_is_told_anew() -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores()) as started:
        await started.leads()
        refusals, generation = started.node.standing.refusals, kafka.group.generation
        refusals.withhold("clock", "10 s ahead")
        await started.until(lambda: kafka.group.generation == generation + 1, "a round")
        refusals.withhold("clock", "11 s ahead")
        heard_s = asyncio.get_running_loop().time()
        await started.until(lambda: asyncio.get_running_loop().time() > heard_s + 1, "a second")
        assert kafka.group.generation == generation + 1


async def test_a_log_that_lost_entries_is_given_back_too() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores) as started:
        await started.leads()
    # The topic comes back shorter than what the state has applied.
    kafka.logs[1].cut(0)
    other = Heard()
    async with running(kafka, stores) as started:
        await started.until(lambda: started.node.withheld_reason is not None, "the reason")
        assert "Acknowledged data is missing from the log" in str(started.node.withheld_reason)
        kafka.node("2").membership.join(other)
        await started.until(lambda: bool(other.assignments) and 1 in other.assignments[-1], "the other member's turn")
        assert kafka.logs[1].end_offset == 0
