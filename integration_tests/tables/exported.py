"""A topic, what is written to it, and exports of it into one table by the command."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from cli.outcome import Exit
from coordinator.adapters.objectstore import open_store
from coordinator.client.client import DisklessClient
from integration_tests.service import Service
from records.record_batch import Record

HERE = Path(__file__).parents[2]
PARTITIONS = 3
COMMAND_TIMEOUT_S = 120


@dataclass(slots=True)
class TopicUnderExport:
    """A topic, what is written to it, and exports of it into one table."""

    service: Service
    name: str
    to: str
    output: Path
    environment: dict[str, str] = field(default_factory=dict)
    values: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def store_url(self) -> str:
        return self.service.properties["object.store.url"]

    def create(self, **settings: str) -> None:
        self.asked(lambda client: client.admin.create_topic(self.name, PARTITIONS, settings=settings))

    def asked(self, question: Callable[[DisklessClient], Awaitable[Any]]) -> Any:
        async def ask() -> Any:
            options = {key.removeprefix("object.store.option."): value for key, value in self.service.properties.items() if "option" in key}
            async with DisklessClient(self.service.addresses, object_store=open_store(self.store_url, options)) as client:
                return await question(client)

        return asyncio.run(ask())

    def write(self, rng: random.Random, count: int, size: int = 20, timeless: int | None = None) -> None:
        """Append records to each partition, those of `timeless` without timestamps."""
        new = {partition: [rng.randbytes(size) for _ in range(count)] for partition in range(PARTITIONS)}
        now_ms = time.time_ns() // 1_000_000
        files = {
            (self.name, partition): [
                Record(timestamp_ms=-1 if partition == timeless else now_ms, key=b"k", value=value) for value in values
            ]
            for partition, values in new.items()
        }
        self.asked(lambda client: client.write(files))
        for partition, values in new.items():
            self.values[partition] += values

    def command(self, verb: str, *arguments: str) -> list[str]:
        options = ["--bootstrap-server", ",".join(self.service.addresses)]
        if verb == "export":
            options += ["--object-store-url", self.store_url]
            for key, value in self.service.properties.items():
                if key.startswith("object.store.option.") and "key" not in key:
                    options += ["--object-store-option", f"{key.removeprefix('object.store.option.')}={value}"]
        return [sys.executable, "-m", "cli.program", "tables", verb, self.name, "--to", self.to, *options, *arguments]

    def run(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.environment}
        command = self.command(verb, *arguments)
        return subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)

    def once(self, *arguments: str) -> None:
        done = self.run("export", "--once", *arguments)
        assert done.returncode == Exit.OK, done.stderr

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **self.environment}
        with self.output.open("ab") as output:
            command = self.command("export", *arguments)
            process = subprocess.Popen(command, cwd=HERE, env=environment, stdout=output, stderr=output, start_new_session=True)
        self.started.append(process)
        return process

    def said(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def table(self) -> DeltaTable:
        return DeltaTable(self.to.removeprefix("delta:"))

    def version(self) -> int:
        try:
            return self.table().version()
        except TableNotFoundError:
            return -1

    def check(self) -> None:
        """The table is the log: every offset once, with its value."""
        rows = self.table().to_pyarrow_table(columns=["partition", "offset", "value"])
        found = sorted(zip(*(rows.column(name).to_pylist() for name in ("partition", "offset", "value")), strict=True))
        assert len(found) == sum(map(len, self.values))
        assert found == self.log()

    def log(self) -> list[tuple[int, int, bytes]]:
        """Partition, offset and value of each record."""
        return [(partition, offset, value) for partition, values in enumerate(self.values) for offset, value in enumerate(values)]

    def end(self) -> None:
        """Kill what runs."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait(60)
