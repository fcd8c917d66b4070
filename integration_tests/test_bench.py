"""`diskless bench` measures a real service and checks every answer; how fast it is depends on the machine."""

from __future__ import annotations

import json
import subprocess
import sys


def test_bench_starts_what_it_needs_and_prints_figures() -> None:
    options = ["--batches-per-file", "10,100", "--runs", "1", "--warm-up", "0.5", "--window", "1", "--connections", "2", "--depth", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "bench", *options, "-o", "json"], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["batches_per_file"] for row in rows] == [10, 100]
    for row in rows:
        assert row["errors"] == 0
        assert row["batches_per_s"] > 0
        assert row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"]
        assert row["raw_p50_ms"] > 0
        assert row["log_bytes_per_batch"] > 0
        assert row["coordinator_us_per_batch"] > 0
    assert rows[0]["raw_sqlite_rows_per_s"] > 0
