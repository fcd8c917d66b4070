"""What panels about coordinators are made of: the choices at the top of a dashboard, and expressions that obey them."""

from __future__ import annotations

from typing import Final

from helm.generator.model import Look, Panel, Query, Unit, Variable
from helm.generator.recording import GROUP

OF: Final = 'job=~"$job", instance=~"$instance"'
OF_PARTITION: Final = f'{OF}, partition=~"$partition"'
RATE: Final = "$__rate_interval"
PREFIX: Final = "diskless_coordinator_"

INSTANCE: Final = "{{instance}}"
BY_PARTITION: Final = "coordinator {{partition}}"
IN_DIRECTORY: Final = "{{directory}} on {{instance}}"
ON_INSTANCE: Final = "{{partition}} on {{instance}}"

VARIABLES: Final = (
    Variable(name="job", label="Service", metric="diskless_coordinator_ready"),
    Variable(name="instance", label="Process", metric="diskless_coordinator_ready"),
    Variable(name="partition", label="Coordinator (metadata partition)", metric="diskless_coordinator_leading"),
)


def metric(name: str, more: str = "", *, per_partition: bool = False) -> str:
    """A coordinator's metric with the dashboard's choices applied."""
    chosen = OF_PARTITION if per_partition else OF
    return f"{PREFIX}{name}{{{chosen}{', ' + more if more else ''}}}"


def rate(name: str, by: str = "", more: str = "", *, per_partition: bool = False) -> str:
    """Per second, summed over everything but `by`."""
    inner = f"rate({metric(name, more, per_partition=per_partition)}[{RATE}])"
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def quantile(share: float, name: str, by: str = "", more: str = "") -> str:
    """A quantile of a histogram over the chosen processes."""
    groups = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({groups}) (rate({metric(name + '_bucket', more)}[{RATE}])))"


def quantiles(name: str, more: str = "") -> tuple[Query, ...]:
    """Median, 95th and 99th percentile."""
    return tuple(Query(expr=quantile(share, name, more=more), legend=f"p{share * 100:g}") for share in (0.5, 0.95, 0.99))


def number(
    title: str, help_text: str, expr: str, unit: Unit = Unit.NONE, *, bad_from: float | None = None, bad_below: float | None = None
) -> Panel:
    """One number at the top."""
    queries = (Query(expr=expr),)
    return Panel(title=title, help=help_text, queries=queries, unit=unit, look=Look.NUMBER, width=3, bad_from=bad_from, bad_below=bad_below)


def of_leader(name: str, by: str, more: str = "") -> str:
    """What leaders say, or all replicas alike, summed over everything but `by`: the replicas of a coordinator count once."""
    of_each = f"max by ({GROUP}, partition, {by}) ({metric(name, more, per_partition=True)})"
    return f"sum by ({by}) ({of_each})"
