"""What is checked in under helm/monitoring is what the code makes, names only what exists, and hangs together."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel, RowPanel
from grafana_foundation_sdk.models.prometheus import Dataquery

import gateway.metrics
import tables.export.metrics
from cli.main import root
from coordinator.adapters.metrics import PREFIX, TABLE
from helm.generator.__main__ import main, stale
from helm.generator.alerts import ALERTS
from helm.generator.model import Alert, Board
from helm.generator.recording import RECORDINGS
from helm.generator.write import BOARDS, FOLDER
from spark_jobs.monitor.metrics import METRICS
from tests.monitoring.metric_names import metric_names, names_in
from tests.monitoring.prometheus_tools import program

RECORDED = {one.record for one in RECORDINGS}


def queries(board: Board) -> Iterator[str]:
    for section in board.sections:
        for panel in section.panels:
            for query in panel.queries:
                yield query.expr
    for mark in board.marks:
        yield mark.expr


def every_expression() -> list[str]:
    rules = [*(one.expr for one in RECORDINGS), *(one.expr for one in ALERTS), *(expr for one in ALERTS for expr in one.looks_at)]
    return [*(expr for board in BOARDS.values() for expr in queries(board)), *rules]


# ---- the files


def test_the_checked_in_files_are_up_to_date() -> None:
    assert stale(FOLDER) == [], "run `python -m helm.generator`"


def test_a_changed_a_missing_and_a_stray_file_are_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "monitoring"
    shutil.copytree(FOLDER, copy)
    assert CliRunner().invoke(main, ["--folder", str(copy), "--check"]).exit_code == 0
    (copy / "dashboards" / "kafka.json").unlink()
    (copy / "rules" / "old.yaml").write_text("groups: []\n")
    with (copy / "runbook.md").open("a") as file:
        file.write("more\n")
    assert stale(copy) == ["dashboards/kafka.json", "rules/old.yaml", "runbook.md"]
    result = CliRunner().invoke(main, ["--folder", str(copy), "--check"])
    assert result.exit_code == 1
    assert "dashboards/kafka.json" in result.output


def test_alerts_can_link_to_a_published_runbook(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--folder", str(tmp_path), "--runbook-url", "https://wiki.example/diskless"])
    assert result.exit_code == 0
    assert "runbook_url: https://wiki.example/diskless#disklessnoleader" in (tmp_path / "rules" / "alerts.yaml").read_text()


def test_promtool_accepts_the_rules() -> None:
    command = [program("promtool"), "check", "rules", *map(str, sorted(FOLDER.glob("rules/*.yaml")))]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"SUCCESS: {len(ALERTS)} rules found" in checked.stdout
    assert f"SUCCESS: {len(RECORDINGS)} rules found" in checked.stdout


# ---- names


def test_names_are_found_in_expressions() -> None:
    expr = 'sum by (job, up) (rate(diskless_coordinator_commits_total{job="process_x"}[5m])) / a:b and up{a="b"} == 0'
    assert names_in(expr) == {"diskless_coordinator_commits_total", "up"}
    assert names_in("diskless_coordinator:leaders:sum == 0") == {"diskless_coordinator:leaders:sum"}


def test_every_metric_that_is_used_exists() -> None:
    known = metric_names() | RECORDED
    unknown = {name for expr in every_expression() for name in names_in(expr) if name not in known}
    assert unknown == set()
    assert all(names_in(expr) for expr in every_expression())


def test_every_metric_of_a_process_is_on_a_dashboard() -> None:
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for board in BOARDS.values() for expr in queries(board) for name in names_in(expr)}
    remedy = "show it in helm/generator/*_board.py, then run `python -m helm.generator`"
    assert {PREFIX + metric.name for metric in TABLE} - shown == set(), remedy
    assert {gateway.metrics.PREFIX + metric.name for metric in gateway.metrics.TABLE} - shown == set(), remedy
    assert {tables.export.metrics.PREFIX + metric.name for metric in tables.export.metrics.TABLE} - shown == set(), remedy
    assert set(METRICS) - shown == set(), remedy


def test_every_recording_rule_is_used() -> None:
    used = {name for one in ALERTS for name in names_in(one.expr)}
    # The lag is there for whoever writes an alert of their own.
    assert RECORDED - used == {"diskless_coordinator:replica_lag_entries"}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_tells_which_series_its_condition_looks_at(alert: Alert) -> None:
    looked_at = {name for expr in alert.looks_at for name in names_in(expr)}
    assert looked_at == names_in(alert.expr)


# ---- the runbook


def commands(alert: Alert) -> list[list[str]]:
    return [shlex.split(command) for command in alert.runbook.commands]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_the_runbook_helps(alert: Alert) -> None:
    book = alert.runbook
    text = (FOLDER / "runbook.md").read_text(encoding="utf-8")
    assert f"\n### {alert.name}\n" in text
    for words in (alert.summary, alert.description, book.means, book.harmless, *book.look):
        assert words.strip() == words
        assert words[0].isupper() or words[0] in "`{", words
        assert "  " not in words
    assert book.look
    assert book.commands
    assert not alert.summary.endswith(".")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_the_commands_of_the_runbook_can_be_run(alert: Alert, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    given_for = {
        "PARTITION": "3",
        "FILE": str(file),
        "CLIENT": str(file),
        "FOLDER": str(tmp_path),
        "WHY": "known",
        "DATA_DIR/partition-N.db": str(file),
    }
    for program_name, *words in commands(alert):
        assert program_name == "diskless"
        given = [given_for.get(word, word) for word in words]
        command: click.Command = root
        context = click.Context(root)
        while isinstance(command, click.Group):
            _, found, given = command.resolve_command(context, given)
            assert found is not None
            command = found
        # Parses everything, runs nothing; raises on an option, an argument or a value that is wrong.
        command.make_context(command.name, list(given), parent=context)


def test_the_panels_the_runbook_names_exist() -> None:
    titles = {panel.title for board in BOARDS.values() for section in board.sections for panel in section.panels}
    text = (FOLDER / "runbook.md").read_text(encoding="utf-8")
    named = {name for line in text.splitlines() if "anel *" in line for name in re.findall(r"\*([^*]+)\*", line)}
    assert named
    assert named - titles == set()


# ---- dashboards


@pytest.fixture(params=sorted(BOARDS))
def made(request: pytest.FixtureRequest) -> tuple[Board, Dashboard]:
    """A board, and its file as Grafana's schema reads it."""
    register_default_plugins()
    text = (FOLDER / "dashboards" / f"{request.param}.json").read_text(encoding="utf-8")
    return BOARDS[request.param], Dashboard.from_json(json.loads(text))


def panels_of(dashboard: Dashboard) -> list[Panel]:
    return [panel for panel in dashboard.panels or [] if isinstance(panel, Panel)]


def test_grafanas_schema_reads_everything_back(made: tuple[Board, Dashboard]) -> None:
    board, dashboard = made
    assert dashboard.uid == board.uid
    assert dashboard.title == board.title
    assert [row.title for row in dashboard.panels or [] if isinstance(row, RowPanel)] == [section.title for section in board.sections]
    wanted = [panel for section in board.sections for panel in section.panels]
    assert [panel.title for panel in panels_of(dashboard)] == [panel.title for panel in wanted]
    for panel, source in zip(panels_of(dashboard), wanted, strict=True):
        targets = [target for target in panel.targets or [] if isinstance(target, Dataquery)]
        assert [target.expr for target in targets] == [query.expr for query in source.queries]
        assert [target.ref_id for target in targets] == [chr(65 + place) for place in range(len(targets))]
        assert panel.description
        assert panel.datasource is not None
        assert panel.datasource.uid == "${datasource}"


def test_ids_are_unique_and_panels_do_not_overlap(made: tuple[Board, Dashboard]) -> None:
    _, dashboard = made
    everything = list(dashboard.panels or [])
    assert len({panel.id_val for panel in everything}) == len(everything)
    taken: set[tuple[int, int]] = set()
    for panel in everything:
        at = panel.grid_pos
        assert at is not None
        cells = {(x, y) for x in range(at.x, at.x + at.w) for y in range(at.y, at.y + at.h)}
        assert at.x + at.w <= 24
        assert not cells & taken, panel.title
        taken |= cells


def test_every_choice_is_used_and_every_used_choice_exists(made: tuple[Board, Dashboard]) -> None:
    board, dashboard = made
    assert dashboard.templating is not None
    offered = {variable.name for variable in dashboard.templating.list_val or []}
    used = {name for expr in queries(board) for name in re.findall(r"\$(\w+)", expr)} - {"__rate_interval"}
    assert used | {"datasource"} == offered
    assert offered >= {"datasource", "job", "instance"}
    for variable in board.variables:
        assert variable.metric in metric_names()


def test_addresses_of_dashboards_differ() -> None:
    assert len({board.uid for board in BOARDS.values()}) == len(BOARDS) == 5
