"""A standalone cluster of Spark: a master and workers as processes of their own.

    with SparkCluster(folder, python, workers_have={"AWS_ACCESS_KEY_ID": ...}) as cluster:
        ...  # an application that has `cluster.settings`, and runs on `cluster.master`

Workers run with the Python that is given; nothing of this process' environment is handed on to them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from cli.dev.ports import lease_ports
from cli.dev.process import ChildProcess, start_child
from cli.java.java import find_java
from integration_tests.waiting import wait_until
from spark_jobs.settings import JVM_OPTIONS

MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
JAVA: Final = """#!/bin/bash
# Spark asks for a module that the Java of some wheels does not have; linear algebra alone uses it.
words=()
for word; do [ "$word" = --add-modules=jdk.incubator.vector ] || words+=("$word"); done
exec "{program}" "${{words[@]}}"
"""


class SparkCluster:
    """See the module's text."""

    def __init__(self, folder: Path, python: Path, *, workers: int = 2, workers_have: Mapping[str, str] | None = None) -> None:
        """`workers_have` are environment variables of workers, which drivers have not."""
        self.folder = folder
        self.python = python
        self.workers = workers
        [self._spark] = python.parents[1].glob("lib/python*/site-packages/pyspark")
        self._workers_have = workers_have or {}
        self._ports = lease_ports(1)
        self._running: list[ChildProcess] = []
        self._java = folder / "java/bin/java"
        self._java.parent.mkdir(parents=True)
        self._java.write_text(JAVA.format(program=find_java().program), encoding="utf-8")
        self._java.chmod(0o755)

    @property
    def master(self) -> str:
        """The URL of the master."""
        return f"spark://127.0.0.1:{self._ports[0].port}"

    @property
    def settings(self) -> dict[str, str]:
        """Settings of applications: an executor on each worker, all of which are there before the first task."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(self.workers),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self._events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of all processes."""
        return {
            "PATH": "/usr/bin:/bin",
            "JAVA_HOME": str(self._java.parents[1]),
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "PYSPARK_PYTHON": str(self.python),
            "SPARK_HOME": str(self._spark),
            "SPARK_SCALA_VERSION": "2.13",  # else workers look for it in folders that only a build has
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }

    def __enter__(self) -> Self:
        self._events.mkdir()
        try:
            self._start("master", MASTER, "--port", str(self._ports[0].port), says="New state: ALIVE")
            for number in range(self.workers):
                work = str(self.folder / f"work-{number}")
                limits = ("--cores", "1", "--memory", "1g", "--work-dir", work)
                self._start(f"worker-{number}", WORKER, *limits, self.master, says="Successfully registered with master")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # Executors end by themselves when their worker is gone.
        for one in reversed(self._running):
            one.kill()
        for port in self._ports:
            port.close()

    def executors_of_tasks(self) -> dict[str, set[str]]:
        """Return the executors on which tasks of each application have ended, by its name, as the event logs tell."""
        found: dict[str, set[str]] = {}
        for log in sorted(self._events.iterdir()):
            events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            name = next(one["App Name"] for one in events if one["Event"] == "SparkListenerApplicationStart")
            ended = {one["Task Info"]["Executor ID"] for one in events if one["Event"] == "SparkListenerTaskEnd"}
            found[name] = found.get(name, set()) | ended
        return found

    def files_with(self, text: str) -> list[str]:
        """Return the logs of master, workers, executors and drivers, and the event logs, that hold a text."""
        logs = [one for pattern in ("*.log", "events/*", "work-*/*/*/std*") for one in self.folder.glob(pattern)]
        return [str(one.relative_to(self.folder)) for one in logs if text.encode() in one.read_bytes()]

    @property
    def _events(self) -> Path:
        return self.folder / "events"

    def command(self, program: str, words: Sequence[str]) -> Sequence[str]:
        """Return the command line of a process."""
        where = ["-cp", f"{self._spark}/jars/*", program, "--host", "127.0.0.1", "--webui-port", "0"]
        return [str(self._java), *JVM_OPTIONS, *where, *words]

    def _start(self, name: str, program: str, *words: str, says: str) -> None:
        log = self.folder / f"{name}.log"
        environment = {**self.environment, **(self._workers_have if program == WORKER else {})}
        child = start_child(self.command(program, words), marker=program, log=log, environment=environment)
        self._running.append(child)

        def has_said() -> bool:
            assert child.is_running(), log.read_text(encoding="utf-8", errors="replace")[-5000:]
            return says in log.read_text(encoding="utf-8", errors="replace")

        wait_until(has_said, f"the {name} to say {says!r}")
