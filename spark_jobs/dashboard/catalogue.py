"""Which panels there are, what each answers and which parameters it takes: routes and `/api` are made of this table."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass

from spark_jobs.dashboard.panels import (
    activity,
    agreement,
    files,
    findings,
    histograms,
    leadership,
    look,
    marks,
    migrations,
    monitor,
    partitions,
    quarantine,
    search,
    snapshots,
    topics,
    uploaders,
)
from spark_jobs.dashboard.panels.query import RANGES_S, SORTS, SPLITS, PanelQuery
from spark_jobs.dashboard.panels.rows import Json
from spark_jobs.dashboard.panels.sight import Sight
from spark_jobs.store.engine import StoreConnection

PanelFunction = Callable[[StoreConnection, PanelQuery, Sight], Json]

_RANGE = ("range", "from", "to")
_PAGE = ("offset", "limit")


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePanel:
    """One panel; its address is `/api/<name>`. `parameters` are those that change the answer."""

    name: str
    answer: PanelFunction
    help: str
    parameters: tuple[str, ...] = ()


PANELS = (
    PagePanel(
        name="activity",
        answer=activity.activity,
        help="Files, batches, records and bytes per second over the range, with exact sums.",
        parameters=(*_RANGE, "split", "topic"),
    ),
    PagePanel(
        name="look",
        answer=look.look,
        help="The page of a topic, partition, coordinator, node, file, producer or entry: facts and tables.",
        parameters=("look",),
    ),
    PagePanel(
        name="search",
        answer=search.search,
        help="Topics, partitions, files, producers, nodes, coordinators and entries that a text may name.",
        parameters=("search",),
    ),
    PagePanel(name="topics", answer=topics.topics, help="Topics with exact sums, the largest first.", parameters=("search", *_PAGE)),
    PagePanel(
        name="partitions",
        answer=partitions.partitions,
        help="A page of the user partitions, and how unequal their load is.",
        parameters=("topic", "search", "sort", *_PAGE),
    ),
    PagePanel(
        name="migrations",
        answer=migrations.migrations,
        help="Classic topics that become diskless: partitions that wait for their start, and the newest resets and repairs.",
        parameters=_PAGE,
    ),
    PagePanel(
        name="leadership",
        answer=leadership.leadership,
        help="Terms of every coordinator in the range, and the nodes.",
        parameters=_RANGE,
    ),
    PagePanel(
        name="marks",
        answer=marks.marks,
        help="What happened in the range: leaders, starts of nodes, schema levels, snapshots, findings; the newest first.",
        parameters=_RANGE,
    ),
    PagePanel(name="histograms", answer=histograms.histograms, help="Distributions over the range.", parameters=_RANGE),
    PagePanel(name="files", answer=files.files, help="WAL files by state, nearly empty files, hand-overs that wait."),
    PagePanel(
        name="uploaders", answer=uploaders.uploaders, help="Uploaders and racks, share of files with several owners.", parameters=_RANGE
    ),
    PagePanel(name="snapshots", answer=snapshots.snapshots, help="The newest snapshot of every coordinator, open transactions."),
    PagePanel(name="findings", answer=findings.findings, help="Violations of the log's rules, the first first.", parameters=_PAGE),
    PagePanel(name="quarantine", answer=quarantine.quarantine, help="Entries that could not be read, the newest first.", parameters=_PAGE),
    PagePanel(
        name="monitor",
        answer=monitor.monitor,
        help="The monitor itself: where it is, how far behind, its micro-batches in the range, all totals.",
        parameters=_RANGE,
    ),
    PagePanel(name="agreement", answer=agreement.agreement, help="What `diskless monitor verify` found last."),
    PagePanel(name="objects", answer=agreement.objects, help="What `diskless restore report` found last: lost files."),
)

OTHERS = (
    ("/api/overview", "The verdict with every problem, rates of the last ten seconds, exact totals.", ()),
    ("/api/latency", "Percentiles of the time of commits, as clients (by the gateways asked) and as nodes see it.", _RANGE),
    ("/api/exports", "Exports of topics to tables: lag, time until retention overtakes them, what they lost.", ()),
    ("/api/events", "Server-sent events: `overview` when something changed and every few seconds.", ()),
    (
        "/api/findings/acknowledge",
        (
            "POST, only with --token-file: acknowledge findings; /api/findings/reopen takes it back."
            ' Bearer token; {"ids": [..] or "all": true, "who": "..", "reason": ".."}.'
        ),
        (),
    ),
    ("/metrics", "The dashboard's own metrics for Prometheus.", ()),
    ("/healthz", "Whether the dashboard answers.", ()),
)

PARAMETERS = {
    "look": "what to describe: partition/orders/7, entry/1@1234, node/2, ..",
    "range": f"seconds back from now: {', '.join(map(str, RANGES_S))}",
    "from": "where another range begins, seconds since the epoch",
    "to": "where it ends",
    "split": f"lines of the charts: {', '.join(SPLITS)}",
    "topic": "only this topic, by name or id",
    "search": "part of a topic's name; name-7 also finds partition 7",
    "sort": f"order: {', '.join(SORTS)}",
    "offset": "rows to pass over",
    "limit": "rows to answer, at most 200",
}


def catalogue() -> Json:
    """Everything there is, as JSON."""
    panels = tuple((f"/api/{panel.name}", panel.help, panel.parameters) for panel in PANELS)
    return {
        "endpoints": [
            {"path": path, "help": text, "parameters": {name: PARAMETERS[name] for name in names}}
            for path, text, names in (OTHERS[0], *panels, *OTHERS[1:])
        ]
    }


def catalogue_page() -> str:
    """The text of the entry for people."""
    items = []
    for endpoint in catalogue()["endpoints"]:
        parameters = "".join(
            f"<li><code>{html.escape(name)}</code> {html.escape(text)}</li>" for name, text in endpoint["parameters"].items()
        )
        path = html.escape(endpoint["path"])
        items.append(f'<section><h2><a href="{path}">{path}</a></h2><p>{html.escape(endpoint["help"])}</p><ul>{parameters}</ul></section>')
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += '<title>Endpoints of the dashboard</title><link rel="stylesheet" href="/static/style.css">'
    introduction = '<h1>Endpoints</h1><p>They answer GET with JSON unless they say otherwise. <a href="/">Back to the page</a></p>'
    return f'{head}<body class="plain"><main>{introduction}{"".join(items)}</main>'
