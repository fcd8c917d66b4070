"""An export as a process: its HTTP port, and signals."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from coordinator.config.values import HttpAddress
from coordinator.object_store import StoreUnavailable
from tables.errors import TableError
from tables.export.columns import ValueType
from tables.export.delta import DeltaTarget
from tables.export.job import Export, ExportOptions
from tables.export.metrics import ExportState
from tables.export.process import run_export
from tables.export.target import ExportedTopic
from tests.tables.fake_log import FakeLog
from tests.waiting import until

TOPIC = ExportedTopic(name="orders", topic_id="one", cluster_id="here", value_type=ValueType.BINARY)
ANY_PORT = HttpAddress("127.0.0.1", 0)


def export(log: FakeLog, place: Path, options: ExportOptions) -> tuple[Export, ExportState]:
    state = ExportState("orders", log.counts)
    return Export(log, DeltaTarget.open(str(place), TOPIC, {}, {0: 0, 1: 0}), TOPIC.schema, options, state), state


async def get(address: str, path: str) -> str:
    host, port = address.removeprefix("http://").removesuffix("/metrics").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer


async def test_the_port_tells_metrics_and_whether_the_last_pass_failed_and_a_signal_ends_it(tmp_path: Path) -> None:
    log = FakeLog()
    log.add(0, 4)
    log.trouble = [StoreUnavailable("no answer")] * 1000
    made, state = export(log, tmp_path, ExportOptions(every_s=0.01))
    said: list[str] = []
    running = asyncio.create_task(run_export(made, state, ANY_PORT, said.append))
    await until(lambda: state.is_failing, "a pass to fail")
    assert "503" in (await get(said[0], "/ready")).splitlines()[0]
    log.trouble.clear()
    await until(lambda: state.rows == 4, "the rows")
    assert "200" in (await get(said[0], "/ready")).splitlines()[0]
    assert 'diskless_export_rows_total{topic="orders"} 4.0' in await get(said[0], "/metrics")
    os.kill(os.getpid(), signal.SIGTERM)
    await running


async def test_a_single_run_that_a_signal_ends_says_that_more_is_left(tmp_path: Path) -> None:
    log = FakeLog()
    log.add(0, 400)
    made, state = export(log, tmp_path, ExportOptions(once=True))

    def stop_once() -> None:
        log.on_batch = lambda: None  # a second signal ends the process at once
        os.kill(os.getpid(), signal.SIGTERM)

    log.on_batch = stop_once
    assert not await run_export(made, state, None, lambda _: None)
    assert 0 < state.rows < 400


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    made, state = export(FakeLog(), tmp_path, ExportOptions(once=True))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = HttpAddress("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(TableError, match=r"metrics cannot be served on .*; choose another --metrics-port"):
            await run_export(made, state, address, lambda _: None)
