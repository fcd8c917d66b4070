"""The growth of cost, memory and recovery: with user partitions, metadata partitions, nodes and connections.

    python -m benchmarks.scaling [--only partitions|metadata|nodes|connections ...] [--at N ...] [--json FILE]

Prints a table in markdown per dimension, its last line the slope (least squares over the rows; none for nodes), for
docs/decisions/015-scaling.md. CPU is in microseconds per batch of files of 100, 30 % of the batches idempotent, at 20 000
batches/s unless it says saturation; `loop` is the event loop of the leader, `others` its other threads. `restart` is from
the start of the process until it leads everything, with its state databases; `replay` the same without them, from the
log; `written` is how much later the databases are whole again.
Of nodes, `all_us` is the CPU of all of them together, `to_first` beside the first row, `standbys` the setting `standby.replicas` (as
many as there are others: everything follows everything).
`stall` is the longest wait of a small request on a connection of its own meanwhile: other clients wait as long.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np

from benchmarks.bed import Row, broker, own_process, say, service, wait_for, write_json
from benchmarks.process_cost import resident_bytes, thread_cpu
from benchmarks.scaling_parts import (
    MB,
    light,
    recovery,
    run,
    saturating,
    show,
    stalls,
    wait_even,
    wait_written,
)
from benchmarks.wire import Wire
from cli.bench.generator import Target
from cli.bench.targets import create_targets
from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import KafkaCluster
from coordinator.core.tables.in_memory import HotState
from coordinator.kafka.batches import partition_key
from coordinator.protocol.codec import decode
from coordinator.protocol.messages import (
    CreatablePartitions,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeletableTopicState,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    DescribeTopicsTopic,
)
from integration_tests.service import Service
from records.model import PartitionCreated

TOPIC_PARTITIONS_MAX = 100_000
USER_PARTITIONS = (10_000, 100_000, 1_000_000)
METADATA_PARTITIONS = (1, 4, 16, 32)
NODES = (1, 2, 4, 8)
NODE_PARTITIONS = 24
STANDBYS = (1, 2)
NODES_WINDOW_S = 6.0
CONNECTION_COUNTS = (16, 100, 1000)
CONNECTIONS = 16
HOT_PARTITIONS = 100
SPREAD_PARTITIONS = 10_000
LOADED_PARTITIONS = 320
IDLE_S = 3.0
REQUEST_TIMEOUT_MS = 100_000
AFTER_DELETE_S = 3.0


# ---- user partitions


def check(errors: Sequence[int], what: str) -> None:
    """Fail when something was refused."""
    if any(errors):
        raise AssertionError(f"{what} was answered with error {next(filter(None, errors))}")


def create_topics(node: CoordinatorProcess, count: int) -> tuple[list[tuple[bytes, int]], float]:
    """Create topics with so many partitions in all; returns their ids and sizes, and the seconds it took."""
    topics: list[tuple[bytes, int]] = []
    started = time.perf_counter()
    with Wire(node.address) as wire:
        for first in range(0, count, TOPIC_PARTITIONS_MAX):
            topics.append((os.urandom(16), min(TOPIC_PARTITIONS_MAX, count - first)))
            topic = CreatablePartitions(topic_id=topics[-1][0], name=f"scaling-{first}", num_partitions=topics[-1][1])
            body = wire.call(CreatePartitionsRequest(topics=(topic,), timeout_ms=REQUEST_TIMEOUT_MS)).body
            check([one.error_code for one in decode(CreatePartitionsResponse, body).topics], "CreatePartitions")
    wait_for(lambda: node.metric("live_partitions") == count, f"{count} partitions to exist")
    return topics, time.perf_counter() - started


def some_partitions(topics: Sequence[tuple[bytes, int]], count: int) -> list[bytes]:
    """Keys of random partitions of all topics."""
    rng = random.Random(1)
    chosen = rng.choices(topics, [size for _, size in topics], k=count)
    return [partition_key(topic_id, rng.randrange(size)) for topic_id, size in chosen]


def targets_of(node: CoordinatorProcess, keys: list[bytes]) -> list[Target]:
    """Connections that commit to these partitions of coordinator 0."""
    host, _, port = node.address.rpartition(":")
    return [Target(host=host, port=int(port), coordinator_id=0, partition_keys=keys)] * CONNECTIONS


def measure_partitions(kafka: KafkaCluster, pool: ProcessPoolExecutor, counts: Sequence[int]) -> list[Row]:
    """User partitions of one coordinator: 100 of them loaded, then 10 000 random ones."""
    rows: list[Row] = []
    for count in counts:
        with service(kafka) as running:
            node = running.nodes[1]
            empty_mb = resident_bytes(node.pid) / MB
            with stalls(node.address) as creating:
                topics, create_s = create_topics(node, count)
                wait_written([node])
            row: Row = {"user partitions": count, "create_s": create_s, "create_stall_s": creating.longest_s}
            row["memory_mb"] = resident_bytes(node.pid) / MB - empty_mb
            few = run([node], pool, light(targets_of(node, [partition_key(topics[0][0], n) for n in range(HOT_PARTITIONS)])))
            spread = targets_of(node, some_partitions(topics, SPREAD_PARTITIONS))
            many = run([node], pool, light(spread))
            row |= {"loop_us": few.loop_us[0], "others_us": few.others_us[0], "p50_ms": few.measured.percentile_ms(0.5)}
            row |= {"spread_loop_us": many.loop_us[0], "spread_others_us": many.others_us[0]}
            row |= recovery(node, running)
            full = run([node], pool, saturating(spread))
            row["saturated_batches_per_s"] = full.measured.batches / full.measured.window_s
            row |= directory_stalls(node, *topics[0])
        rows.append(row)
        progress(row)
    return rows


def directory_stalls(node: CoordinatorProcess, topic_id: bytes, size: int) -> Row:
    """The wait of all clients while a topic (of 10 000 or 100 000 partitions) is described and deleted."""
    row: Row = {}
    with Wire(node.address) as wire:
        with stalls(node.address) as describing:
            body = wire.call(DescribeTopicsRequest(topics=(DescribeTopicsTopic(topic_id=topic_id, name=None),))).body
        check([one.error_code for one in decode(DescribeTopicsResponse, body).topics], "DescribeTopics")
        row["describe_stall_s"] = describing.longest_s
        left = node.metric("live_partitions") - size
        with stalls(node.address) as deleting:
            topics = (DeletableTopicState(topic_id=topic_id),)
            body = wire.call(DeleteTopicsRequest(topics=topics, timeout_ms=REQUEST_TIMEOUT_MS)).body
            time.sleep(AFTER_DELETE_S)  # batches are counted out on the side, which begins behind the answer
        check([one.error_code for one in decode(DeleteTopicsResponse, body).responses], "DeleteTopics")
        row["delete_stall_s"] = deleting.longest_s
    if node.metric("live_partitions") != left:
        raise AssertionError(f"{node.metric('live_partitions'):.0f} partitions live after the deletion, not {left:.0f}")
    return row


def measure_hot_state(counts: Sequence[int]) -> list[Row]:
    """In this process: the copy of the hot state that every start of a leadership makes on the event loop."""
    rows: list[Row] = []
    for count in counts:
        state = HotState()
        for first in range(0, count, TOPIC_PARTITIONS_MAX):
            wanted = min(TOPIC_PARTITIONS_MAX, count - first)
            name = f"t{first}"
            record = PartitionCreated(topic_id=os.urandom(16), name=name, first_partition=0, num_partitions=wanted, order_offset=1)
            state.apply(record, 0)
        row: Row = {"rows": count, "copy_partitions_ms": copy_ms(state)}
        producers = HotState()
        for number in range(count):
            producers.producers.restore(number, number // 3, number, 0, 1, np.array([(0, 9, 0, -1)], np.int64))
        producers.producers.restored()
        row["copy_producers_ms"] = copy_ms(producers)
        rows.append(row)
        progress(row)
    return rows


def copy_ms(state: HotState) -> float:
    """Milliseconds of CPU of one copy."""
    started = time.thread_time()
    state.copy()
    return (time.thread_time() - started) * 1000


# ---- metadata partitions of a process


def measure_metadata(kafka: KafkaCluster, pool: ProcessPoolExecutor, counts: Sequence[int]) -> list[Row]:
    """Coordinators in one process, all of them loaded."""
    rows: list[Row] = []
    for count in counts:
        with service(kafka, metadata_partitions=count) as running:
            node = running.nodes[1]
            row: Row = {"metadata partitions": count, "idle_cpu_percent": idle_percent([node])}
            row["memory_mb"] = resident_bytes(node.pid) / MB
            targets = asyncio.run(create_targets(node.address, "scaling", LOADED_PARTITIONS, max(CONNECTIONS, count)))
            row |= cost_of(node, pool, targets)
            row |= recovery(node, running)
            full = run([node], pool, saturating(targets))
            row |= {"saturated_batches_per_s": full.measured.batches / full.measured.window_s, "saturated_loop_us": full.loop_us[0]}
        rows.append(row)
        progress(row)
    return rows


def cost_of(node: CoordinatorProcess, pool: ProcessPoolExecutor, targets: Sequence[Target]) -> Row:
    """The light load."""
    cost = run([node], pool, light(targets))
    latencies = {"p50_ms": cost.measured.percentile_ms(0.5), "p99_ms": cost.measured.percentile_ms(0.99)}
    return {"loop_us": cost.loop_us[0], "others_us": cost.others_us[0], **latencies}


def idle_percent(nodes: Sequence[CoordinatorProcess]) -> float:
    """CPU of the nodes without any load, as percent of a core for each."""
    before = [thread_cpu(node.pid) for node in nodes]
    started = time.perf_counter()
    time.sleep(IDLE_S)
    seconds = time.perf_counter() - started
    used = sum(thread_cpu(node.pid).since(earlier).total_s for node, earlier in zip(nodes, before, strict=True))
    return used / seconds / len(nodes) * 100


# ---- nodes


def measure_nodes(kafka: KafkaCluster, pool: ProcessPoolExecutor, counts: Sequence[int]) -> list[Row]:
    """Nodes that share 24 coordinators, with one standby, with two, and with as many as there are others; and one node alone."""
    rows: list[Row] = []
    for count in counts:
        for standbys in sorted({min(wanted, count - 1) for wanted in (*STANDBYS, count - 1)}):
            with service(kafka, nodes=count, metadata_partitions=NODE_PARTITIONS, standby_replicas=str(standbys)) as running:
                nodes = list(running.nodes.values())
                wait_even(nodes, NODE_PARTITIONS)
                row: Row = {"nodes": count, "standbys": standbys, **cost_of_nodes(running, pool)}
                row["memory_mb"] = sum(resident_bytes(node.pid) for node in nodes) / MB / count
            alone = rows[0] if rows else row
            row["to_first"] = float(str(row["all_us"])) / float(str(alone["all_us"]))
            rows.append(row)
            progress(row)
    for row in rows:
        if row["nodes"] == max(NODES) and row["standbys"] == STANDBYS[0]:
            say(f"CPU per batch of {row['nodes']} nodes to that of the first row: {row['to_first']:.2f} (aim: <= 1.5)")
    return rows


def cost_of_nodes(running: Service, pool: ProcessPoolExecutor) -> Row:
    """The cost of nodes at rest, at the same load for any number of them, and at saturation."""
    nodes = list(running.nodes.values())
    targets = asyncio.run(create_targets(running.addresses[0], "scaling", LOADED_PARTITIONS, CONNECTIONS))
    run(nodes, pool, light(targets))
    row: Row = {"idle_cpu_percent": idle_percent(nodes) * len(nodes)}
    cost = run(nodes, pool, replace(light(targets), window_s=NODES_WINDOW_S))
    row |= {"all_us": sum(cost.loop_us) + sum(cost.others_us), "loops_us": sum(cost.loop_us)}
    row |= {"p50_ms": cost.measured.percentile_ms(0.5), "p99_ms": cost.measured.percentile_ms(0.99)}
    full = run(nodes, pool, saturating(targets))
    row |= {"saturated_us": sum(full.loop_us) + sum(full.others_us)}
    row["saturated_batches_per_s"] = full.measured.batches / full.measured.window_s
    return row


# ---- connections


def measure_connections(kafka: KafkaCluster, pool: ProcessPoolExecutor, counts: Sequence[int]) -> list[Row]:
    """Connections to one process."""
    rows: list[Row] = []
    with service(kafka) as running:
        node = running.nodes[1]
        targets = asyncio.run(create_targets(node.address, "scaling", HOT_PARTITIONS, max(counts)))
        for count in counts:
            row: Row = {"connections": count, **cost_of(node, pool, targets[:count]), "memory_mb": resident_bytes(node.pid) / MB}
            full = run([node], pool, saturating(targets[:count]))
            row |= {"saturated_batches_per_s": full.measured.batches / full.measured.window_s, "saturated_loop_us": full.loop_us[0]}
            row |= {"saturated_p50_ms": full.measured.percentile_ms(0.5), "saturated_p99_ms": full.measured.percentile_ms(0.99)}
            rows.append(row)
            progress(row)
    return rows


def progress(row: Row) -> None:
    """One line while the rest is measured."""
    (name, value), *others = row.items()
    say(f"{value:,} {name}: " + ", ".join(f"{key} {float(str(figure)):.2f}" for key, figure in others))


Measure = Callable[[KafkaCluster, ProcessPoolExecutor, Sequence[int]], list[Row]]

DIMENSIONS: dict[str, tuple[str, Measure, Sequence[int], int, str]] = {
    "partitions": ("User partitions of a coordinator", measure_partitions, USER_PARTITIONS, 100_000, "100 000"),
    "metadata": ("Metadata partitions of a process", measure_metadata, METADATA_PARTITIONS, 1, "1"),
    "nodes": ("Nodes that share 24 metadata partitions", measure_nodes, NODES, 0, ""),
    "connections": ("Connections of a process", measure_connections, CONNECTION_COUNTS, 100, "100"),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(DIMENSIONS), help="only these (repeatable)")
    parser.add_argument("--at", type=int, action="append", metavar="N", help="these values instead of the usual ones (repeatable)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    done: dict[str, list[Row]] = {}
    with broker() as kafka, own_process() as pool:
        for name, (title, measure, counts, unit, unit_name) in DIMENSIONS.items():
            if options.only and name not in options.only:
                continue
            done[name] = measure(kafka, pool, options.at or counts)
            show(title, done[name], unit, unit_name)
            if name == "partitions":
                done["hot state"] = measure_hot_state(options.at or counts)
                show("The copy at the start of a leadership (CPU, in one process)", done["hot state"], unit, unit_name)
    write_json(options.json, done)


if __name__ == "__main__":
    main()
