"""Files that pages for operators print are taken by the programs that they are for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from codegen.site import DOCS, ROOT
from helm.generator.alerts.common import COORDINATOR_JOB, EXPORT_JOB, GATEWAY_JOB, MONITOR_JOB
from tests.monitoring.prometheus_tools import program


def printed(page: str, language: str) -> str:
    """The only block of a page in this language."""
    [block] = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(block)


def test_prometheus_takes_the_scrape_configs_and_alerts_know_the_jobs(tmp_path: Path) -> None:
    text = printed("prometheus.md", "yaml").replace("/etc/prometheus/diskless", str(tmp_path))
    for rules in (ROOT / "helm/monitoring/rules").glob("*.yaml"):
        shutil.copy(rules, tmp_path)
    for name in ("ca.crt", "metrics-token"):
        (tmp_path / name).touch()
    file = tmp_path / "prometheus.yml"
    file.write_text(text, encoding="utf-8")
    checked = subprocess.run([program("promtool"), "check", "config", str(file)], capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    jobs = [one["job_name"] for one in yaml.safe_load(text)["scrape_configs"]]
    patterns = (COORDINATOR_JOB, GATEWAY_JOB, MONITOR_JOB, EXPORT_JOB)
    assert [job for pattern, job in zip(patterns, jobs, strict=True) if re.fullmatch(pattern, job) is None] == []


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "diskless-coordinator.service"
    unit.write_text(printed("systemd.md", "ini").replace("/opt/diskless/bin/diskless", sys.executable), encoding="utf-8")
    checked = subprocess.run([analyze, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False, timeout=60)
    assert (checked.returncode, [line for line in checked.stderr.splitlines() if unit.name in line]) == (0, []), checked.stderr
