"""Java, librdkafka and franz-go write and read in groups while gateways, nodes, brokers, the store and they themselves fail; judged.

Longer runs: `python -m integration_tests.faults --gateways --minutes 10 --seed 1 --report FOLDER`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.dev import die_with_parent
from integration_tests.s3 import find_gateway

REPOSITORY = Path(__file__).parents[2]
RUN_TIMEOUT_S = 900
pytestmark = [pytest.mark.timeout(RUN_TIMEOUT_S + 60), pytest.mark.usefixtures("broker_runtime")]
BETWEEN_CLIENTS_AND_SERVICE = (
    *("gateway_kill", "gateway_stop", "gateway_pause", "gateway_short_pause", "zone_kill", "zone_pause"),
    *("store_errors", "store_cuts", "store_refuses", "store_hangs", "member_kill", "member_pause"),
)
BEHIND_IT = ("kill", "pause", "stop", "broker_kill", "broker_pause", "broker_stop")


def report_of(folder: Path, actions: tuple[str, ...], seed: int) -> dict[str, Any]:
    """Carry out a run in which every action comes once; returns its report."""
    find_gateway()
    command = [sys.executable, "-m", "integration_tests.faults", "--gateways", "--once", "--quick-brokers", "--seed", str(seed)]
    wrapper = [sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid())]
    done = subprocess.run(
        [*wrapper, *command, "--actions", ",".join(actions), "--report", str(folder)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=RUN_TIMEOUT_S,
    )
    print(done.stdout)
    assert done.returncode == 0, f"exit status {done.returncode}; the report is in {folder}\n{done.stdout[-6000:]}"
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert {fault["action"] for fault in report["faults"]} == set(actions)
    assert report["unusual_log_lines"] == []
    assert all(count > 100 for count in report["records_acknowledged"].values()), report["records_acknowledged"]
    assert set(report["records_given"].values()) == {report["records_stored"]}
    return report


@pytest.mark.long
def test_the_last_gateway_of_a_zone_dies_and_its_clients_go_on_at_another(tmp_path: Path) -> None:
    report_of(tmp_path, ("zone_kill", "store_errors", "member_kill"), 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_lost_doubled_or_skipped_under_faults_at_and_around_gateways(tmp_path: Path, seed: int) -> None:
    report_of(tmp_path, BETWEEN_CLIENTS_AND_SERVICE, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", [3, 4])
def test_nothing_is_lost_doubled_or_skipped_while_nodes_and_brokers_fail(tmp_path: Path, seed: int) -> None:
    report_of(tmp_path, (*BEHIND_IT, "gateway_pause", "store_errors"), seed)
