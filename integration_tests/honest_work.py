"""Lets an honest client work while others attack, and says what it saw and what the node made of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cli.dev.coordinator import CoordinatorProcess
from cli.dev.process import start_child
from integration_tests.waiting import wait_until

RSS_GROWTH_MAX_MB = 200.0
LOG_LINES_MAX = 300


@dataclass(slots=True)
class Seen:
    """What an honest client saw, filled at its end: how long its operations took, and answers that were wrong."""

    took_ms: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def rss_mb(pid: int) -> float:
    """Resident memory of a process in MB."""
    answer = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True, timeout=60)
    return int(answer.stdout) / 1024


@contextmanager
def honest_work(node: CoordinatorProcess, folder: Path, *, name: str, properties: Mapping[str, str] | None = None) -> Iterator[Seen]:
    """Let the honest client work around the attack inside, then hold the node to its promises.

    The client saw only right answers, memory and log grew by little, and the node says that it is healthy and ready.
    """
    assert node.process is not None
    host, _, port = node.address.rpartition(":")
    summary, log, seen = folder / "summary.json", folder / "honest.log", Seen()
    command = [sys.executable, "-m", "integration_tests.honest_client", host, port, str(summary), json.dumps(dict(properties or {}))]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    honest = start_child(command, marker="integration_tests.honest_client", log=log, environment=environment)
    try:
        wait_until(lambda: "running" in log.read_text() or not honest.is_running(), "the honest client to work")
        lines_before, rss_before = node.log_text().count("\n"), rss_mb(node.process.pid)
        yield seen
        rss_after, lines_after = rss_mb(node.process.pid), node.log_text().count("\n")
        honest.send(signal.SIGTERM)
        assert honest.wait(90) == 0, log.read_text()
    finally:
        honest.kill()
    found = json.loads(summary.read_text())
    seen.took_ms, seen.wrong = sorted(found["took_ms"]), found["wrong"]
    print(
        f"{name}: honest operations {len(seen.took_ms)}, p50 {seen.took_ms[len(seen.took_ms) // 2]:.1f} ms, "
        f"worst {seen.took_ms[-1]:.1f} ms; memory {rss_before:.0f} -> {rss_after:.0f} MB; log lines {lines_after - lines_before}"
    )
    assert seen.wrong == []
    assert rss_after - rss_before < RSS_GROWTH_MAX_MB
    assert lines_after - lines_before < LOG_LINES_MAX, node.log_tail(40)
    assert "Traceback" not in node.log_text(), node.log_tail(80)
    assert node.get("/healthy")[0] == 200
    assert node.readiness()[0], node.readiness()
