"""A real REST catalog of a test's own: the reference server of Iceberg, over SQLite and a folder."""

from __future__ import annotations

import importlib.util
import os
import urllib.request
from pathlib import Path
from typing import Self

from cli.dev.ports import lease_ports
from cli.dev.process import ChildProcess, start_child
from cli.java.jars import resolve
from cli.java.java import find_java
from integration_tests.waiting import wait_until

LOCK = Path(__file__).with_name("rest_catalog.lock")
SERVER = "org.apache.iceberg.rest.RESTCatalogServer"


class RestCatalog:
    """The server. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (self._port,) = lease_ports(1)
        self._process: ChildProcess | None = None

    @property
    def url(self) -> str:
        """The address that clients take."""
        return f"http://127.0.0.1:{self._port.port}"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        spark = importlib.util.find_spec("pyspark")
        assert spark is not None
        assert spark.origin is not None
        # Its own jars first: PySpark has the libraries of Hadoop and JSON, and another edition of the servlets.
        jars = ":".join([*map(str, resolve(LOCK)), f"{Path(spark.origin).parent / 'jars'}/*"])
        environment = os.environ | {
            "CATALOG_URI": f"jdbc:sqlite:{self._folder / 'catalog.db'}",
            "CATALOG_WAREHOUSE": f"file://{self._folder / 'warehouse'}",
            "CATALOG_REST_PORT": str(self._port.port),
        }
        command = [str(find_java().program), "-Xmx256m", "-cp", jars, SERVER]
        self._process = start_child(command, marker=SERVER, log=self._folder / "server.log", environment=environment)
        wait_until(self._is_answering, "the REST catalog to answer")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
        self._port.close()

    def _is_answering(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/v1/config", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
