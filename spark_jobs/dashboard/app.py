"""The dashboard's server: routes, the overview that joins store and service, and its own metrics.

Everything it answers comes from the store (`database`, `panels`), from the coordinators (`nodes`) or from the
package's own static files. It keeps no state of its own but caches, so killing it at any time loses nothing. Acknowledging
findings, if it is on at all, is the one thing that changes the store (`writes`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from spark_jobs.dashboard.attempts import Attempts
from spark_jobs.dashboard.cache import AnswerCache
from spark_jobs.dashboard.catalogue import PANELS, PagePanel, catalogue, catalogue_page
from spark_jobs.dashboard.database import Database, StoreUnreadableError
from spark_jobs.dashboard.entries import LogEntries
from spark_jobs.dashboard.events import Events
from spark_jobs.dashboard.exports import AskedExports
from spark_jobs.dashboard.guard import Guard
from spark_jobs.dashboard.login import LOGIN_PATH, Login, LookRules
from spark_jobs.dashboard.nodes import AskedNodes
from spark_jobs.dashboard.panels.look import add_entry, entry_place
from spark_jobs.dashboard.panels.overview import facts, overview
from spark_jobs.dashboard.panels.query import BadQueryError, parse_query
from spark_jobs.dashboard.panels.rows import Json
from spark_jobs.dashboard.panels.sight import Sight, watch
from spark_jobs.dashboard.scraping import Scraping
from spark_jobs.dashboard.verdict import Level, PageProblem, PageVerdict, judge, watch_problem, worst_first
from spark_jobs.dashboard.writes import PATHS as WRITES
from spark_jobs.dashboard.writes import Writes
from spark_jobs.monitor.life import read_life
from spark_jobs.store.engine import StoreConnection, StorePlace

STATIC = Path(str(files("spark_jobs.dashboard").joinpath("static")))
VERSION_HEADER = "X-Store-Version"
PLAIN_SCRAPING = Scraping()
EVERYBODY_LOOKS = LookRules()
PANEL_SECONDS_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Dashboard:
    """The store at `place`, and the coordinators and exports that were named.

    `clock_ms` gives the time; with a `token` findings can be acknowledged. `scraping` is how the coordinators are asked, `exports_scraping`
    how the exports, `looking` who may look at the page, `attempts` what wrong tokens cost.
    """

    def __init__(
        self,
        place: StorePlace,
        coordinators: Sequence[str] = (),
        clock_ms: Callable[[], int] | None = None,
        token: str | None = None,
        scraping: Scraping = PLAIN_SCRAPING,
        looking: LookRules = EVERYBODY_LOOKS,
        attempts: Attempts | None = None,
        exports: Sequence[str] = (),
        exports_scraping: Scraping = PLAIN_SCRAPING,
        entries: LogEntries | None = None,
    ) -> None:
        self.place = place
        self._entries = entries
        self.clock_ms = clock_ms or (lambda: time.time_ns() // 1_000_000)
        self.database = Database(place)
        self._attempts = Attempts() if attempts is None else attempts
        self.writes = Writes(place, token, self.clock_ms, self._attempts, looking.proxies)
        self.nodes = AskedNodes(coordinators, self.clock_ms, scraping)
        self.exports = AskedExports(exports, exports_scraping)
        self._looking = looking
        self.cache = AnswerCache()
        self.events = Events(f"{time.time_ns():x}", self.database.version, self.overview)
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        prefix = "diskless_dashboard_"
        self.requests = Counter(f"{prefix}requests_total", "Answers, by panel and status.", ("panel", "status"), registry=self.registry)
        self.seconds = Histogram(
            f"{prefix}panel_seconds", "Time to make an answer anew.", ("panel",), registry=self.registry, buckets=PANEL_SECONDS_BUCKETS
        )
        Gauge(f"{prefix}event_streams", "Pages that listen.", registry=self.registry).set_function(lambda: self.events.streams)
        Gauge(f"{prefix}scrape_failures", "Looks at a coordinator that failed since the start.", registry=self.registry).set_function(
            lambda: self.nodes.failures
        )

    def application(self, hosts: Sequence[str] = ()) -> Starlette:
        """Make the ASGI application; `hosts` restricts the names it is called by."""
        routes = [
            Route("/", _page),
            Route("/favicon.ico", _favicon),
            Route("/api", self._catalogue),
            Route("/api/overview", self._overview),
            Route("/api/latency", self._latency),
            Route("/api/events", self._events),
            Route("/api/exports", self._exports),
            *(Route(f"/api/{panel.name}", partial(self._panel, panel)) for panel in PANELS),
            *(Route(path, self._write, methods=["POST"]) for path in WRITES if self.writes.is_on),
            Route("/metrics", self._metrics),
            Route("/healthz", self._healthz),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        written = {*(WRITES if self.writes.is_on else ()), *((LOGIN_PATH,) if self._looking.token is not None else ())}
        guards = [
            Middleware(Guard, hosts=hosts, written=written),
            Middleware(Login, rules=self._looking, attempts=self._attempts, now_s=lambda: self.clock_ms() / 1000),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan, middleware=guards)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        scrapers = [asyncio.create_task(asked.run()) for asked in (self.nodes, self.exports)]
        try:
            yield
        finally:
            for scraper in scrapers:
                scraper.cancel()
            await asyncio.gather(*scrapers, return_exceptions=True)
            await self.events.close()
            await self.database.close()

    # ---- answers

    async def overview(self) -> Json:
        """The verdict and the numbers of the page's head. Never fails: a store that cannot be read is a verdict too."""
        now_ms = self.clock_ms()
        common: Json = {"now_ms": now_ms, "folder": str(self.place), "can_acknowledge": self.writes.is_on}
        sight = self._sight()
        try:
            if not self.database.exists():
                return {**common, "state": "empty", "verdict": _verdict_json(await self._waiting(now_ms)), "numbers": None}
            known, numbers = await self.database.read(lambda db: (facts(db, seen := sight(db)), overview(db, seen)))
        except StoreUnreadableError as error:
            problem = PageProblem(level=Level.BAD, text=f"The store cannot be read: {error}", panel="monitor")
            verdict = PageVerdict(level=Level.BAD, sentence=problem.text, problems=(problem, *self.nodes.problems({})))
            return {**common, "state": "unreadable", "verdict": _verdict_json(verdict), "numbers": None}
        verdict = judge(known, self.nodes.problems(known.claims), now_ms, self.nodes.commits_per_s())
        if not known.heads:
            return {**common, "state": "empty", "verdict": _verdict_json(verdict), "numbers": None}
        lag = {
            "entries": known.behind_entries,
            "freshness_ms": known.freshness_ms,
            "unobserved_ms": known.watch.unobserved_ms(now_ms),
        }
        return {**common, "state": "known", "verdict": _verdict_json(verdict), "numbers": {**numbers, "lag": lag}}

    def _sight(self) -> Callable[[StoreConnection], Sight]:
        now_ms, nodes = self.clock_ms(), self.nodes
        silent_ms, store_failures, retention = nodes.silent_ms(), nodes.store_failures(), nodes.retention()
        return lambda db: Sight(
            now_ms=now_ms, life=read_life(self.place, db), silent_ms=silent_ms, store_failures=store_failures, retention=retention
        )

    async def _waiting(self, now_ms: int) -> PageVerdict:
        """Return the verdict without a store; the sign of life of a monitor may have the reason."""
        life = await self.database.read(lambda db: read_life(self.place, db))
        own = None if life is None else watch_problem(watch(life), now_ms)
        problems = worst_first([*([] if own is None else [own]), *self.nodes.problems({})])
        sentence = f"Waiting for the monitor: nothing in {self.place} yet" if own is None else own.text
        return PageVerdict(level=max([Level.UNKNOWN, *(problem.level for problem in problems)]), sentence=sentence, problems=problems)

    async def _overview(self, _request: Request) -> Response:
        self.requests.labels("overview", "200").inc()
        return JSONResponse(await self.overview())

    async def _latency(self, request: Request) -> Response:
        try:
            query = parse_query(request.query_params)
        except BadQueryError as error:
            self.requests.labels("latency", "400").inc()
            return JSONResponse({"error": str(error)}, 400)
        self.requests.labels("latency", "200").inc()
        return JSONResponse(self.nodes.latencies.answer(query, self.clock_ms(), self.nodes.who_answers()))

    async def _exports(self, _request: Request) -> Response:
        self.requests.labels("exports", "200").inc()
        return JSONResponse({"exports": self.exports.rows, "now_ms": self.clock_ms()})

    async def _panel(self, panel: PagePanel, request: Request) -> Response:
        try:
            query = parse_query(request.query_params)
        except BadQueryError as error:
            self.requests.labels(panel.name, "400").inc()
            return JSONResponse({"error": str(error)}, 400)

        async def make() -> Json:
            sight = self._sight()
            with self.seconds.labels(panel.name).time():
                made, place = await self.database.read(lambda db: (panel.answer(db, query, sight(db)), entry_place(db, query)))
            if place is not None and self._entries is not None and not made.get("missing", panel.name):
                add_entry(made, await self._entries.read(*place))
            return made

        try:
            answer = await self.cache.get((panel.name, query), await self.database.version(), make)
        except StoreUnreadableError as error:
            self.requests.labels(panel.name, "503").inc()
            return JSONResponse({"error": str(error)}, 503)
        status = 304 if request.headers.get("if-none-match") == answer.etag else 200
        self.requests.labels(panel.name, str(status)).inc()
        headers = {"ETag": answer.etag, VERSION_HEADER: answer.version}
        return Response(None, 304, headers) if status == 304 else Response(answer.body, 200, headers, "application/json")

    async def _write(self, request: Request) -> Response:
        answer = await self.writes.answer(request)
        self.requests.labels(request.url.path.removeprefix("/api/"), str(answer.status_code)).inc()
        return answer

    async def _events(self, request: Request) -> Response:
        if self.events.is_full:
            return PlainTextResponse("too many pages are open\n", 503, {"Retry-After": "10"})
        last_id = request.headers.get("last-event-id") or request.query_params.get("last", "")
        return StreamingResponse(self.events.stream(last_id), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _catalogue(self, request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(catalogue_page())
        return JSONResponse(catalogue())

    async def _metrics(self, _request: Request) -> Response:
        return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _healthz(self, _request: Request) -> Response:
        return JSONResponse({"healthy": True, "store": "present" if self.database.exists() else "missing"})


def _verdict_json(verdict: PageVerdict) -> Json:
    return {
        "level": verdict.level.name.lower(),
        "sentence": verdict.sentence,
        "problems": [
            {"level": problem.level.name.lower(), "text": problem.text, "panel": problem.panel, "look": problem.look}
            for problem in verdict.problems
        ],
    }


async def _page(_request: Request) -> Response:
    return FileResponse(STATIC / "index.html", media_type="text/html; charset=utf-8")


async def _favicon(_request: Request) -> Response:
    return FileResponse(STATIC / "favicon.svg", media_type="image/svg+xml")
