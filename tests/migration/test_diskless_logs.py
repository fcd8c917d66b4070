"""The diskless logs in memory pass the contract that a real service passes."""

from __future__ import annotations

import pytest

from simulation.contracts.diskless_logs import CHECKS
from simulation.fakes.diskless_logs import InMemoryDisklessLogs


class LogsInMemory:
    def __init__(self) -> None:
        self.calls = InMemoryDisklessLogs()
        self.topic_id = b"classic-topic-id"

    async def reset(self, leader_epoch: int) -> None:
        self.calls.reset(self.topic_id, 0, leader_epoch)


@pytest.mark.parametrize("check", CHECKS)
async def test_the_diskless_logs_in_memory_pass_the_contract(check: str) -> None:
    await CHECKS[check](LogsInMemory())
