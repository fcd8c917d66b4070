"""Nodes with wrong clocks: the odd one out stays out of leadership and says why; times of the log do not run ahead of Kafka's brokers."""

from __future__ import annotations

from dataclasses import replace

from coordinator.app.readiness import readiness
from coordinator.core.commands import CommitResult, RegisterNode
from coordinator.protocol.codec import Message
from coordinator.protocol.messages import DescribeNodeResponse
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.ports import PeerUnavailable
from records.codec import decode_entry
from records.committed_files.codec import FileCommitted
from records.model import Endpoint, NodeRegistered
from simulation.fakes.kafka import FakeKafka
from simulation.fakes.kafka_log import Fate
from simulation.fakes.state_store import MemoryStateStores
from tests.core.build import batch, commit, place, result_of
from tests.patient_loop import loop_ms
from tests.runtime.nodes import Heard, Running, in_memory, running
from tests.runtime.test_load_timeout import EVERYTHING

HOUR_MS = 3_600_000
OTHER = NodeRegistered(
    node_id=2,
    rack="",
    endpoints=[Endpoint(listener="PLAINTEXT", host="two", port=9192)],
    schema_level_max=1,
    incarnation_id=b"2" * 16,
    log_dirs=[],
    is_any_dir_offline=False,
)


QUICK = Pauses(clocks_ask_s=0.01)


class OtherNode:
    """Another node of the service, whose clock is right unless it is set; it does not answer while `is_there` is False."""

    def __init__(self) -> None:
        self.shift_ms = 0
        self.is_there = True
        self.is_member = True
        self.asked = 0

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        self.asked += 1
        if not self.is_there or host != "two":
            raise PeerUnavailable(host)
        return DescribeNodeResponse(
            error_code=0,
            node_id=2,
            is_store_marked=False,
            incarnation_id=b"2" * 16,
            is_member=self.is_member,
            time_ms=loop_ms() + self.shift_ms,
            is_kafka_time_known=False,
        )


class ManyNodes:
    """Other nodes, which answer at hosts that are named by their ids; `asked` has who was."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def call(self, host: str, port: int, request: Message, timeout_ms: int) -> Message:
        self.asked.append(int(host))
        return replace(await OtherNode().call("two", port, request, timeout_ms), node_id=int(host))  # type: ignore[type-var]


class Shifted:
    """The clock of the node under test, and how far it is from the truth."""

    def __init__(self, ms: int = 0) -> None:
        self.ms = ms

    def now_ms(self) -> int:
        return loop_ms() + self.ms


async def register_other(started: Running) -> None:
    directory = started.node.view.directory
    assert directory is not None
    directory.nodes[2] = OTHER


def append_times(kafka: FakeKafka, partition: int) -> list[int]:
    records = [record for entry in kafka.logs[partition].entries() for record in decode_entry(entry.value or b"")]
    return [record.append_time_ms for record in records if isinstance(record, FileCommitted)]


async def commit_one(started: Running, key: str) -> CommitResult:
    return result_of(await started.ask(1, commit(key, [batch(0, 2)], owner_ids=[1])))


async def test_a_leader_whose_clock_jumps_refuses_all_leads_on_and_is_assigned_again_when_it_is_right() -> None:
    kafka, other, clock = in_memory(), OtherNode(), Shifted()
    async with running(kafka, MemoryStateStores(), peers=other, wall_clock_ms=clock.now_ms, pauses=QUICK) as started:
        await started.leads()
        await register_other(started)
        await started.until(lambda: len(started.node.clocks.comparisons()) == 2, "both other clocks")
        assert started.node.clocks.verdict().far == ()
        heard = Heard()
        kafka.node("2").membership.join(heard)
        clock.ms = 2 * HOUR_MS
        await started.until(lambda: EVERYTHING in heard.assignments, "the other member's turn")
        assert started.node.assignment == frozenset()
        is_ready, detail = readiness(started.node)
        assert not is_ready
        assert "the clock of this node is 7200." in str(detail["withheld"])
        assert "ahead of Kafka and node 2" in str(detail["withheld"])
        # The other member does not claim: what is led is led on.
        assert started.node.replicas.led() == [0, 1]
        clock.ms = 0
        await started.until(lambda: started.node.withheld_reason is None, "the clock to be right")
        await started.until(lambda: started.node.assignment == EVERYTHING, "what is led here to be assigned here again")
    assert started.fatal == []


async def test_many_other_nodes_are_asked_in_turns_and_all_have_a_vote() -> None:
    others = ManyNodes()
    async with running(in_memory(), MemoryStateStores(), peers=others, pauses=Pauses(clocks_ask_s=3600)) as started:
        await started.leads()
        directory = started.node.view.directory
        assert directory is not None
        for node_id in range(2, 12):
            place_of = [Endpoint(listener="PLAINTEXT", host=str(node_id), port=9192)]
            directory.nodes[node_id] = replace(OTHER, node_id=node_id, endpoints=place_of)
        for _ in range(3):
            others.asked.clear()
            await started.node.clocks.ask()
            assert 3 <= len(others.asked) <= 4
        voters = {one.clock for one in started.node.clocks.comparisons()}
        assert {f"node {node_id}" for node_id in range(2, 12)} <= voters


async def test_times_of_the_log_do_not_run_ahead_of_the_brokers() -> None:
    """Also where nobody knows whose clock is wrong: a lone node leads on."""
    kafka, clock = in_memory(), Shifted(30 * 24 * HOUR_MS)
    async with running(kafka, MemoryStateStores(), clock_ms=clock.now_ms, wall_clock_ms=clock.now_ms, pauses=QUICK) as started:
        await started.leads()
        await started.until(lambda: started.node.replicas[1].view.log_ahead_ms > 0, "the correction")  # type: ignore[union-attr]
        await started.ask(1, place(count=1))
        assert (await commit_one(started, "a")).errors == [0]
        assert started.node.is_joined
        assert [one.clock for one in started.node.clocks.verdict().far] == ["Kafka"]
    [time_ms] = append_times(kafka, 1)
    assert abs(time_ms - loop_ms()) < HOUR_MS
    assert started.fatal == []


async def test_a_clock_that_is_behind_is_odd_too() -> None:
    kafka, other, clock = in_memory(), OtherNode(), Shifted()
    async with running(kafka, MemoryStateStores(), peers=other, wall_clock_ms=clock.now_ms, pauses=QUICK) as started:
        await started.leads()
        await register_other(started)
        clock.ms = -60_000
        await started.until(lambda: "behind Kafka and node 2" in str(started.node.withheld_reason), "the reason")


async def test_a_node_that_does_not_answer_or_is_no_member_has_no_vote() -> None:
    kafka, other, clock = in_memory(), OtherNode(), Shifted()
    other.is_member = False
    pauses = replace(QUICK, clocks_forgotten_s=0.1)
    async with running(kafka, MemoryStateStores(), peers=other, wall_clock_ms=clock.now_ms, pauses=pauses) as started:
        await started.leads()
        await register_other(started)
        clock.ms = 2 * HOUR_MS
        asked = other.asked
        await started.until(lambda: other.asked > asked + 5, "several answers")
        assert started.node.withheld_reason is None
        other.is_member = True
        await started.until(lambda: started.node.withheld_reason is not None, "the reason")
        other.is_there = False
        await started.until(lambda: started.node.withheld_reason is None, "the return of the last one")


async def test_a_node_that_is_off_at_the_start_does_not_join() -> None:
    kafka, stores, other = in_memory(), MemoryStateStores(), OtherNode()
    async with running(kafka, stores) as started:
        await started.leads()
        await started.node.replicas[0].ask(_register(OTHER), 5_000)
    other_kafka_ms = loop_ms()

    async def call(host: str, port: int, request: Message, timeout_ms: int) -> Message:
        answer = await OtherNode.call(other, host, port, request, timeout_ms)
        assert isinstance(answer, DescribeNodeResponse)
        return DescribeNodeResponse(
            error_code=0,
            node_id=2,
            is_store_marked=False,
            incarnation_id=b"2" * 16,
            is_member=True,
            time_ms=answer.time_ms - 30 * 24 * HOUR_MS,
            is_kafka_time_known=True,
            kafka_time_ms=max(other_kafka_ms, loop_ms()) - 30 * 24 * HOUR_MS,
        )

    other.call = call  # type: ignore[method-assign]
    heard = Heard()
    kafka.node("2").membership.join(heard)
    async with running(kafka, stores, peers=other, pauses=QUICK) as started:
        await started.until(lambda: started.node.withheld_reason is not None, "the reason")
        assert started.node.assignment == frozenset()
        assert "2592000." in str(started.node.withheld_reason)
        asked = other.asked
        await started.until(lambda: other.asked > asked + 5, "several answers")
        assert started.node.replicas.led() == []
        # Nobody else is left: a coordinator that nobody leads serves nobody.
        kafka.group.remove("2")
        await started.until(lambda: started.node.replicas.led() == [0, 1], "leadership of the last one")


def _register(node: NodeRegistered) -> RegisterNode:
    return RegisterNode(
        node_id=node.node_id,
        rack=node.rack,
        endpoints=node.endpoints,
        schema_level_max=node.schema_level_max,
        incarnation_id=node.incarnation_id,
        log_dirs=tuple(node.log_dirs) or (b"d" * 16,),
    )


async def test_a_node_whose_claims_are_refused_gives_the_partition_back() -> None:
    kafka, heard = in_memory(), Heard()
    kafka.faults.fate_of = lambda node, _partition, _seq, _value: Fate.DROP if node == "1" else Fate.DELIVER
    async with running(kafka, MemoryStateStores(), pauses=replace(QUICK, refused_s=(0.5, 0.5))) as started:
        await started.until(lambda: started.node.assignment == EVERYTHING, "the assignment")
        kafka.node("2").membership.join(heard)
        await started.until(lambda: frozenset().union(*heard.assignments) == EVERYTHING, "the other member's turn at each partition")
        assert "Kafka refused what this node wrote to metadata partition" in str(started.node.withheld_reason)
        assert sum(log.end_offset for log in kafka.logs) == 0
        kafka.faults.fate_of = lambda _node, _partition, _seq, _value: Fate.DELIVER
        await started.until(lambda: bool(started.node.replicas.led()), "the return")
        await started.until(lambda: started.node.withheld_reason is None, "both partitions to be tried again")
    assert started.fatal == []


async def test_a_lone_leader_that_is_behind_writes_the_time_of_the_brokers() -> None:
    """What it wrote of yesterday would be old as soon as the next leader is right: retries would lose their answers."""
    kafka, clock = in_memory(), Shifted(-2 * HOUR_MS)
    async with running(kafka, MemoryStateStores(), clock_ms=clock.now_ms, wall_clock_ms=clock.now_ms, pauses=QUICK) as started:
        await started.leads()
        await started.until(lambda: started.node.replicas[1].view.log_ahead_ms < 0, "the correction")  # type: ignore[union-attr]
        await started.ask(1, place(count=1))
        assert (await commit_one(started, "a")).errors == [0]
    [time_ms] = append_times(kafka, 1)
    assert abs(time_ms - loop_ms()) < HOUR_MS / 2
