"""What more coordinators bring to a service that has got more nodes: `coordinator grow`, then `partitions move --balance`.

    python -m benchmarks.growth [--nodes N] [--coordinators FROM TO] [--json FILE]

Half of the nodes lead the coordinators of a topic; then all do, and then all with more coordinators, over which its partitions are moved.
CPU is in microseconds per batch of files of 100 at 20 000 batches/s: of all nodes, and of the busiest, which bounds the throughput where
nodes have cores of their own. `predicted` is that of the busiest node by docs/decisions/015-scaling.md: 16.7 us for each batch that it
leads and 2.6 for each that it follows. The columns of saturation are of what this machine's cores carry, which all processes share; what
nodes cost at rest does not count there.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from benchmarks.bed import Row, broker, own_process, say, service, table, write_json
from benchmarks.scaling_parts import light, run, saturating, wait_even
from cli.bench.targets import create_targets, find_targets
from cli.dev.kafka import KafkaCluster
from integration_tests import commands
from integration_tests.service import Service

TOPIC = "grown"
PARTITIONS_OF_EACH = 4
CONNECTIONS = 16
WINDOW_S = 6.0
LEADING_US, FOLLOWING_US = 16.7, 2.6
SOON_MS = "500"


def cost(running: Service, pool: ProcessPoolExecutor, coordinators: int) -> Row:
    """The cost of the nodes as they are, warmed up."""
    nodes = list(running.nodes.values())
    wait_even(nodes, coordinators)
    targets = asyncio.run(find_targets(running.addresses[0], TOPIC, CONNECTIONS))
    run(nodes, pool, light(targets))
    spent = run(nodes, pool, replace(light(targets), window_s=WINDOW_S))
    full = run(nodes, pool, saturating(targets))
    each, each_full = ([sum(one) for one in zip(cost.loop_us, cost.others_us, strict=True)] for cost in (spent, full))
    return {
        "nodes": len(nodes),
        "coordinators": coordinators,
        "all_us": sum(each),
        "busiest_us": max(each),
        "predicted_us": predicted_us(running, coordinators),
        "saturated_all_us": sum(each_full),
        "saturated_busiest_us": max(each_full),
        "saturated_batches_per_s": full.measured.batches / full.measured.window_s,
    }


def predicted_us(running: Service, coordinators: int) -> float:
    """CPU of the busiest node per batch of the service, by what nodes lead and follow."""
    rows = commands.run(running, "coordinator", "list")
    return max(LEADING_US * len(row["leads"]) + FOLLOWING_US * row["follows"] for row in rows) / coordinators


def measure(kafka: KafkaCluster, pool: ProcessPoolExecutor, nodes: int, before: int, after: int) -> list[Row]:
    """See the module's text."""
    with service(kafka, nodes=nodes // 2, metadata_partitions=before, topic_check_interval_ms=SOON_MS) as running:
        asyncio.run(create_targets(running.addresses[0], TOPIC, PARTITIONS_OF_EACH * after, CONNECTIONS))
        rows = [cost(running, pool, before)]
        for node_id in range(nodes // 2 + 1, nodes + 1):
            running.add(node_id).start()
        rows.append(cost(running, pool, before))
        where = ("--kafka-bootstrap-server", kafka.bootstrap, "--metadata-topic", running.topic)
        commands.run(running, "coordinator", "grow", str(after), *where, "--yes", output=False)
        running.properties["diskless.metadata.topic.num.partitions"] = str(after)
        wait_even(list(running.nodes.values()), after)
        began_s = time.perf_counter()
        moved = commands.run(running, "partitions", "move", "--balance")
        say(f"{len(moved)} partitions moved in {time.perf_counter() - began_s:.1f} s")
        rows.append(cost(running, pool, after))
        return rows


def relative(rows: Sequence[Row]) -> list[Row]:
    """The rows with how much more throughput the busiest node allows than in the first one, measured and predicted."""
    first = rows[0]
    return [
        row
        | {
            f"{name}_times": float(str(first[f"{name}_us"])) / float(str(row[f"{name}_us"]))
            for name in ("busiest", "predicted", "saturated_busiest")
        }
        | {"saturated_times": float(str(row["saturated_batches_per_s"])) / float(str(first["saturated_batches_per_s"]))}
        for row in rows
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=8, help="nodes in the end; half of them at first (8)")
    parser.add_argument("--coordinators", type=int, nargs=2, default=(4, 16), metavar=("FROM", "TO"), help="metadata partitions (4 16)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    before, after = options.coordinators
    with broker() as kafka, own_process() as pool:
        rows = relative(measure(kafka, pool, options.nodes, before, after))
    say(table(rows, tuple(rows[0])))
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
