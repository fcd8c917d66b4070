"""The logs of a run that go on from lost ones, none of whose snapshots was there, and the operator who calls the restore finished."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import cast

from coordinator.protocol.messages import FinishRestoreRequest, FinishRestoreResponse
from coordinator.runtime.answers.restores import finish_restore
from coordinator.runtime.node.node import Node
from records.codec import encode_entry, encode_key
from records.log import RESTORED_KEY
from records.model import Restored
from simulation.fakes.kafka_log import FakeLog
from simulation.workload.clients import RETRY_S, TIMEOUT_MS, Clients

RESTORE_ID = bytes(range(16))
EPOCH_FLOOR = 1 << 10
FILE_ID_BASE = 1 << 33
LEVEL = 1


def begin_restored(logs: Sequence[FakeLog], time_ms: int) -> None:
    """Write the first entries, as `diskless restore start` does for partitions whose loss is accepted."""
    for partition, log in enumerate(logs):
        restored = Restored(
            restore_id=RESTORE_ID,
            old_cluster_id="lost",
            old_topic_id=bytes(15) + b"\x01",
            metadata_partition=partition,
            partition_count=len(logs),
            old_end_offset=0,
            epoch_floor=EPOCH_FLOOR,
            file_id_base=FILE_ID_BASE,
            location="",
            size_bytes=0,
            sha256=bytes(32),
            digest=bytes(16),
        )
        log.append(encode_key(RESTORED_KEY), encode_entry([restored], LEVEL), time_ms)


class FinishingOperator:
    """Calls the restore finished at some time, at one node after the other until it is done."""

    def __init__(self, clients: Clients, rng: random.Random, finished_s: float) -> None:
        self._clients = clients
        self._rng = rng
        self._finished_s = finished_s

    async def run(self) -> None:
        """Wait until it is time, then ask until the leader of the directory says so."""
        clients, rng = self._clients, self._rng
        clients.busy += 1
        await asyncio.sleep(self._finished_s)
        while True:
            if await clients.ask(rng.randrange(clients.nodes), self._finish) == 0:
                break
            await asyncio.sleep(rng.uniform(*RETRY_S))
        clients.story.tell("the restore is called finished")
        if clients.judge.folds[0].is_restore_open:
            clients.judge.broken("acknowledged is logged", "the restore was called finished, and the log does not say so")
        clients.busy -= 1

    async def _finish(self, node: Node) -> int:
        request = FinishRestoreRequest(restore_id=RESTORE_ID, timeout_ms=TIMEOUT_MS)
        return int(cast(FinishRestoreResponse, await finish_restore(node, 0, request)).error_code)
