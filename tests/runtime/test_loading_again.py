"""A replica that cannot be loaded yet lets go of its state database: the next attempt opens it."""

from __future__ import annotations

from pathlib import Path

from coordinator.adapters.sqlite.stores import StateDatabases
from coordinator.runtime.ports import KafkaUnavailable
from tests.runtime.nodes import in_memory, running


async def test_a_log_that_cannot_be_looked_at_yet_does_not_lock_the_database(tmp_path: Path) -> None:
    failures: list[KafkaUnavailable] = []

    async def fails_at_first(_partition: int) -> None:
        if not failures:
            # Kept, with its traceback, as a cycle of references keeps it now and then: so is whatever the frames know.
            failures.append(KafkaUnavailable("leader high watermark is not caught up"))
            raise failures[0]

    kafka = in_memory(partitions=1)
    kafka.before["log_range"] = fails_at_first
    async with running(kafka, StateDatabases(tmp_path)) as started:
        await started.leads()
    assert failures
