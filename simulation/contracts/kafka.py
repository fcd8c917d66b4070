"""The contract of the Kafka ports, checked against the in-memory fakes and against a real broker alike.

A check takes a world: a fresh topic with `PARTITIONS` partitions, a fresh group, and a way to play the outsider.
Every wait is for a condition; a world bounds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.events import NewEntry
from coordinator.core.log_entry import entry_hash, size_of
from coordinator.runtime.ports import (
    Cluster,
    ClusterRefused,
    LogBroken,
    LogEntry,
    LogListener,
    LogReader,
    Membership,
    ProduceRefused,
    Proof,
    Report,
    TermProducer,
    TermProducers,
    TopicMissing,
)
from simulation.fakes.reports import noted_in

PARTITIONS = 4
ALL = frozenset(range(PARTITIONS))


class KafkaWorld(Protocol):
    """One topic, one group, and the ports of as many nodes as wanted. It closes everything it handed out."""

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; fail when it takes too long."""

    async def settle(self) -> None:
        """Wait until nothing is under way that could still be delivered."""

    def reader(self, listener: LogListener) -> LogReader: ...

    def producers(self, node: str) -> TermProducers: ...

    def membership(self, node: str) -> Membership:
        """A member whose loop is kept alive until `silence`."""

    def silence(self, node: str) -> None:
        """Stop telling the node's membership that the loop is alive."""

    def cluster(self) -> Cluster: ...

    async def append_control(self, partition: int) -> None:
        """Append a control record, and nothing behind it."""

    async def delete_records(self, partition: int, before_offset: int) -> None: ...

    async def delete_topic(self) -> None: ...


class Recorder:
    """Records what a reader delivers."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, LogEntry]] = []
        self.broken: list[tuple[int, int, LogBroken, str]] = []

    def on_entries(self, partition: int, generation: int, entries: Sequence[LogEntry], size_bytes: int) -> None:
        assert entries, "an empty delivery"
        assert size_bytes == size_of(entries)
        self.entries += [(partition, generation, entry) for entry in entries]

    def on_log_broken(self, partition: int, generation: int, why: LogBroken, detail: str) -> None:
        self.broken.append((partition, generation, why, detail))

    def offsets(self, partition: int, generation: int) -> list[int]:
        return [entry.offset for p, g, entry in self.entries if (p, g) == (partition, generation)]

    def values(self, partition: int, generation: int) -> list[bytes | None]:
        return [entry.value for p, g, entry in self.entries if (p, g) == (partition, generation)]


class Assignments:
    """Records what a member hears."""

    def __init__(self) -> None:
        self.heard: list[frozenset[int]] = []

    def on_assignment(self, assignment: GroupAssignment) -> None:
        self.heard.append(assignment.leads)

    @property
    def now(self) -> frozenset[int]:
        return self.heard[-1] if self.heard else frozenset()


def key(seq: int) -> bytes:
    return seq.to_bytes(20, "big")


def entry(seq: int, value: bytes) -> NewEntry:
    return NewEntry(seq, key(seq), value)


def send(producer: TermProducer, count: int, first: int = 0, text: str = "v", group: int = 7) -> None:
    for start in range(first, first + count, group):
        producer.produce([entry(seq, f"{text}{seq}".encode()) for seq in range(start, min(start + group, first + count))])


async def write(world: KafkaWorld, partition: int, count: int, text: str = "v") -> list[int]:
    """Write entries through a producer of their own and return their offsets."""
    reports: list[Report] = []
    producer = world.producers("writer").open(partition, noted_in(reports))
    send(producer, count, text=text)
    await world.until(lambda: len(reports) == count)
    producer.abandon()
    assert [report.error for report in reports] == [None] * count
    return [report.offset for report in reports if report.offset is not None]


# ---- LogReader


async def entries_arrive_in_order_with_keys_values_and_times(world: KafkaWorld) -> None:
    assert await write(world, 1, 1200) == list(range(1200))
    recorder = Recorder()
    reader = world.reader(recorder)
    reader.follow(1, 0, 7)
    await world.until(lambda: len(recorder.entries) == 1200)
    assert recorder.offsets(1, 7) == list(range(1200))
    assert recorder.values(1, 7) == [f"v{seq}".encode() for seq in range(1200)]
    assert [entry.key for _, _, entry in recorder.entries] == [key(seq) for seq in range(1200)]
    times = [entry.timestamp_ms for _, _, entry in recorder.entries]
    assert times == sorted(times)
    await write(world, 1, 3, text="w")
    await world.until(lambda: len(recorder.entries) == 1203)
    assert recorder.values(1, 7)[1200:] == [b"w0", b"w1", b"w2"]
    assert recorder.broken == []


async def several_partitions_are_read_side_by_side(world: KafkaWorld) -> None:
    recorder = Recorder()
    reader = world.reader(recorder)
    for partition in ALL:
        reader.follow(partition, 0, 100 + partition)
    for partition in ALL:
        await write(world, partition, 50, text=f"p{partition}-")
    await world.until(lambda: len(recorder.entries) == 50 * PARTITIONS)
    for partition in ALL:
        assert recorder.values(partition, 100 + partition) == [f"p{partition}-{seq}".encode() for seq in range(50)]


async def reading_starts_at_the_offset_asked_for(world: KafkaWorld) -> None:
    await write(world, 0, 20)
    recorder = Recorder()
    reader = world.reader(recorder)
    reader.follow(0, 15, 1)
    await world.until(lambda: len(recorder.entries) == 5)
    assert recorder.offsets(0, 1) == [15, 16, 17, 18, 19]


async def a_new_generation_hears_nothing_of_the_old_one(world: KafkaWorld) -> None:
    await write(world, 0, 3000)
    recorder = Recorder()
    reader = world.reader(recorder)
    reader.follow(0, 0, 1)
    await world.until(lambda: len(recorder.entries) > 0)
    reader.follow(0, 10, 2)  # while most of generation 1 is still under way
    seen = len(recorder.entries)
    await world.until(lambda: len(recorder.offsets(0, 2)) == 2990)
    assert {generation for _, generation, _ in recorder.entries[seen:]} == {2}
    assert recorder.offsets(0, 2) == list(range(10, 3000))
    reader.follow(0, 0, 3)
    reader.follow(0, 2998, 4)
    await world.until(lambda: len(recorder.offsets(0, 4)) == 2)
    assert recorder.offsets(0, 3) == []
    assert recorder.broken == []


async def nothing_comes_after_unfollow(world: KafkaWorld) -> None:
    await write(world, 0, 3000)
    recorder = Recorder()
    reader = world.reader(recorder)
    reader.follow(0, 0, 1)
    reader.follow(1, 0, 1)
    await world.until(lambda: len(recorder.entries) > 0)
    reader.unfollow(0)
    seen = len(recorder.offsets(0, 1))
    await write(world, 0, 10)
    await write(world, 1, 10)
    await world.until(lambda: len(recorder.offsets(1, 1)) == 10)
    await world.settle()
    assert len(recorder.offsets(0, 1)) == seen


async def control_records_are_read_without_key_and_value(world: KafkaWorld) -> None:
    cluster, controls = world.cluster(), []
    for _ in range(2):
        await write(world, 0, 5)
        for _ in range(2):
            await world.append_control(0)
            controls.append((await cluster.log_range(0))[1] - 1)
    await write(world, 0, 5)
    _, end = await cluster.log_range(0)
    recorder = Recorder()
    reader = world.reader(recorder)
    reader.follow(0, 0, 1)
    await world.until(lambda: len(recorder.offsets(0, 1)) == end)
    assert recorder.offsets(0, 1) == list(range(end))
    read = {entry.offset: entry for _, _, entry in recorder.entries}
    for offset in controls:
        assert read[offset] == LogEntry(offset, read[offset].timestamp_ms, None, None)
        assert await cluster.read_entry(0, offset) == read[offset]
    # From and behind every place, a control record or not, and on at the end of the log.
    for generation, offset in enumerate(range(1, end + 1), 2):
        last = read[offset - 1]
        reader.follow(0, offset, generation, entry_hash(last.key or b"", last.value or b""))
        await world.until(lambda count=end - offset, now=generation: len(recorder.offsets(0, now)) == count)  # type: ignore[misc]
    await world.append_control(0)
    _, longer = await cluster.log_range(0)
    await world.until(lambda: recorder.offsets(0, end + 1) == list(range(end, longer)))
    reader.follow(0, longer, 99, entry_hash(b"", b""))
    await write(world, 0, 1)
    await world.until(lambda: recorder.offsets(0, 99) == [longer])
    assert recorder.broken == []
    reader.follow(0, controls[0] + 1, 100, entry_hash(key(4), b"v4"))
    await world.until(lambda: bool(recorder.broken))
    assert [item[:3] for item in recorder.broken] == [(0, 100, LogBroken.CUT)]
    assert recorder.offsets(0, 100) == []


async def reading_past_the_end_or_below_the_start_says_which(world: KafkaWorld) -> None:
    await write(world, 0, 10)
    await world.delete_records(0, 4)
    recorder = Recorder()
    reader = world.reader(recorder)
    reader.follow(0, 11, 1)
    await world.until(lambda: bool(recorder.broken))
    reader.follow(0, 3, 2)
    await world.until(lambda: len(recorder.broken) == 2)
    assert [item[:3] for item in recorder.broken] == [(0, 1, LogBroken.PAST_END), (0, 2, LogBroken.BELOW_START)]
    assert "[4, 10)" in recorder.broken[0][3]
    assert "offset 3" in recorder.broken[1][3]
    reader.follow(0, 4, 3)
    await world.until(lambda: len(recorder.offsets(0, 3)) == 6)
    assert recorder.offsets(0, 3) == [4, 5, 6, 7, 8, 9]


async def following_behind_another_entry_than_the_one_that_was_read_is_told(world: KafkaWorld) -> None:
    await write(world, 0, 10)
    await world.append_control(1)
    _, behind_control = await world.cluster().log_range(1)
    recorder = Recorder()
    reader = world.reader(recorder)
    reader.follow(0, 5, 1, entry_hash(key(4), b"v4"))
    await world.until(lambda: len(recorder.offsets(0, 1)) == 5)
    reader.follow(0, 10, 2, entry_hash(key(4), b"v4"))
    await world.until(lambda: bool(recorder.broken))
    reader.follow(0, 5, 3, entry_hash(key(4), b"v5"))
    await world.until(lambda: len(recorder.broken) == 2)
    await write(world, 1, 1)
    reader.follow(1, behind_control, 4, entry_hash(key(0), b"v0"))
    await world.until(lambda: len(recorder.broken) == 3)
    assert [item[:3] for item in recorder.broken] == [(0, 2, LogBroken.CUT), (0, 3, LogBroken.CUT), (1, 4, LogBroken.CUT)]
    assert len(recorder.entries) == 5
    await world.delete_records(0, 5)
    reader.follow(0, 5, 5, entry_hash(key(4), b"v5"))
    await world.until(lambda: recorder.offsets(0, 5) == [5, 6, 7, 8, 9])  # the entry before is gone with the beginning of the log
    assert len(recorder.broken) == 3


async def following_at_the_very_end_waits_for_the_next_entry(world: KafkaWorld) -> None:
    await write(world, 0, 10)
    recorder = Recorder()
    reader = world.reader(recorder)
    reader.follow(0, 10, 1)
    await world.settle()
    await write(world, 0, 1, text="next")
    await world.until(lambda: len(recorder.entries) == 1)
    assert recorder.values(0, 1) == [b"next0"]
    assert recorder.broken == []


# ---- TermProducers


async def reports_come_in_order_with_successive_offsets(world: KafkaWorld) -> None:
    await write(world, 2, 3)
    reports: list[Report] = []
    producer = world.producers("a").open(2, noted_in(reports))
    send(producer, 800)
    await world.until(lambda: len(reports) == 800)
    assert reports == [Report(seq, 3 + seq, None) for seq in range(800)]
    send(producer, 5, first=800)
    await world.until(lambda: len(reports) == 805)
    assert reports[800:] == [Report(seq, 3 + seq, None) for seq in range(800, 805)]


async def an_abandoned_producer_reports_nothing_and_leaves_a_prefix(world: KafkaWorld) -> None:
    producers = world.producers("a")
    reports: list[Report] = []
    producer = producers.open(0, noted_in(reports))
    send(producer, 2000)
    seen = len(reports)
    producer.abandon()
    producer.abandon()
    try:
        producer.produce([entry(2000, b"late")])
    except ProduceRefused:
        pass
    else:
        raise AssertionError("an abandoned producer took an entry")
    later: list[Report] = []
    successor = producers.open(0, noted_in(later))
    successor.produce([entry(0, b"claim")])
    await world.until(lambda: len(later) == 1)
    await world.settle()
    assert len(reports) == seen
    _, end = await world.cluster().log_range(0)
    recorder = Recorder()
    world.reader(recorder).follow(0, 0, 1)
    await world.until(lambda: len(recorder.entries) == end)
    landed = [value for value in recorder.values(0, 1) if value != b"claim"]
    assert landed == [f"v{seq}".encode() for seq in range(len(landed))]
    assert later[0].offset == recorder.values(0, 1).index(b"claim")


async def an_entry_that_is_too_large_is_refused_and_nothing_of_it_sent(world: KafkaWorld) -> None:
    reports: list[Report] = []
    producer = world.producers("a").open(0, noted_in(reports))
    producer.produce([entry(0, b"first")])
    refusal = ""
    try:
        producer.produce([entry(1, b"x" * 1_048_588)])
    except ProduceRefused as error:
        refusal = str(error)
    assert "entry 1 of partition 0" in refusal
    producer.produce([entry(1, b"x" * (1_048_588 - 1024))])
    await world.until(lambda: len(reports) == 2)
    assert reports == [Report(0, 0, None), Report(1, 1, None)]


async def two_producers_of_one_partition_see_each_other_in_their_offsets(world: KafkaWorld) -> None:
    first: list[Report] = []
    second: list[Report] = []
    old = world.producers("a").open(0, noted_in(first))
    send(old, 2, text="a")
    await world.until(lambda: len(first) == 2)
    new = world.producers("b").open(0, noted_in(second))
    send(new, 1, text="b")
    await world.until(lambda: len(second) == 1)
    send(old, 1, first=2, text="a")
    await world.until(lambda: len(first) == 3)
    assert [report.offset for report in first] == [0, 1, 3]
    assert [report.offset for report in second] == [2]


# ---- Membership


async def prove(world: KafkaWorld, member: Membership, partition: int) -> Proof:
    answers: list[Proof] = []
    member.prove(partition, answers.append)
    await world.until(lambda: bool(answers))
    return answers[0]


async def prove_finally(world: KafkaWorld, member: Membership, partition: int) -> Proof:
    """Ask until the answer is not ASK_AGAIN, which a rebalance under way may give."""
    while (answer := await prove(world, member, partition)) is Proof.ASK_AGAIN:
        pass
    return answer


async def two_members_share_all_partitions_and_leaving_hands_over(world: KafkaWorld) -> None:
    first, second = Assignments(), Assignments()
    a, b = world.membership("a"), world.membership("b")
    a.join(first)
    await world.until(lambda: first.now == ALL)
    b.join(second)
    await world.until(lambda: len(first.now) == len(second.now) == PARTITIONS // 2)
    assert first.now | second.now == ALL
    kept, given = first.now, second.now
    assert await prove_finally(world, a, min(kept)) is Proof.MEMBER
    assert await prove_finally(world, a, min(given)) is Proof.NOT_A_MEMBER
    assert await prove_finally(world, b, min(given)) is Proof.MEMBER
    a.leave()
    a.leave()
    await world.until(lambda: first.now == frozenset())
    assert await prove(world, a, min(kept)) is Proof.NOT_A_MEMBER
    await world.until(lambda: second.now == ALL)
    assert await prove_finally(world, b, min(kept)) is Proof.MEMBER
    await world.settle()
    assert first.now == frozenset()
    a.join(first)
    await world.until(lambda: len(first.now) == len(second.now) == PARTITIONS // 2)
    assert first.now | second.now == ALL


async def a_member_that_never_joined_proves_nothing(world: KafkaWorld) -> None:
    assert await prove(world, world.membership("a"), 0) is Proof.NOT_A_MEMBER


async def a_silent_loop_leaves_the_group_until_it_is_heard_again(world: KafkaWorld) -> None:
    first, second = Assignments(), Assignments()
    a, b = world.membership("a"), world.membership("b")
    a.join(first)
    await world.until(lambda: first.now == ALL)
    b.join(second)
    await world.until(lambda: len(first.now) == len(second.now) == PARTITIONS // 2)
    world.silence("a")
    await world.until(lambda: first.now == frozenset())
    await world.until(lambda: second.now == ALL)
    a.alive()
    await world.until(lambda: len(first.now) == len(second.now) == PARTITIONS // 2)


async def members_of_the_group_are_known_by_their_client_ids(world: KafkaWorld) -> None:
    async def until_members(*nodes: str) -> None:
        while {client_id.rpartition("-")[2] for client_id in await world.cluster().group_members()} != set(nodes):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    a, b = world.membership("a"), world.membership("b")
    await until_members()
    a.join(Assignments())
    await until_members("a")
    b.join(Assignments())
    await until_members("a", "b")
    a.leave()
    await until_members("b")


# ---- Cluster


async def the_topic_is_described_and_its_id_changes_when_it_is_made_anew(world: KafkaWorld) -> None:
    cluster = world.cluster()
    facts = await cluster.describe_topic()
    assert [item.partition for item in facts.partitions] == list(range(PARTITIONS))
    assert all(item.leader in item.replicas and item.in_sync for item in facts.partitions)
    assert facts.config["retention.ms"] == "-1"
    assert facts.config["cleanup.policy"] == "delete"
    assert len(facts.topic_id) == 16
    assert facts.cluster_id
    assert await cluster.topic_id() == facts.topic_id
    await cluster.create_topic(partitions=1, replication_factor=1, config={})  # exists: left as it is
    assert await cluster.topic_id() == facts.topic_id
    await world.delete_topic()
    await _until_missing(cluster)
    await cluster.create_topic(partitions=PARTITIONS, replication_factor=1, config={"retention.ms": "-1"})
    again = await _when_described(cluster)
    assert again not in (facts.topic_id, bytes(16))


async def the_brokers_in_service_are_those_with_replicas(world: KafkaWorld) -> None:
    cluster = world.cluster()
    brokers = await cluster.brokers()
    facts = await cluster.describe_topic()
    assert [one.broker_id for one in brokers] == sorted({one.broker_id for one in brokers})
    assert {one for item in facts.partitions for one in item.replicas} <= {one.broker_id for one in brokers}
    assert all(one.host and 0 < one.port < 65_536 for one in brokers)


async def a_missing_topic_is_named_in_the_error(world: KafkaWorld) -> None:
    cluster = world.cluster()
    topic = (await cluster.describe_topic()).topic
    await world.delete_topic()
    await _until_missing(cluster)
    message = ""
    try:
        await cluster.describe_topic()
    except TopicMissing as error:
        message = str(error)
    assert topic in message


async def ranges_and_single_entries_are_read_from_the_log(world: KafkaWorld) -> None:
    cluster = world.cluster()
    assert await cluster.log_range(3) == (0, 0)
    assert await cluster.read_entry(3, 0) is None
    await write(world, 3, 10)
    await world.delete_records(3, 4)
    assert await cluster.log_range(3) == (4, 10)
    for offset in (9, 4, 7):
        entry = await cluster.read_entry(3, offset)
        assert entry is not None
        assert entry == LogEntry(offset, entry.timestamp_ms, key(offset), f"v{offset}".encode())
    for offset in (0, 3, 10, 11):
        assert await cluster.read_entry(3, offset) is None


async def many_single_entries_are_read_at_the_same_time(world: KafkaWorld) -> None:
    cluster = world.cluster()
    for partition in (0, 1, 2):
        await write(world, partition, 10)
    await world.delete_records(1, 6)
    await world.append_control(2)
    _, end = await cluster.log_range(2)
    asked = [(partition, offset) for offset in (9, 0, 5) for partition in range(PARTITIONS)] + [(2, end - 1), (2, end), (0, 9)]
    found = await asyncio.gather(*(cluster.read_entry(partition, offset) for partition, offset in asked))
    there = {(0, 0), (0, 5), (0, 9), (1, 9), (2, 0), (2, 5), (2, 9)}
    wanted = {place: (place[1], key(place[1]), f"v{place[1]}".encode()) for place in there} | {(2, end - 1): (end - 1, None, None)}
    assert [None if entry is None else (entry.offset, entry.key, entry.value) for entry in found] == [wanted.get(one) for one in asked]
    await write(world, 2, 1)
    assert (await asyncio.gather(*map(cluster.log_range, range(PARTITIONS)))) == [(0, 10), (6, 10), (0, end + 1), (0, 0)]


async def the_log_is_deleted_before_an_offset(world: KafkaWorld) -> None:
    cluster = world.cluster()
    assert await cluster.delete_before(2, 0) == 0
    await write(world, 2, 10)
    assert await cluster.delete_before(2, 4) == 4
    assert await cluster.log_range(2) == (4, 10)
    assert await cluster.read_entry(2, 3) is None
    assert await cluster.delete_before(2, 3) == 4  # a start never goes back
    assert await _refusal_of(cluster.delete_before(2, 11))
    assert await cluster.log_range(2) == (4, 10)
    recorder = Recorder()
    reader = world.reader(recorder)
    reader.follow(2, 4, 1)
    await world.until(lambda: recorder.offsets(2, 1) == list(range(4, 10)))
    reader.follow(2, 3, 2)
    await world.until(lambda: bool(recorder.broken))
    assert [(partition, generation, why) for partition, generation, why, _ in recorder.broken] == [(2, 2, LogBroken.BELOW_START)]
    assert await cluster.delete_before(2, 10) == 10
    assert await cluster.log_range(2) == (10, 10)
    assert await write(world, 2, 1, text="w") == [10]
    entry = await cluster.read_entry(2, 10)
    assert entry is not None
    assert entry.value == b"w0"


async def _refusal_of(call: Awaitable[object]) -> str:
    try:
        await call
    except ClusterRefused as error:
        return str(error)
    raise AssertionError("nothing was refused")


async def _until_missing(cluster: Cluster) -> None:
    while True:
        try:
            await cluster.topic_id()
        except TopicMissing:
            return


async def _when_described(cluster: Cluster) -> bytes:
    while True:
        try:
            return await cluster.topic_id()
        except TopicMissing:
            continue


Check = Callable[[KafkaWorld], Awaitable[None]]

CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        entries_arrive_in_order_with_keys_values_and_times,
        several_partitions_are_read_side_by_side,
        reading_starts_at_the_offset_asked_for,
        a_new_generation_hears_nothing_of_the_old_one,
        nothing_comes_after_unfollow,
        control_records_are_read_without_key_and_value,
        reading_past_the_end_or_below_the_start_says_which,
        following_behind_another_entry_than_the_one_that_was_read_is_told,
        following_at_the_very_end_waits_for_the_next_entry,
        reports_come_in_order_with_successive_offsets,
        an_abandoned_producer_reports_nothing_and_leaves_a_prefix,
        an_entry_that_is_too_large_is_refused_and_nothing_of_it_sent,
        two_producers_of_one_partition_see_each_other_in_their_offsets,
        two_members_share_all_partitions_and_leaving_hands_over,
        a_member_that_never_joined_proves_nothing,
        a_silent_loop_leaves_the_group_until_it_is_heard_again,
        members_of_the_group_are_known_by_their_client_ids,
        the_topic_is_described_and_its_id_changes_when_it_is_made_anew,
        the_brokers_in_service_are_those_with_replicas,
        a_missing_topic_is_named_in_the_error,
        ranges_and_single_entries_are_read_from_the_log,
        many_single_entries_are_read_at_the_same_time,
        the_log_is_deleted_before_an_offset,
    )
}
