"""Two processes with one node id: the later one is refused, an ended one is replaced, and who was replaced steps down."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from coordinator.core.commands import RegisterNode
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import DescribeNodeResponse
from coordinator.runtime.directories.reporting import log_dirs
from coordinator.runtime.node.registration import Registration
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import PeerGone, PeerUnavailable, group_client_id
from records.codec import decode_entry
from records.model import NodeRegistered
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.kafka_group import FakeMembership
from simulation.fakes.state_store import MemoryStateStores
from tests.runtime.nodes import Running, in_memory, running

QUICK = Pauses(registration_check_s=0.005, registration_group_s=0.005)


class Reached:
    """Reaches the process that is given, as long as there is one."""

    def __init__(self, running: Running | None = None, error: type[PeerUnavailable] = PeerGone) -> None:
        self.running = running
        self.error = error
        self.calls = 0

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        self.calls += 1
        if self.running is None:
            raise self.error(f"{host}:{port}")
        return self.running.node.describe()


def registrations(kafka: FakeKafka) -> list[NodeRegistered]:
    entries = kafka.logs[0].entries()
    return [record for entry in entries for record in decode_entry(entry.value or b"") if isinstance(record, NodeRegistered)]


def registered(started: Running) -> bool:
    directory = started.node.view.directory
    known = None if directory is None else directory.nodes.get(1)
    return known is not None and known.incarnation_id == started.node.config.incarnation_id


def registration_of(started: Running) -> RegisterNode:
    """How the node registers, without a process that it replaces."""
    config = started.node.config
    return RegisterNode(
        node_id=config.node_id,
        rack=config.rack,
        endpoints=config.endpoints,
        schema_level_max=config.schema_level_max,
        incarnation_id=config.incarnation_id,
        log_dirs=log_dirs(started.node.keeper.directories.directories()).online,
    )


async def test_a_second_process_is_refused_before_it_joins_the_group_while_the_first_answers() -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores(), pauses=QUICK) as first:
        await first.leads()
        await first.until(lambda: registered(first), "the registration")
        async with running(kafka, MemoryStateStores(), peers=Reached(first), pauses=QUICK) as second:
            await second.until(lambda: bool(second.fatal), "the refusal")
            assert not second.node.is_joined
        message = str(second.fatal[0])
        assert "node.id 1 is in use: the process at one:9192 is registered under it and answers" in message
        assert "change node.id" in message
        assert first.node.replicas.led() == [0, 1]
    assert first.fatal == []
    assert [one.incarnation_id for one in registrations(kafka)] == [first.node.config.incarnation_id]


async def test_a_process_replaces_one_that_has_ended_at_once() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, pauses=QUICK) as first:
        await first.leads()
        await first.until(lambda: registered(first), "the registration")
    # Killed: the group still has it, but its address refuses connections.
    kafka.group.add(FakeMembership(group=kafka.group, node="killed", client_id=group_client_id(1)))
    async with running(kafka, stores, peers=Reached(None, PeerGone), pauses=QUICK) as second:
        await second.until(lambda: second.node.is_joined, "the group")
        kafka.group.remove("killed")
        await second.until(lambda: registered(second), "the registration")
    assert second.fatal == []


async def test_an_address_taken_over_by_oneself_is_that_of_an_ended_process() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, pauses=QUICK) as first:
        await first.until(lambda: registered(first), "the registration")
    itself = Reached()
    async with running(kafka, stores, peers=itself, pauses=QUICK) as second:
        itself.running = second
        await second.until(lambda: registered(second), "the registration")
    assert second.fatal == []


async def test_a_silent_process_is_waited_for_until_the_group_forgets_it() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, pauses=QUICK) as first:
        await first.until(lambda: registered(first), "the registration")
    kafka.group.add(FakeMembership(group=kafka.group, node="silent", client_id=group_client_id(1)))
    silent = Reached(None, PeerUnavailable)
    async with running(kafka, stores, peers=silent, pauses=QUICK) as second:
        await second.until(lambda: silent.calls > 0, "the question")
        assert not second.node.is_joined
        kafka.group.remove("silent")
        await second.until(lambda: registered(second), "the registration")
    assert second.fatal == []


async def test_a_silent_process_that_stays_a_member_is_in_the_way() -> None:
    kafka, stores = in_memory(), MemoryStateStores()
    async with running(kafka, stores, pauses=QUICK) as first:
        await first.until(lambda: registered(first), "the registration")
    kafka.group.add(FakeMembership(group=kafka.group, node="silent", client_id=group_client_id(1)))
    pauses = replace(QUICK, session_margin_s=0.0)
    async with running(kafka, stores, peers=Reached(None, PeerUnavailable), pauses=pauses, session_timeout_ms=100) as second:
        await second.until(lambda: bool(second.fatal), "the refusal")
    assert "stays a member of the group, though it does not answer at one:9192" in str(second.fatal[0])


async def test_who_was_replaced_steps_down_and_does_not_register_again() -> None:
    kafka = in_memory()
    async with running(kafka, MemoryStateStores(), pauses=QUICK) as started:
        await started.leads()
        await started.until(lambda: registered(started), "the registration")
        twin = replace(registration_of(started), incarnation_id=b"t" * 16, replaced_id=started.node.config.incarnation_id)
        await started.node.replicas[0].ask(twin, 5_000)
        await started.until(lambda: bool(started.fatal), "the end")
        assert "has registered as node 1 after this one" in str(started.fatal[0])
    assert [one.incarnation_id for one in registrations(kafka)] == [started.node.config.incarnation_id, b"t" * 16]


async def test_of_two_that_start_together_the_one_registered_later_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither finds the other in the directory, and both join the group."""
    kafka = in_memory()
    twin = DescribeNodeResponse(
        error_code=0, node_id=1, incarnation_id=b"t" * 16, is_member=True, time_ms=0, is_kafka_time_known=False, is_store_marked=False
    )

    class Twin:
        async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
            return twin

    gate, look = asyncio.Event(), Registration._look

    async def look_later(registration: Registration) -> None:
        await gate.wait()
        await look(registration)

    monkeypatch.setattr(Registration, "_look", look_later)
    async with running(kafka, MemoryStateStores(), peers=Twin(), pauses=QUICK) as started:
        await started.leads()
        await started.node.replicas[0].ask(replace(registration_of(started), incarnation_id=twin.incarnation_id), 5_000)
        gate.set()
        await started.until(lambda: bool(started.fatal), "the refusal")
        assert "is in use" in str(started.fatal[0])
    assert [one.incarnation_id for one in registrations(kafka)] == [twin.incarnation_id]
