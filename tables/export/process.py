"""An export as a process: signals end it well, and its metrics are on an HTTP port."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from coordinator.adapters.metrics.http import HttpServer
from coordinator.adapters.metrics.registry import Metrics
from coordinator.config.values import HttpAddress
from tables.errors import TableError
from tables.export.job import Export
from tables.export.metrics import PREFIX, TABLE, ExportState


async def run_export(export: Export, state: ExportState, address: HttpAddress | None, on_ready: Callable[[str], None]) -> bool:
    """Export until it is done or a signal comes, after the running commit; return whether it was done. A second signal ends it at once.

    `on_ready` gets the address of the metrics, empty without one. Raises as `Export.run`, and `TableError` for an address that is taken.
    """
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop() -> None:
        stopping.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    async with _served(state, address) as place:
        on_ready(place)
        return await export.run(stopping)


@asynccontextmanager
async def _served(state: ExportState, address: HttpAddress | None) -> AsyncIterator[str]:
    if address is None:
        yield ""
        return
    metrics = Metrics(TABLE, PREFIX)
    metrics.read_from(state.samples)
    server = HttpServer(address, ready=lambda: (not state.is_failing, {"failures": state.failures}), metrics=metrics)
    try:
        place = await server.start()
    except OSError as error:
        raise TableError(f"metrics cannot be served on {address}: {error.strerror}; choose another --metrics-port") from error
    try:
        yield f"{place}/metrics"
    finally:
        await server.stop()
