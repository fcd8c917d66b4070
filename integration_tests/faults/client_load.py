"""Clients of others that write and follow a diskless topic through gateways while those fail: Java's, librdkafka's and franz-go's.

Each library has an idempotent producer, and a group of two members, the first in zone `za`, the second in `zb`: they name their zones in
their client ids. The programs are those of `integration_tests/gateway/strangers`; each logs its rows to a file of its own.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import IO, Final, Self

from cli.dev.process import ChildProcess, start_child
from integration_tests.faults.client_history import ClientHistory, Row
from integration_tests.faults.waits import Waits
from integration_tests.gateway.stranger_clients import FRANZ, JAVA, LIBRDKAFKA, Stranger
from integration_tests.waiting import WAIT_S, holds_within

LIBRARIES: Final = {"java": JAVA, "librdkafka": LIBRDKAFKA, "franz": FRANZ}
MEMBERS: Final = tuple(f"{library}-{number}" for library in LIBRARIES for number in (1, 2))
WRITERS: Final[Mapping[str, str]] = {"java": "za", "librdkafka": "za", "franz": "zb"}
"""The zones of writers, by their library."""
RECORDS_PER_S: Final = 40
END_TIMEOUT_S: Final = 180.0
END_AFTER_ERROR_S: Final = 30.0
BY_SIGTERM: Final = (0, 128 + signal.SIGTERM)
"""Exit statuses of programs that ended when they were told to; the second is that of Java."""
SHOWN_LINES: Final = 25


class ClientProgram:
    """A client. Started again it is another process, with a log of its own, that is called `NAME.2`."""

    def __init__(self, name: str, library: Stranger, log_folder: Path, words: Sequence[str], *, client_id: str, group: str | None) -> None:
        """`words` are the arguments; `group` is that of a member."""
        self.name = name
        self._library = library
        self._log_folder = log_folder
        self._words = words
        self._client_id = client_id
        self._group = group
        self._protocol = "classic"
        self._lives = 0
        self._log: IO[str] | None = None
        self._unread: list[Row] = []
        self.process: ChildProcess | None = None

    def start(self, protocol: str = "") -> None:
        """Start a process, in a group by this protocol or the one before."""
        self._protocol = protocol or self._protocol
        self._unread += self._rows_of_log()
        self._lives += 1
        file = self._log_folder / f"{self.life}.log"
        given = {"STRANGER_CLIENT_ID": self._client_id, "STRANGER_GROUP_PROTOCOL": self._protocol}
        command = [*self._library.command(), *self._words]
        self.process = start_child(command, marker=self._words[0], log=file, environment={**os.environ, **given})
        self._log = file.open(encoding="utf-8", errors="replace")

    @property
    def life(self) -> str:
        """The name of the process."""
        return self.name if self._lives < 2 else f"{self.name}.{self._lives}"

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.is_running()

    def running(self) -> ChildProcess:
        """The process."""
        assert self.process is not None, f"{self.name} was not started"
        return self.process

    def kill(self) -> None:
        """SIGKILL; nothing if it does not run."""
        if self.process is not None:
            self.process.kill()

    def rows(self) -> list[Row]:
        """What was printed since the last look; other lines are left in the log."""
        found, self._unread = [*self._unread, *self._rows_of_log()], []
        return found

    def _rows_of_log(self) -> Iterator[Row]:
        while self._log is not None:
            at = self._log.tell()
            line = self._log.readline()
            if not line.endswith("\n"):  # the rest may come, unless the process was killed
                self._log.seek(at)
                return
            if line.startswith("{"):
                yield {"who": self.life, **({"group": self._group} if self._group else {}), **json.loads(line)}

    def log_tail(self) -> str:
        """The end of what it printed that is no row."""
        lines = (self._log_folder / f"{self.life}.log").read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([line for line in lines if not line.startswith("{")][-SHOWN_LINES:])


class ClientLoad:
    """See the module's text: a context manager. Left, it lets writers end and groups read everything before they end; after an error for a
    short time, and without a word when they do not: what did not fail is judged then.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, log_folder: Path, waits: Waits, *, seed: int) -> None:
        self.history = ClientHistory()
        self._waits = waits
        chance = Random(seed)
        writers = [
            ClientProgram(
                f"{name}-writer",
                library,
                log_folder,
                ("write", bootstrap, topic, str(partitions), f"{name}-writer", str(RECORDS_PER_S)),
                client_id=f"diskless_az={WRITERS[name]}",
                group=None,
            )
            for name, library in LIBRARIES.items()
        ]
        members = [
            ClientProgram(
                f"{name}-{number}",
                library,
                log_folder,
                ("follow", bootstrap, topic, name),
                client_id=f"diskless_az={'za' if number == 1 else 'zb'}",
                group=name,
            )
            for name, library in LIBRARIES.items()
            for number in (1, 2)
        ]
        self.protocols = {name: chance.choice(library.protocols) for name, library in LIBRARIES.items()}
        self.writers = {one.name: one for one in writers}
        self.members = {one.name: one for one in members}

    def __enter__(self) -> Self:
        for one in self.writers.values():
            one.start()
        for name, one in self.members.items():
            one.start(self.protocols[name.partition("-")[0]])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is None:
                self._finish(END_TIMEOUT_S)
            elif isinstance(error, Exception):
                with suppress(AssertionError):
                    self._finish(END_AFTER_ERROR_S)
        finally:
            for one in self._programs:
                one.kill()
            self.look()

    @property
    def _programs(self) -> list[ClientProgram]:
        return [*self.writers.values(), *self.members.values()]

    @property
    def is_running(self) -> bool:
        """Whether all writers run; members may be killed by faults."""
        return all(one.is_running for one in self.writers.values())

    def look(self) -> None:
        """Take what was printed."""
        for one in self._programs:
            for row in one.rows():
                self.history.take(row)

    def wait_flowing(self, more: int = 3, timeout_s: float = WAIT_S) -> None:
        """Wait until every writer had so many acknowledgements more, and every group as many records."""
        self.look()
        wanted = {name: number + more for name, number in self._progress().items()}

        def is_flowing() -> bool:
            self.look()
            for one in self._programs:
                assert one.is_running, f"{one.life} ended with status {one.running().exit_status()}\n{one.log_tail()}"
            progress = self._progress()
            return all(progress[name] >= number for name, number in wanted.items())

        if not holds_within(timeout_s, is_flowing):
            behind = {name: f"{self._progress()[name]} of {number}" for name, number in wanted.items() if self._progress()[name] < number}
            raise AssertionError(f"waited {timeout_s:g} s in vain for records: {behind}")

    def _progress(self) -> dict[str, int]:
        written = {name: len(one.acknowledged) for name, one in self.history.writers.items()}
        given = {name: len(places) for name, places in self.history.given.items()}
        return {**dict.fromkeys((*self.writers, *LIBRARIES), 0), **written, **given}

    def _finish(self, timeout_s: float) -> None:
        for one in self.writers.values():
            one.running().send(signal.SIGTERM)
        self._wait_ended(self.writers, timeout_s)
        with self._waits.on("the groups to have all records") as wait:

            def have_all() -> bool:
                self.look()
                lacking = self.history.lacks(LIBRARIES)
                wait.detail = f"they lack {lacking}"
                return not lacking

            holds_within(timeout_s, have_all)  # what is missing is the checker's to say
        for one in self.members.values():
            one.running().send(signal.SIGTERM)
        self._wait_ended(self.members, timeout_s)
        for one in self._programs:
            status = one.running().exit_status()
            assert status in BY_SIGTERM, f"{one.life} ended with status {status}\n{one.log_tail()}"

    def _wait_ended(self, programs: Mapping[str, ClientProgram], timeout_s: float) -> None:
        with self._waits.on("clients to end") as wait:

            def have_ended() -> bool:
                wait.detail = ", ".join(one.life for one in programs.values() if one.is_running)
                return not wait.detail

            if not holds_within(timeout_s, have_ended):
                raise AssertionError(f"waited {timeout_s:g} s in vain for {wait}")
