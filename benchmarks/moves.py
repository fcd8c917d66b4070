"""For how long a partition takes no batches while it moves to another coordinator, by how many live batches it has.

    python -m benchmarks.moves [--batches N ...] [--moves N] [--json FILE]

A real broker and two nodes with a coordinator each. Partitions get so many batches in files of 10 000; then a client commits to each, one
batch in a file after the other, while it moves. `alone` is the longest time between two acknowledgements in a second before the move,
`frozen` the same around it, `order` from the order to the end of the move as a client sees it: milliseconds, medians over the moves.
`frozen_times` is `frozen` beside that of the first row.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from itertools import count

import numpy as np

from benchmarks.bed import Row, broker, say, service, table, wait_for, write_json
from coordinator.client.calls.moves import PartitionMove
from coordinator.client.client import DisklessClient
from coordinator.client.model import PartitionId
from coordinator.kafka.errors import ErrorCode
from coordinator.protocol.commit_file import BATCH
from records.levels import LEVEL_LATEST

FILE_BATCHES = 10_000
BATCH_BYTES = 100
ALONE_S = 1.0
AFTER_S = 0.5
RETRY_S = 0.002
AIM_MS = 500.0


def rows_of(partition: PartitionId, batches: int) -> np.typing.NDArray[np.void]:
    """So many batches of a record each, without producers."""
    rows = np.zeros(batches, BATCH)
    rows["magic"], rows["topic_partition"], rows["size"] = 2, partition.key, BATCH_BYTES
    rows["byte_offset"] = np.arange(batches) * BATCH_BYTES
    rows["max_timestamp"] = time.time_ns() // 1_000_000
    for name in ("producer_id", "producer_epoch", "base_sequence", "last_sequence"):
        rows[name] = -1
    return rows


class Committing:
    """Commits batches to a partition one after the other; knows the longest time between two acknowledgements."""

    def __init__(self, client: DisklessClient, partition: PartitionId) -> None:
        self._client = client
        self._rows = rows_of(partition, 1)
        self._key = f"moves/{partition.topic_id.hex()}/{partition.partition}"
        self.longest_s = 0.0
        self.is_over = False

    async def run(self) -> None:
        """Commit until told to end."""
        last_s = time.perf_counter()
        for number in count():
            outcome = await self._client.commit_file(
                f"{self._key}/{number}", BATCH_BYTES, self._rows, created_ms=time.time_ns() // 1_000_000
            )
            if outcome.is_ok:
                now_s = time.perf_counter()
                self.longest_s, last_s = max(self.longest_s, now_s - last_s), now_s
            elif outcome.error_codes[0] != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                outcome.raise_for_errors()
            else:
                await asyncio.sleep(RETRY_S)
            if self.is_over:
                return


async def fill(client: DisklessClient, partition: PartitionId, batches: int) -> None:
    """Commit so many batches to a partition."""
    key = f"fill/{partition.topic_id.hex()}/{partition.partition}"
    for first in range(0, batches, FILE_BATCHES):
        rows = rows_of(partition, min(FILE_BATCHES, batches - first))
        outcome = await client.commit_file(f"{key}/{first}", len(rows) * BATCH_BYTES, rows, created_ms=time.time_ns() // 1_000_000)
        outcome.raise_for_errors()


async def move(client: DisklessClient, partition: PartitionId) -> tuple[float, float, float]:
    """Move a partition to the other coordinator under commits: `alone`, `frozen` and `order` in seconds."""
    before = (await client.describe_topic(partition.topic_id)).partitions[partition.partition].coordinator_id
    committing = Committing(client, partition)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(committing.run())
        await asyncio.sleep(ALONE_S)
        alone_s, committing.longest_s = committing.longest_s, 0.0
        began_s = time.perf_counter()
        ordered = await client.admin.move_partitions([PartitionMove(partition, 1 - before)])
        ordered.refusals[0].raise_for_error()
        while ordered.under_way:
            ordered = await client.admin.move_partitions([])
        order_s = time.perf_counter() - began_s
        await asyncio.sleep(AFTER_S)
        committing.is_over = True
    return alone_s, committing.longest_s, order_s


async def measure(servers: Sequence[str], batches: int, moves: int) -> Row:
    """Fill partitions and move each once."""
    async with DisklessClient(servers, client_id="benchmark", api_timeout_ms=60_000) as client:
        topic = await client.admin.create_topic(f"moves-{batches}", moves)
        found = []
        for index in range(moves):
            partition = PartitionId(topic.topic_id, index)
            await fill(client, partition, batches)
            found.append(await move(client, partition))
    alone_ms, frozen_ms, order_ms = (statistics.median(one) * 1000 for one in zip(*found, strict=True))
    return {"batches": batches, "alone_ms": alone_ms, "frozen_ms": frozen_ms, "longest_ms": max(one[1] for one in found) * 1000} | {
        "order_ms": order_ms
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, action="append", metavar="N", help="live batches of a partition (repeatable; 1, 1 000 000)")
    parser.add_argument("--moves", type=int, default=5, help="partitions of each size, each of which moves once (5)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    rows: list[Row] = []
    with broker() as kafka, service(kafka, nodes=2, metadata_partitions=2) as running:
        wait_for(lambda: all(one.metric("schema_level") == LEVEL_LATEST for one in running.nodes.values()), "the newest schema level")
        for batches in options.batches or (1, 1_000_000):
            row = asyncio.run(measure(running.addresses, batches, options.moves))
            first = rows[0] if rows else row
            rows.append(row | {"frozen_times": float(str(row["frozen_ms"])) / float(str(first["frozen_ms"]))})
    say(table(rows, tuple(rows[0])))
    longest_ms = max(float(str(row["longest_ms"])) for row in rows)
    say(f"frozen for {longest_ms:.0f} ms at most (aim: < {AIM_MS:g} ms: {'yes' if longest_ms < AIM_MS else 'NO'})")
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
