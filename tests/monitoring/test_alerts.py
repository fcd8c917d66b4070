"""Every alert fires on what it is for and stays quiet on what looks like it, as Prometheus' own rule tester sees it."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.generator.alerts import ALERTS
from helm.generator.write import FOLDER
from tests.monitoring.alert_cases import CASES, Case, Series
from tests.monitoring.prometheus_tools import program

BY_NAME = {alert.name: alert for alert in ALERTS}


def one_test(case: Case, series: Series, *, fires: bool) -> dict[str, object]:
    alert = BY_NAME[case.alert]
    expected = {
        "exp_labels": {**case.labels, "severity": alert.severity.value},
        "exp_annotations": {
            "summary": alert.summary,
            "description": case.description,
            "runbook_url": f"runbook.md#{alert.name.lower()}",
        },
    }
    return {
        "interval": "1m",
        "name": f"{case.alert} {'fires' if fires else 'is quiet'}",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{case.at}m", "alertname": case.alert, "exp_alerts": [expected] if fires else []}],
    }


@cache
def generated_groups() -> list[dict[str, Any]]:
    return [group for path in sorted(FOLDER.glob("rules/*.yaml")) for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]]


def rules_of(alert: str) -> list[dict[str, Any]]:
    """The generated groups with all recordings and this one alert: the tester evaluates every rule it is given for every minute."""
    kept = [{**group, "rules": [rule for rule in group["rules"] if rule.get("alert", alert) == alert]} for group in generated_groups()]
    return [group for group in kept if group["rules"]]


def run_promtool(case: Case, tests: list[dict[str, object]], folder: Path) -> subprocess.CompletedProcess[str]:
    rules, file = folder / "rules.yaml", folder / "tests.yaml"
    rules.write_text(yaml.safe_dump({"groups": rules_of(case.alert)}, width=1000), encoding="utf-8")
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}, width=1000))
    return subprocess.run([program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False, timeout=240)


def test_every_alert_has_a_case() -> None:
    assert [case.alert for case in CASES] == [alert.name for alert in ALERTS]
    assert all(case.fires and case.quiet for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.alert)
def test_it_fires_and_stays_quiet(case: Case, tmp_path: Path) -> None:
    tests = [one_test(case, series, fires=True) for series in case.fires] + [one_test(case, series, fires=False) for series in case.quiet]
    tested = run_promtool(case, tests, tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_tester_notices_a_wrong_expectation(tmp_path: Path) -> None:
    case = CASES[0]
    assert run_promtool(case, [one_test(case, case.quiet[0], fires=True)], tmp_path).returncode != 0
    assert run_promtool(case, [one_test(case, case.fires[0], fires=False)], tmp_path).returncode != 0
