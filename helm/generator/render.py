"""Writes a dashboard as Grafana's JSON, through the builders made from Grafana's own schema. The only user of that library."""

from __future__ import annotations

from typing import Final, TypeAlias

from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.builders import prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders.common import ReduceDataOptions, StackingConfig, VizLegendOptions, VizTooltipOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, SortOrder, StackingMode, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from helm.generator.model import Board, BoardMark, Look, Panel, Query, Variable

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
NUMBER_HEIGHT: Final = 4
GRAPH_HEIGHT: Final = 8

AnyPanel: TypeAlias = timeseries.Panel | stat.Panel | table.Panel


def render(board: Board) -> str:
    """The JSON text of a dashboard, ready to be imported or provisioned."""
    made = (
        dashboards.Dashboard(board.title)
        .uid(board.uid)
        .description(board.help)
        .tags(["diskless"])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            dashboards.DashboardLink("Diskless dashboards")
            .type(DashboardLinkType.DASHBOARDS)
            .tags(["diskless"])
            .as_dropdown(True)
            .keep_time(True)
        )
        .with_variable(dashboards.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for variable in board.variables:
        made = made.with_variable(_variable(variable, board.variables))
    for mark in board.marks:
        made = made.annotation(_annotation(mark))
    panel_id = 0
    for section in board.sections:
        panel_id += 1
        made = made.with_row(dashboards.Row(section.title).id(panel_id))
        for panel in section.panels:
            panel_id += 1
            made = made.with_panel(_panel(panel).id(panel_id))
    return JSONEncoder(sort_keys=True, indent=2).encode(made.build()) + "\n"


def _variable(variable: Variable, all_of_them: tuple[Variable, ...]) -> dashboards.QueryVariable:
    """A choice narrowed down by the choices left of it."""
    before = all_of_them[: all_of_them.index(variable)]
    chosen = ", ".join(f'{other.name}=~"${other.name}"' for other in before)
    series = f"{variable.metric}{{{chosen}}}" if chosen else variable.metric
    return (
        dashboards.QueryVariable(variable.name)
        .label(variable.label)
        .query(f"label_values({series}, {variable.name})")
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.NUMERICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(VariableOption(selected=True, text="All", value="$__all"))
    )


def _annotation(mark: BoardMark) -> dashboards.AnnotationQuery:
    made = dashboards.AnnotationQuery().name(mark.title).datasource(SOURCE).enable(True).icon_color(mark.color)
    return made.expr(mark.expr).title_format(mark.title).text_format(mark.text)


def _panel(panel: Panel) -> AnyPanel:
    made = _bare(panel).title(panel.title).description(panel.help).datasource(SOURCE).span(panel.width)
    for place, query in enumerate(panel.queries):
        made = made.with_target(_target(query, chr(ord("A") + place), panel.look))
    return made


def _bare(panel: Panel) -> AnyPanel:
    match panel.look:
        case Look.NUMBER:
            number = stat.Panel().height(NUMBER_HEIGHT).unit(panel.unit).reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
            return number.thresholds(_thresholds(panel))
        case Look.TABLE:
            return table.Panel().height(GRAPH_HEIGHT).unit(panel.unit)
        case Look.LINES | Look.STACKED:
            return _lines(panel)


def _lines(panel: Panel) -> timeseries.Panel:
    legend = VizLegendOptions().show_legend(True).display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    lines = (
        timeseries.Panel()
        .height(GRAPH_HEIGHT)
        .unit(panel.unit)
        .min(0)
        .fill_opacity(10)
        .legend(legend)
        .tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )
    if panel.look is Look.STACKED:
        lines = lines.stacking(StackingConfig().mode(StackingMode.NORMAL)).fill_opacity(40)
    return lines


def _thresholds(panel: Panel) -> dashboards.ThresholdsConfig:
    if panel.bad_below is not None:
        steps = [Threshold(value=None, color="red"), Threshold(value=panel.bad_below, color="green")]
    elif panel.bad_from is not None:
        steps = [Threshold(value=None, color="green"), Threshold(value=panel.bad_from, color="red")]
    else:
        steps = [Threshold(value=None, color="text")]
    return dashboards.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def _target(query: Query, ref_id: str, look: Look) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).ref_id(ref_id).datasource(SOURCE)
    if look is Look.TABLE:
        return target.instant().format(PromQueryFormat.TABLE)
    target = target.range()
    return target.legend_format(query.legend) if query.legend else target
