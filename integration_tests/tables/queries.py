"""Queries on a cluster: one application runs them, with the cluster's Python and without anything of the tests.

[found, streamed] = run_queries(cluster, [batch(options), stream(options, folder)])
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from integration_tests.spark_cluster.cluster import SparkCluster
from integration_tests.tables import queries_program

RUN_TIMEOUT_S: Final = 240


def batch(options: Mapping[str, str]) -> dict[str, Any]:
    """A batch query; it gives `rows` and `plan`, or `error`."""
    return {"kind": "batch", "options": dict(options)}


def stream(options: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """A stream with what is there, into files of a folder; it gives `rows` of all runs and `counts` of this one, or `error`."""
    return {"kind": "stream", "options": dict(options), "folder": str(folder)}


def run_queries(
    cluster: SparkCluster, queries: Sequence[Mapping[str, Any]], *, conf: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Run queries in one application. Returns what each gives."""
    settings = {
        **cluster.settings,
        "spark.master": cluster.master,
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        **(conf or {}),
    }
    # Not by `-m`: the environment has none of the tests' modules.
    command = [str(cluster.python), "-P", queries_program.__file__, json.dumps({"conf": settings, "queries": list(queries)})]
    log = cluster.folder / "driver.log"
    environment = cluster.environment
    with log.open("ab") as errors:
        done = subprocess.run(
            command, cwd=cluster.folder, env=environment, stdout=subprocess.PIPE, stderr=errors, timeout=RUN_TIMEOUT_S, check=False
        )
    assert done.returncode == 0, log.read_text(encoding="utf-8", errors="replace")[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, list)
    return found
