"""The integration tests of client libraries themselves, fetched when this runs, against gateways where every topic is diskless."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.dev.kafka import BrokerRuntime
from integration_tests.gateway.stranger_clients import SOURCES
from integration_tests.gateway.world import World

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]
FRANZ_LEFT_OUT = {
    "TestTxnEtl": "diskless topics have no transactions, and it produces in transactions until it succeeds",
    "TestShareGroup.*": "share groups cannot read diskless topics, and it reads until it has all records",
    "TestClient_Produce$": "it passes, after five minutes: 2 000 requests of 5 kB, one after the other",
}
"""Patterns of tests that would not end, or not soon."""
FRANZ_MAY_FAIL = {
    "Test848RegexBrokerResolves": "it stops after two topics with records, of which __consumer_offsets may be one if another node leads it:"
    " against three brokers without gateways it fails now and then, too",
}

RSKAFKA_TESTS = ("client", "consumer", "produce_consume", "producer")
"""All 59 that its authors run pass; those with Java beside it, and the one by a SOCKS proxy, end at once unless they are asked for."""


@pytest.fixture(scope="module")
def world(broker_runtime: BrokerRuntime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("suites"), broker_runtime) as made:
        made.start(1001, 1002, gateway_create_diskless="all")
        yield made


def test_franz_gos_own_tests(world: World, tmp_path: Path) -> None:
    asked = ["go", "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go"]
    module = subprocess.run(asked, cwd=SOURCES / "franz", capture_output=True, text=True, check=True, timeout=300).stdout.strip()
    copy = shutil.copytree(module, tmp_path / "franz", copy_function=shutil.copyfile)
    environment = {
        "KGO_SEEDS": ",".join(one.address for one in world.gateways.values()),
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "5000",
        "KGO_LOG_LEVEL": "none",
    }
    command = ["go", "test", "-json", "-count=1", "-parallel=6", "-timeout=20m", f"-skip={'|'.join(FRANZ_LEFT_OUT)}", "./pkg/kgo"]
    done = subprocess.run(command, cwd=copy, env={**os.environ, **environment}, capture_output=True, text=True, timeout=1300, check=False)
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ended = {one["Test"]: one["Action"] for one in events if one["Action"] in ("pass", "fail", "skip") and "Test" in one}
    failed = {name for name, action in ended.items() if action == "fail"}
    said = "".join(one.get("Output", "") for one in events if one.get("Test") in failed - set(FRANZ_MAY_FAIL))
    assert sum(action == "pass" and "/" not in name for name, action in ended.items()) > 130, done.stdout[-4000:] + done.stderr[-4000:]
    assert failed <= set(FRANZ_MAY_FAIL), said[-8000:]


def test_rskafkas_own_tests(world: World, tmp_path: Path) -> None:
    asked = ["cargo", "metadata", "--format-version=1", "--quiet"]
    known = json.loads(subprocess.run(asked, cwd=SOURCES / "rskafka", capture_output=True, text=True, check=True, timeout=300).stdout)
    [crate] = [Path(one["manifest_path"]).parent for one in known["packages"] if one["name"] == "rskafka"]
    # It names a version of the compiler, which may not be here.
    copy = shutil.copytree(crate, tmp_path / "rskafka", ignore=shutil.ignore_patterns("rust-toolchain.toml"))
    # Its lock file has a version of this library that newer compilers refuse.
    subprocess.run(["cargo", "update", "--quiet", "--package=rsasl"], cwd=copy, capture_output=True, check=True, timeout=300)
    environment = {
        "TEST_INTEGRATION": "1",
        "TEST_BROKER_IMPL": "kafka",
        "KAFKA_CONNECT": ",".join(one.address for one in world.gateways.values()),
    }
    command = ["cargo", "test", "--features=full", "--no-fail-fast", *(f"--test={name}" for name in RSKAFKA_TESTS)]
    done = subprocess.run(command, cwd=copy, env={**os.environ, **environment}, capture_output=True, text=True, timeout=1300, check=False)
    ended = dict(re.findall(r"^test (\S+) \.\.\. (\w+)$", done.stdout, re.MULTILINE))
    assert sum(result == "ok" for result in ended.values()) > 40, done.stdout[-4000:] + done.stderr[-4000:]
    assert [name for name, result in ended.items() if result == "FAILED"] == [], done.stdout[-8000:]
