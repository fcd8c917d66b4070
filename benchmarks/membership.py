"""What members of a group hear, and when: the service's own member beside confluent-kafka's consumer with `cooperative-sticky`.

    python -m benchmarks.membership [--rounds N] [--json FILE]

A Kafka of one broker, and up to four members of either kind in processes of their own, which only note what they are assigned of 12
partitions. Session 6 s, heartbeat 250 ms. The service's member pretends that it leads at once what it is assigned, and that its replicas
are warm at once. Printed are, as medians of the rounds, seconds from the event until all members that live have the final assignment, and
the longest time for which a partition was in nobody's assignment meanwhile. `paused` is a broker frozen for 8 s: how many members lost all
that they were assigned, and for how long a partition was nobody's, the most of all rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from typing import TypeAlias

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.bed import Row, broker, say, table, wait_for, write_json
from benchmarks.process_cost import thread_cpu
from cli.dev.kafka import KafkaCluster
from coordinator.adapters.kafka.member.membership import KafkaMembership
from coordinator.core.assignor.group import GroupAssignment
from coordinator.core.assignor.member import GroupMember

PARTITIONS = 12
MEMBERS = 4
SESSION_MS, HEARTBEAT_MS = 6_000, 250
PAUSE_S = 8.0
REST_S = 3.0
"""The time in which whatever follows an event comes: a new round, a lost assignment."""
OURS, THEIRS = "own member", "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class Heard:
    """A member has these partitions since a time of the monotonic clock, which processes share."""

    node_id: int
    at_s: float
    partitions: frozenset[int]


Reports: TypeAlias = "Queue[Heard]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What a process needs to be a member."""

    kind: str
    bootstrap: str
    topic: str
    group_id: str
    node_id: int


# ---- in the processes of members


def be_member(seat: Seat, reports: Reports, stopped: Event) -> None:
    """Be a member until `stopped`, then leave."""
    if seat.kind == OURS:
        asyncio.run(_be_own_member(seat, reports, stopped))
    else:
        _be_consumer(seat, reports, stopped)


class Listener:
    """Reports what it is assigned, and pretends to lead and follow it at once."""

    def __init__(self, seat: Seat, reports: Reports) -> None:
        self._seat, self._reports = seat, reports
        self._follows: frozenset[int] = frozenset()
        self.membership: KafkaMembership

    def on_assignment(self, assignment: GroupAssignment) -> None:
        """Take an assignment."""
        self._reports.put(Heard(self._seat.node_id, time.monotonic(), assignment.leads))
        self.tell(assignment)
        if assignment.follows - self._follows:
            self.membership.refresh("replicas are warm")
        self._follows = assignment.follows

    def tell(self, assignment: GroupAssignment) -> None:
        """Tell the others."""
        leads, follows = dict.fromkeys(assignment.leads, 1), dict.fromkeys(assignment.follows, 0)
        self.membership.tell(GroupMember(node_id=self._seat.node_id, leads=leads, follows=follows), PARTITIONS)


async def _be_own_member(seat: Seat, reports: Reports, stopped: Event) -> None:
    listener = Listener(seat, reports)
    listener.membership = KafkaMembership(
        loop=asyncio.get_running_loop(),
        bootstrap_servers=seat.bootstrap,
        topic=seat.topic,
        group_id=seat.group_id,
        client_id=f"member-{seat.node_id}",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    listener.tell(GroupAssignment(frozenset(), frozenset(), {}))
    listener.membership.start()
    listener.membership.join(listener)
    while not stopped.is_set():
        listener.membership.alive()
        await asyncio.to_thread(stopped.wait, 0.5)
    await listener.membership.close()


def _be_consumer(seat: Seat, reports: Reports, stopped: Event) -> None:
    mine: set[int] = set()
    consumer = Consumer(
        {
            "bootstrap.servers": seat.bootstrap,
            "group.id": seat.group_id,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "log_level": 0,
        }
    )

    def report() -> None:
        reports.put(Heard(seat.node_id, time.monotonic(), frozenset(mine)))

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        mine.update(one.partition for one in partitions)
        report()

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        mine.difference_update(one.partition for one in partitions)
        report()
        consumer.incremental_unassign(partitions)

    consumer.subscribe([seat.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not stopped.is_set():
        consumer.poll(0.05)
    consumer.close()
    report()


# ---- the group


@dataclass(slots=True)
class Member:
    """A member's process."""

    process: BaseProcess
    stopped: Event


@dataclass(slots=True)
class Group:
    """The members of a group, and what they have heard."""

    kafka: KafkaCluster
    kind: str
    reports: Reports
    topic: str
    group_id: str = field(default_factory=lambda: f"membership-{uuid.uuid4().hex[:8]}")
    members: dict[int, Member] = field(default_factory=dict)
    heard: list[Heard] = field(default_factory=list)

    def join(self, node_id: int) -> None:
        """Start a member."""
        context = multiprocessing.get_context("spawn")
        seat = Seat(kind=self.kind, bootstrap=self.kafka.bootstrap, topic=self.topic, group_id=self.group_id, node_id=node_id)
        stopped = context.Event()
        process = context.Process(target=be_member, args=(seat, self.reports, stopped), daemon=True)
        process.start()
        self.members[node_id] = Member(process, stopped)

    def take_out(self, node_id: int, *, by_kill: bool) -> None:
        """Kill a member, or let it leave."""
        member = self.members.pop(node_id)
        if by_kill:
            member.process.kill()
        else:
            member.stopped.set()

    def close(self) -> None:
        """End all members."""
        for member in self.members.values():
            member.stopped.set()
        for member in self.members.values():
            member.process.join(5)
            member.process.kill()

    def look(self) -> None:
        """Take what has been heard."""
        while not self.reports.empty():
            self.heard.append(self.reports.get())

    def owned(self) -> list[frozenset[int]]:
        """The partitions of each member that lives."""
        self.look()
        now = {one.node_id: one.partitions for one in self.heard}
        return [now.get(node_id, frozenset()) for node_id in self.members]

    def is_even(self) -> bool:
        """Whether each partition is with one member, and all have as many within one."""
        sizes = [len(one) for one in self.owned()]
        return sum(sizes) == PARTITIONS == len(frozenset().union(*self.owned())) and max(sizes) - min(sizes) <= 1

    def last_s(self, since_s: float) -> float:
        """Seconds from a moment to the last change that was heard of."""
        seen: dict[int, frozenset[int]] = {}
        last_s = since_s
        for one in sorted(self.heard, key=lambda one: one.at_s):
            if one.at_s > since_s and seen.get(one.node_id) != one.partitions and one.node_id in self.members:
                last_s = one.at_s
            seen[one.node_id] = one.partitions
        return last_s - since_s

    def hole_s(self, since_s: float, without: int | None = None) -> float:
        """The longest time since a moment in which a partition was in nobody's assignment; `without` died then."""
        of: dict[int, frozenset[int]] = {}
        free_since: dict[int, float] = {}
        longest_s = 0.0
        for one in [*sorted(self.heard, key=lambda one: one.at_s), Heard(-1, time.monotonic(), frozenset())]:
            if one.at_s > since_s and without in of:
                free_since.update(dict.fromkeys(of.pop(without), since_s))
            if one.node_id != without or one.at_s <= since_s:
                of[one.node_id] = one.partitions
            owned = frozenset().union(*of.values())
            for partition in range(PARTITIONS):
                if partition not in owned:
                    free_since.setdefault(partition, one.at_s)
                elif (from_s := free_since.pop(partition, None)) is not None and one.at_s > since_s:
                    longest_s = max(longest_s, one.at_s - max(from_s, since_s))
        return longest_s


@contextmanager
def group(kafka: KafkaCluster, kind: str) -> Iterator[Group]:
    """A group on a topic of its own, without members."""
    topic = f"membership-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    made = Group(kafka, kind, multiprocessing.get_context("spawn").Queue(), topic)
    try:
        yield made
    finally:
        made.close()


# ---- events


def settle(members: Group, since_s: float) -> float:
    """Wait until the assignment is final; return the seconds that took."""
    wait_for(members.is_even, "an even assignment")
    while members.last_s(since_s) + since_s > time.monotonic() - 1.0 or not members.is_even():
        time.sleep(0.05)
        members.look()
    return members.last_s(since_s)


def measure_round(members: Group) -> Row:
    """Four members join one after the other; one leaves, one is killed; the broker is frozen."""
    row: Row = {}
    members.join(1)
    settle(members, time.monotonic())
    joins, holes = [], []
    for node_id in range(2, MEMBERS + 1):
        members.join(node_id)
        wait_for(lambda node_id=node_id: any(one.node_id == node_id for one in members.heard) or members.look(), "it to hear")  # type: ignore[misc,func-returns-value]
        since_s = min(one.at_s for one in members.heard if one.node_id == node_id)
        joins.append(settle(members, since_s))
        holes.append(members.hole_s(since_s))
    row |= {"join_s": statistics.median(joins), "join_hole_s": max(holes)}
    for name, by_kill in (("leave", False), ("kill", True)):
        node_id = max(members.members)
        since_s = time.monotonic()
        members.take_out(node_id, by_kill=by_kill)
        row[f"{name}_s"] = settle(members, since_s)
        row[f"{name}_hole_s"] = members.hole_s(since_s, node_id if by_kill else None)
    row |= measure_pause(members)
    row["idle_cpu_percent"] = measure_idle(members)
    return row


def measure_pause(members: Group) -> Row:
    """Freeze the broker for 8 s."""
    since_s, before = time.monotonic(), len(members.heard)
    members.kafka.pause(1)
    time.sleep(PAUSE_S)
    members.kafka.resume(1)
    wait_for(members.is_even, "an even assignment")
    time.sleep(REST_S)
    settle(members, since_s)
    lost = sum(not one.partitions for one in members.heard[before:])
    return {"paused_lost": lost, "paused_hole_s": members.hole_s(since_s)}


def measure_idle(members: Group) -> float:
    """CPU of a member at rest, as percent of a core."""
    pids = [one.process.pid for one in members.members.values() if one.process.pid is not None]
    before = [thread_cpu(pid).total_s for pid in pids]
    started = time.perf_counter()
    time.sleep(REST_S)
    used = sum(thread_cpu(pid).total_s for pid in pids) - sum(before)
    return used / (time.perf_counter() - started) / len(pids) * 100


def medians(kind: str, rounds: Sequence[Row]) -> Row:
    """One line of the table."""
    row: Row = {"member": kind, "rounds": len(rounds)}
    for name in rounds[0]:
        of_rounds = [float(str(one[name])) for one in rounds]
        row[name] = max(of_rounds) if name.startswith("paused") else statistics.median(of_rounds)
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    rounds: dict[str, list[Row]] = {OURS: [], THEIRS: []}
    with broker() as kafka:
        for number in range(options.rounds):
            for kind, measured in rounds.items():
                with group(kafka, kind) as members:
                    measured.append(measure_round(members))
                say(f"round {number + 1}, {kind}: " + ", ".join(f"{name} {float(str(one)):.2f}" for name, one in measured[-1].items()))
    rows = [medians(kind, measured) for kind, measured in rounds.items()]
    say(f"\n{table(rows, tuple(rows[0]))}")
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
