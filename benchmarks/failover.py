"""The wait of clients when a leader is killed, frozen, or stopped cleanly; and the cost of a standby.

    python -m benchmarks.failover [--rounds N] [--only KIND ...] [--json FILE]

Three coordinator processes share 6 metadata partitions. Clients of the Python library in a process of their own commit
small files to a user partition of each, one after the other, all the time; the outage of a coordinator is the longest
time between two acknowledgements around the fault. In every round one process is killed (SIGKILL), frozen (SIGSTOP,
woken when others lead) or stopped (SIGTERM), and brought back before the next round. A frozen process keeps its
connections, so a client turns away only after its own `--request-timeout-ms`. Kafka replaces a dead or frozen
member only after `session.timeout.ms` (6 s, the least a broker allows by default), so that is most of what is seen.
Joining: a node is added to three that hold batches; commits of the coordinators that move to it wait while leadership changes.
The standby: two processes, one metadata partition, 20 000 batches/s and saturation in files of 100; CPU of the process
that follows as a share of the leader's, until the standby has applied and written everything.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from typing import TypeAlias

from benchmarks.bed import Row, broker, own_process, say, service, table, wait_for, write_json
from benchmarks.process_cost import thread_cpu
from cli.bench.generator import Load, Target, run_load
from cli.bench.targets import CLIENT_ID, create_targets
from cli.bench.workload import Shape
from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import KafkaCluster
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from coordinator.client.records.ulid import new_ulid
from integration_tests.service import Service
from tests.commit_batches import commit_batch

NODES = 3
METADATA_PARTITIONS = 6
COMMIT_EVERY_S = 0.01
SETTLED_S = 1.0
STOP_TIMEOUT_S = 30.0
BATCH_BYTES = 4096
KINDS = ("kill", "freeze", "stop")
JOIN_LOAD_S = 10.0
JOIN_BAR_MS = 300
STANDBY_BAR = 0.15
STANDBY_LOADS = (("20,000 batches/s", 200.0), ("saturation", 0.0))
STANDBY_WARM_UP_S = 5.0
"""A load before the first that is measured: a node that has just joined still takes over, and a broker compiles."""
STANDBY_WINDOW_S = 20.0
"""The time of a window: four times the pause of a follower of a busy log between two writes."""
STANDBY_LOOK_S = 0.25
"""The pause between two looks at /metrics, each of which costs the process as much as a hundred batches."""

Acks: TypeAlias = "Queue[tuple[int, float]]"


# ---- the clients, in a process of their own


def run_clients(servers: str, request_timeout_ms: int, acks: Acks, stopped: Event) -> None:
    """Commit until `stopped`; every acknowledgement is put as (coordinator, time)."""
    asyncio.run(_commit_all(servers, request_timeout_ms, acks, stopped))


async def _commit_all(servers: str, request_timeout_ms: int, acks: Acks, stopped: Event) -> None:
    async with DisklessClient(servers, client_id=CLIENT_ID, request_timeout_ms=request_timeout_ms) as client:
        created = await client.admin.create_topic("failover", METADATA_PARTITIONS * 2)
        described = await client.describe_topic(created.topic_id)
        chosen = {one.coordinator_id: PartitionId(created.topic_id, one.partition) for one in described.partitions}
        await asyncio.gather(*(_commit(client, owner, partition, acks, stopped) for owner, partition in chosen.items()))


async def _commit(client: DisklessClient, owner: int, partition: PartitionId, acks: Acks, stopped: Event) -> None:
    while not stopped.is_set():
        now_ms = time.time_ns() // 1_000_000
        batch = commit_batch(partition.topic_id, partition.partition, records=10, size=BATCH_BYTES, timestamp_ms=now_ms)
        outcome = await client.commit_file(f"wal/{new_ulid(now_ms, os.urandom(10))}", BATCH_BYTES, [batch])
        outcome.raise_for_errors()
        acks.put((owner, time.monotonic()))
        await asyncio.sleep(COMMIT_EVERY_S)


class Clients:
    """The acknowledgements so far, by coordinator; times are those of the monotonic clock, which processes share."""

    def __init__(self, acks: Acks) -> None:
        self._acks = acks
        self.at_s: dict[int, list[float]] = {owner: [] for owner in range(METADATA_PARTITIONS)}

    def look(self) -> None:
        """Take the acknowledgements that have come."""
        while not self._acks.empty():
            owner, at_s = self._acks.get()
            self.at_s[owner].append(at_s)

    def wait_flowing(self, since_s: float) -> None:
        """Wait until every coordinator has acknowledged something that late."""

        def all_flow() -> bool:
            self.look()
            return all(times and times[-1] > since_s for times in self.at_s.values())

        wait_for(all_flow, "every coordinator to acknowledge commits")

    def outages_s(self, owners: Sequence[int], start_s: float) -> list[float]:
        """The longest time without an acknowledgement since a moment, per coordinator."""
        self.look()
        longest = []
        for owner in owners:
            times = [at_s for at_s in self.at_s[owner] if at_s > start_s - SETTLED_S]
            longest.append(max((after - before for before, after in pairwise(times)), default=float("nan")))
        return longest


@contextmanager
def clients(servers: str, request_timeout_ms: int) -> Iterator[Clients]:
    """Clients that commit all the while."""
    context = multiprocessing.get_context("spawn")
    acks: Acks = context.Queue()
    stopped = context.Event()
    process = context.Process(target=run_clients, args=(servers, request_timeout_ms, acks, stopped), daemon=True)
    process.start()
    made = Clients(acks)
    try:
        made.wait_flowing(0.0)
        yield made
    finally:
        stopped.set()
        process.join(1)
        process.kill()
        process.join()


# ---- faults


def led_by(node: CoordinatorProcess) -> list[int]:
    """The coordinators a node leads, by its own account."""
    leading = node.readiness()[1].get("leading", [])
    assert isinstance(leading, list)
    return leading


@dataclass(frozen=True, slots=True, kw_only=True)
class Outages:
    """Seconds without an acknowledgement of the coordinators that a node led, and of the others; until others led them."""

    led_s: list[float]
    others_s: list[float]
    taken_over_s: float


def one_round(running: Service, seen: Clients, kind: str, node: CoordinatorProcess) -> Outages:
    """Measure the wait of clients by a fault of the node, which is back afterwards."""
    led = led_by(node)
    seen.wait_flowing(time.monotonic())
    start_s = time.monotonic()
    if kind == "kill":
        node.kill()
    elif kind == "freeze":
        node.pause()
    else:
        node.request_stop()
    others = [one for one in running.nodes.values() if one is not node]
    wait_for(lambda: sum(len(led_by(one)) for one in others) == METADATA_PARTITIONS, "the other nodes to lead everything")
    taken_over_s = time.monotonic() - start_s
    seen.wait_flowing(time.monotonic())
    bystanders = [partition for partition in range(METADATA_PARTITIONS) if partition not in led]
    outages = Outages(led_s=seen.outages_s(led, start_s), others_s=seen.outages_s(bystanders, start_s), taken_over_s=taken_over_s)
    if kind == "freeze":
        node.resume()
    else:
        if kind == "stop" and not node.wait_ended(STOP_TIMEOUT_S):
            raise TimeoutError(f"node {node.node_id} did not end within {STOP_TIMEOUT_S:g} s\n{node.log_tail()}")
        node.start()
    running.wait_shared(60)
    seen.wait_flowing(time.monotonic())
    return outages


def measure_faults(kafka: KafkaCluster, kinds: Sequence[str], rounds: int, request_timeout_ms: int) -> list[Row]:
    """All rounds of all kinds, taken in turn."""
    seen: dict[str, list[Outages]] = {kind: [] for kind in kinds}
    with (
        service(kafka, nodes=NODES, metadata_partitions=METADATA_PARTITIONS) as running,
        clients(",".join(running.addresses), request_timeout_ms) as acknowledged,
    ):
        for number in range(rounds):
            for place, kind in enumerate(kinds):
                node = running.nodes[(number + place) % NODES + 1]
                outages = one_round(running, acknowledged, kind, node)
                seen[kind].append(outages)
                what = " ".join(f"{one:.2f}" for one in outages.led_s)
                say(f"round {number + 1}, {kind} of node {node.node_id}: {what} s; led elsewhere after {outages.taken_over_s:.2f} s")
    return [fault_row(kind, outages) for kind, outages in seen.items()]


def fault_row(kind: str, outages: Sequence[Outages]) -> Row:
    """One line of the table."""
    led = [one for outage in outages for one in outage.led_s]
    others = [one for outage in outages for one in outage.others_s]
    return {
        "fault": kind,
        "outages": len(led),
        "median_s": statistics.median(led),
        "min_s": min(led),
        "max_s": max(led),
        "led_elsewhere_s": statistics.median(outage.taken_over_s for outage in outages),
        "others_median_s": statistics.median(others),
        "others_max_s": max(others),
    }


# ---- a node that joins


def measure_join(kafka: KafkaCluster, request_timeout_ms: int) -> list[Row]:
    """A node joins: what it comes to lead it warms up first, so commits wait for a change of leader alone."""
    with (
        service(kafka, nodes=NODES, metadata_partitions=METADATA_PARTITIONS) as running,
        own_process() as generator,
    ):
        targets = asyncio.run(create_targets(running.addresses[0], "held", 100, METADATA_PARTITIONS))
        generator.submit(run_load, standby_load(targets, 0.0, JOIN_LOAD_S)).result()
        with clients(",".join(running.addresses), request_timeout_ms) as acknowledged:
            acknowledged.wait_flowing(time.monotonic())
            start_s = time.monotonic()
            new = running.add(NODES + 1)
            new.start()
            share = METADATA_PARTITIONS // (NODES + 1)
            wait_for(lambda: len(led_by(new)) >= share, "the new node to lead its share")
            shared_s = time.monotonic() - start_s
            time.sleep(SETTLED_S)
            moved = led_by(new)
            acknowledged.wait_flowing(time.monotonic())
            others = [partition for partition in range(METADATA_PARTITIONS) if partition not in moved]
            freezes_s = acknowledged.outages_s(moved, start_s)
            return [
                {
                    "moved": len(moved),
                    "led_after_s": shared_s,
                    "freeze_median_ms": 1000 * statistics.median(freezes_s),
                    "freeze_max_ms": 1000 * max(freezes_s),
                    "others_max_ms": 1000 * max(acknowledged.outages_s(others, start_s)),
                    "bar_ms": JOIN_BAR_MS,
                    "reached": "yes" if 1000 * max(freezes_s) < JOIN_BAR_MS else "NO",
                }
            ]


# ---- the standby


def measure_standby(kafka: KafkaCluster) -> list[Row]:
    """A leader and a standby under load."""
    rows: list[Row] = []
    with service_of_two(kafka) as running, own_process() as generator:
        leader = next(node for node in running.nodes.values() if led_by(node))
        standby = next(node for node in running.nodes.values() if node is not leader)
        targets = asyncio.run(create_targets(leader.address, "standby", 100, 16))
        generator.submit(run_load, standby_load(targets, STANDBY_LOADS[0][1], STANDBY_WARM_UP_S)).result()
        for name, rate in STANDBY_LOADS:
            wait_for_written(leader, standby)
            before = thread_cpu(leader.pid), thread_cpu(standby.pid)
            batches = leader.metric("batches_total")
            measured = generator.submit(run_load, standby_load(targets, rate, STANDBY_WINDOW_S)).result()
            done_s = time.perf_counter()
            wait_for_written(leader, standby)
            behind_s = time.perf_counter() - done_s
            led, followed = thread_cpu(leader.pid).since(before[0]), thread_cpu(standby.pid).since(before[1])
            us = 1e6 / (leader.metric("batches_total") - batches)
            share = followed.total_s / led.total_s
            rows.append(
                {
                    "load": name,
                    "batches_per_s": round(measured.batches / measured.window_s),
                    "leader_us": led.total_s * us,
                    "standby_us": followed.total_s * us,
                    "standby_loop_us": followed.main_s * us,
                    "share": share,
                    "bar": f"< {STANDBY_BAR:g}",
                    "reached": "yes" if share < STANDBY_BAR else "NO",
                    "behind_s": behind_s,
                }
            )
    return rows


def standby_load(targets: Sequence[Target], files_per_s: float, window_s: float) -> Load:
    """Files of 100 batches, at a rate, or (0) as many as the leader takes."""
    return Load(shape=Shape(batches_per_file=100, partitions=100), targets=targets, depth=8, rate=files_per_s, window_s=window_s)


@contextmanager
def service_of_two(kafka: KafkaCluster) -> Iterator[Service]:
    """One metadata partition: one node leads it, and the other follows. (Such a service is never shared by all its nodes.)"""
    with service(kafka) as running:
        second = running.add(2)
        second.start()
        second.wait_serving()
        wait_for(lambda: bool(second.readiness()[1].get("joined")), "the standby to join")
        yield running


def wait_for_written(leader: CoordinatorProcess, standby: CoordinatorProcess) -> None:
    """Wait until both have applied and written all entries that the log has now."""
    end = leader.metric("log_end_offset")

    def is_written() -> bool:
        return all(node.metric("state_applied_offset") >= end for node in (standby, leader))

    wait_for(is_written, "leader and standby to have written everything", look_every_s=STANDBY_LOOK_S)


FAULT_COLUMNS = ("fault", "outages", "median_s", "min_s", "max_s", "led_elsewhere_s", "others_median_s", "others_max_s")
JOIN_COLUMNS = ("moved", "led_after_s", "freeze_median_ms", "freeze_max_ms", "others_max_ms", "bar_ms", "reached")
STANDBY_COLUMNS = ("load", "batches_per_s", "leader_us", "standby_us", "standby_loop_us", "share", "bar", "reached", "behind_s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=[*KINDS, "join", "standby"], help="only these (repeatable)")
    parser.add_argument("--request-timeout-ms", type=int, default=10_000, help="of the clients; the library's default")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    wanted = options.only or [*KINDS, "join", "standby"]
    kinds = [kind for kind in KINDS if kind in wanted]
    with broker() as kafka:
        faults = measure_faults(kafka, kinds, options.rounds, options.request_timeout_ms) if kinds else []
        join = measure_join(kafka, options.request_timeout_ms) if "join" in wanted else []
        standby = measure_standby(kafka) if "standby" in wanted else []
    if faults:
        say(f"\nseconds without an acknowledgement, per coordinator that was led by the node:\n{table(faults, FAULT_COLUMNS)}")
    if join:
        say(f"\nwait for an acknowledgement while coordinators move to a node that joins:\n{table(join, JOIN_COLUMNS)}")
    if standby:
        say(f"\nCPU microseconds per batch:\n{table(standby, STANDBY_COLUMNS)}")
    write_json(options.json, {"faults": faults, "join": join, "standby": standby})


if __name__ == "__main__":
    main()
