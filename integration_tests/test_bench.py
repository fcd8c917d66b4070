"""`diskless bench` measures a real service and checks every answer; how fast it is depends on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.bench.counters import log_counts
from cli.dev.coordinator import CoordinatorProcess
from cli.dev.kafka import Kafka
from cli.outcome import Exit
from integration_tests.secured_service import PASSWORDS, SecuredService
from integration_tests.waiting import wait_until

ONE_SHORT_RUN = ("--batches-per-file", "10", "--runs", "1", "--warm-up", "0", "--window", "0.5", "--connections", "2", "--depth", "2")


def batches_of(node: CoordinatorProcess) -> float:
    return log_counts([f"{node.http}/metrics"]).batches


def test_bench_starts_what_it_needs_and_prints_figures() -> None:
    options = ["--batches-per-file", "10,100", "--runs", "1", "--warm-up", "0.5", "--window", "1", "--connections", "2", "--depth", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "cli.program", "bench", *options, "-o", "json"], capture_output=True, text=True, timeout=280, check=False
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


def test_bench_loads_nodes_that_want_tls_and_a_login(kafka: Kafka, tmp_path: Path) -> None:
    with SecuredService(kafka.bootstrap, tmp_path, partitions=1) as service:
        service.start(1)
        given = tmp_path / "client.properties"
        given.write_text(
            f"node.security.protocol=SASL_SSL\nnode.ssl.truststore.location={service.ca.ca_file}\nnode.sasl.mechanism=SCRAM-SHA-256\n"
            f"node.sasl.username=admin\nnode.sasl.password={PASSWORDS['admin']}\n",
            encoding="utf-8",
        )
        servers = ("--bootstrap-server", service.addresses[0], "--kafka-bootstrap-server", kafka.bootstrap, "--command-config", str(given))
        command = [sys.executable, "-m", "cli.program", "bench", *servers, *ONE_SHORT_RUN, "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(done.stdout)
        assert row["errors"] == 0
        assert row["batches_per_s"] > 0
        wrong = subprocess.run(
            [*command, "--command-property", "node.sasl.password=wrong"], capture_output=True, text=True, timeout=280, check=False
        )
        assert wrong.returncode != Exit.OK
        assert "the user name or the password is wrong" in wrong.stderr
        assert "defect" not in wrong.stderr


@pytest.mark.long
def test_bench_says_which_failed_when_its_only_node_is_killed(kafka: Kafka, tmp_path: Path) -> None:
    properties = {"diskless.metadata.topic.num.partitions": "1", "metadata.topic": "bench-killed", "group.id": "bench-killed"}
    node = CoordinatorProcess(1, bootstrap=kafka.bootstrap, folder=tmp_path, properties=properties)
    try:
        node.start()
        node.wait_ready()
        servers = ("--bootstrap-server", node.address, "--kafka-bootstrap-server", kafka.bootstrap, "--metrics-url", f"{node.http}/metrics")
        options = (*ONE_SHORT_RUN[:-6], "--window", "3600")
        bench = subprocess.Popen(
            [sys.executable, "-m", "cli.program", "bench", *servers, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        wait_until(lambda: batches_of(node) > 0, "the load to begin")
        node.kill()
        _, said = bench.communicate(timeout=120)
    finally:
        node.close()
    assert bench.returncode == Exit.UNAVAILABLE, said
    assert "the load cannot go on" in said
    assert "defect" not in said
