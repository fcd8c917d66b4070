"""Running the dashboard: a listening socket, uvicorn, and an end that does not wait for open pages."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import uvicorn

from spark_jobs.dashboard.app import EVERYBODY_LOOKS, PLAIN_SCRAPING, Dashboard
from spark_jobs.dashboard.entries import LogEntries
from spark_jobs.dashboard.login import LookRules
from spark_jobs.dashboard.scraping import Scraping
from spark_jobs.store.engine import StorePlace

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """`place` is that of the monitor's database; `coordinators` are addresses of HTTP listeners.

    They are asked as `scraping` says. Port 0 takes any. `exports` are addresses of exports of topics to tables, asked as `exports_scraping`
    says. With a `token` those who have it may acknowledge findings; `looking` says who may look. `entries` are shown decoded.
    """

    place: StorePlace
    coordinators: Sequence[str]
    host: str
    port: int
    token: str | None = None
    scraping: Scraping = PLAIN_SCRAPING
    looking: LookRules = EVERYBODY_LOOKS
    exports: Sequence[str] = ()
    exports_scraping: Scraping = PLAIN_SCRAPING
    entries: LogEntries | None = None


class _Server(uvicorn.Server):
    """Ends the event streams first: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, dashboard: Dashboard) -> None:
        super().__init__(config)
        self._dashboard = dashboard

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streams, then all else."""
        await self._dashboard.events.close()
        await super().shutdown(sockets)


def serve(options: ServeOptions, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is called with the page's address once it is listened on. Raises OSError."""
    dashboard = Dashboard(
        options.place,
        options.coordinators,
        token=options.token,
        scraping=options.scraping,
        looking=options.looking,
        exports=options.exports,
        exports_scraping=options.exports_scraping,
        entries=options.entries,
    )
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.create_server((options.host, options.port), family=family, backlog=128)
    port = listener.getsockname()[1]
    is_local = options.host in LOOPBACK
    config = uvicorn.Config(
        dashboard.application(hosts=(*LOOPBACK, "[::1]") if is_local else ()),
        log_config=None,  # its lines take the form of all others
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who connects is what rules about proxies look at
        timeout_graceful_shutdown=3,
        lifespan="on",
    )
    shown = f"[{options.host}]" if ":" in options.host else options.host
    ready(f"http://{shown}:{port}/")
    # uvicorn hands the signal that ended it on, once it has ended: to end by a signal is how this is meant to end.
    former = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _Server(config, dashboard).run([listener])
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
