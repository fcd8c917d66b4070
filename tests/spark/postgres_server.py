"""PostgreSQL for tests, where it is installed; `.ci/run` sees to that."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

from spark_jobs.store.engine import PostgresPlace

OTHER_USER = "postgres"
"""PostgreSQL does not run as root."""
GUARDED = "guarded"
"""A database of this name asks for a password."""
START_S = 60


class PostgresServer:
    """A server, which listens on a socket in the file system alone."""

    def __init__(self, program: str, folder: Path) -> None:
        self.url = f"postgresql://{OTHER_USER}@/postgres?host={quote(str(folder))}"
        self._program = program
        self._folder = folder
        self._numbers = count()
        self._process: subprocess.Popen[bytes] | None = None

    def place(self) -> PostgresPlace:
        """Return an empty schema of its own."""
        import psycopg

        name = f"store_{next(self._numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"create schema {name}".encode())
        return PostgresPlace(f"{self.url}&options={quote(f'-csearch_path={name}')}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = ["listen_addresses=", f"unix_socket_directories={self._folder}", "fsync=off", "max_connections=50"]
        words = [word for setting in settings for word in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            line = _as_other_user([self._program, "-D", str(self._folder / "data"), *words])
            self._process = subprocess.Popen(line, stdout=log, stderr=log, cwd=self._folder)
        self._wait(self._process)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it, also while connections are open; by SIGQUIT as a crash does, which loses transactions that were not on the disk."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S)
            self._process = None

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        import psycopg

        end_s = time.monotonic() + START_S
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError as error:
                if process.poll() is not None or time.monotonic() > end_s:
                    raise AssertionError((self._folder / "log").read_text()) from error
                time.sleep(0.05)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a server. Skips the test where there is none, or fails it where DISKLESS_TEST_POSTGRES=required."""
    program, initdb = _program("postgres"), _program("initdb")
    if program is None or initdb is None or find_spec("psycopg") is None:
        text = "PostgreSQL or psycopg is not installed (apt-get install postgresql; the extra `postgres`)"
        if os.environ.get("DISKLESS_TEST_POSTGRES") == "required":
            pytest.fail(text)
        pytest.skip(text)
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # the name of a socket may have 107 characters
    server = PostgresServer(program, folder)
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, OTHER_USER)
        make = [initdb, "-D", str(folder / "data"), "-A", "trust", "-U", OTHER_USER, "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(_as_other_user(make), check=True, capture_output=True, cwd=folder)
        rules = folder / "data" / "pg_hba.conf"
        rules.write_text(f"local {GUARDED} all scram-sha-256\n{rules.read_text()}")
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def _program(name: str) -> str | None:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(installed[-1]) if installed else shutil.which(name)


def _as_other_user(command: Sequence[str]) -> list[str]:
    """Run as another user than root, and end with the tests, however they end."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return list(command)
    user = ["--reuid", OTHER_USER, "--regid", OTHER_USER, "--clear-groups"] if os.geteuid() == 0 else []
    return [setpriv, *user, "--pdeathsig", "QUIT", "--", *command]
