"""Dashboards, rules and runbooks as plain values: what is said, not how Grafana or Prometheus write it down.

Invariant: an expression names only metrics that exist and rules of `helm.generator.recording`; tests hold it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Look(StrEnum):
    """How a panel shows its series."""

    LINES = "lines"
    STACKED = "stacked"
    NUMBER = "number"
    TABLE = "table"


class Unit(StrEnum):
    """Grafana's names of units."""

    NONE = "short"
    SECONDS = "s"
    BYTES = "bytes"
    BYTES_PER_SECOND = "Bps"
    PER_SECOND = "cps"
    RATIO = "percentunit"
    CORES = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One expression; `legend` names its series by their labels, `{{label}}`."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel. `help` is what the reader of the graph wants to know; `bad_from` colours numbers that are at least this."""

    title: str
    help: str
    queries: tuple[Query, ...]
    unit: Unit = Unit.NONE
    look: Look = Look.LINES
    bad_from: float | None = None
    bad_below: float | None = None
    width: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice at the top of a dashboard: the values a label has on a metric."""

    name: str
    label: str
    metric: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardMark:
    """Moments that are marked on every graph: those at which the expression has a value. `text` names them by its labels, `{{label}}`."""

    title: str
    expr: str
    text: str
    color: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard; `uid` is its address in Grafana and must never change."""

    uid: str
    title: str
    help: str
    variables: tuple[Variable, ...]
    sections: tuple[Section, ...]
    marks: tuple[BoardMark, ...] = ()


class AlertSeverity(StrEnum):
    """`critical` needs an answer at any hour, `warning` is for working hours."""

    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recording rule."""

    record: str
    expr: str
    help: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """The text for the person who is paged."""

    means: str
    look: tuple[str, ...]
    commands: tuple[str, ...]
    harmless: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert. `looks_at` are the series its condition compares: without them it could never fire, so a test wants data of each."""

    name: str
    expr: str
    looks_at: tuple[str, ...]
    wait: str
    severity: AlertSeverity
    summary: str
    description: str
    runbook: Runbook
