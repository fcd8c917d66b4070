"""A real Prometheus of a test's own, which scrapes once a second and evaluates the rules that are checked in."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import yaml

from cli.dev.ports import lease_ports
from cli.dev.process import ChildProcess, start_child
from helm.generator.write import FOLDER
from integration_tests.waiting import wait_until


class Sample(NamedTuple):
    """One series of an answer."""

    labels: Mapping[str, str]
    value: float


class Prometheus:
    """`targets` are addresses by scrape job, `scrape` is what else its configuration says of all jobs. Use as a context manager."""

    def __init__(
        self, program: str, folder: Path, targets: Mapping[str, Sequence[str]], scrape: Mapping[str, object] | None = None
    ) -> None:
        self._program = program
        self._scrape = scrape or {}
        self._folder = folder
        self._targets = targets
        (self._port,) = lease_ports(1)
        self._process: ChildProcess | None = None
        self.log_file = folder / "prometheus.log"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(path) for path in sorted(FOLDER.glob("rules/*.yaml"))],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(addresses)}], **self._scrape}
                for job, addresses in self._targets.items()
            ],
        }
        file = self._folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config))
        command = [
            self._program,
            f"--config.file={file}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port.port}",
        ]
        self._process = start_child(command, marker="prometheus", log=self.log_file)
        wait_until(self._is_ready, "Prometheus to be ready", excused=OSError)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
        self._port.close()

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.is_running(), self.log_file.read_text()
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port.port}/-/ready", timeout=30) as answer:
            return bool(answer.status == 200)

    def query(self, expr: str, *, at_s: float | None = None) -> list[Sample]:
        """Evaluate an expression, now or at a time. Fails with Prometheus' own words if it cannot be evaluated."""
        asked = {"query": expr} if at_s is None else {"query": expr, "time": f"{at_s:.3f}"}
        url = f"http://127.0.0.1:{self._port.port}/api/v1/query?{urllib.parse.urlencode(asked)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                found = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expr}: {error.read().decode()}") from error
        return [Sample(one["metric"], float(one["value"][1])) for one in found]

    def firing(self) -> set[str]:
        """Names of the alerts that fire now."""
        return {one.labels["alertname"] for one in self.query('ALERTS{alertstate="firing"}')}
