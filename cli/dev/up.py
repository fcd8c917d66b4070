"""`diskless dev up`: the life of one development service in the foreground, from the data folder to the last trace of it.

Progress goes to standard error, the addresses and what to try to standard output. SIGINT and SIGTERM stop it at any
moment, also while it starts. Invariant: however this returns, no process it started runs, and no file of it is left but
the data folder the user named.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from cli.dev.coordinator import CoordinatorFailedError
from cli.dev.dashboard import DevDashboard
from cli.dev.demo import DemoLoad
from cli.dev.dev_gateway import DevGateway
from cli.dev.guide import guide
from cli.dev.kafka import KafkaStartError
from cli.dev.kafka.prepare import RuntimeUnavailableError
from cli.dev.kafka.storage import StorageError
from cli.dev.local_service import LOOK_EVERY_S, LocalService, ServiceFailedError
from cli.dev.monitor import DevMonitor
from cli.dev.ports import NoPortError
from cli.dev.process import reap_leftovers
from cli.dev.running import TEMPORARY_PREFIX, FolderInUseError, FolderLock, find_running, register
from cli.java.jars import JarError
from cli.java.java import NoJavaError
from cli.outcome import Exit, Failed
from coordinator.printable import indented

FACTS_FILE = "dev.json"
GATEWAY_FOLDER = "gateway"
MONITOR_FOLDER = "monitor"
DASHBOARD_FOLDER = "dashboard"
DEFAULT_PARTITIONS = 8

# Errors with causes outside of this program; each text names the remedy.
EXPECTED_ERRORS = (
    CoordinatorFailedError,
    JarError,
    KafkaStartError,
    NoJavaError,
    NoPortError,
    RuntimeUnavailableError,
    ServiceFailedError,
    StorageError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """The user's choices. `folder` None: a temporary one. `partitions` None: those of the folder, 8 in a new one."""

    nodes: int
    partitions: int | None
    folder: Path | None
    demo: bool
    gateway: bool
    monitor: bool
    dashboard: bool
    restart_after_s: float


class _StopAsked(BaseException):
    """SIGINT or SIGTERM came while something was waited for."""


class _Signals:
    """Turns the first SIGINT or SIGTERM into `_StopAsked`; later ones are only acknowledged, for the end is under way."""

    def __init__(self) -> None:
        self.is_asked = False

    def __enter__(self) -> _Signals:
        self._former = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_asked:
            os.write(2, b"it is stopping already\n")  # print could be under way in the line that was interrupted
            return
        self.is_asked = True
        raise _StopAsked


def say(text: str) -> None:
    """Print a line of progress for people, with the time."""
    print(indented(f"{time.strftime('%H:%M:%S')} {text}"), file=sys.stderr, flush=True)


def run_up(options: UpOptions) -> None:
    """Start, announce, and stay until a signal. Raises `Failed`."""
    start_s = time.monotonic()
    reap_leftovers()
    find_running()  # clears what those left that were killed
    is_ours = False
    with _Signals() as signals, ExitStack() as stack:
        try:
            folder = stack.enter_context(_data_folder(options.folder))
            is_ours = True
            service = LocalService(
                folder=folder,
                nodes=options.nodes,
                partitions=_partitions(folder, options.partitions),
                restart_after_s=options.restart_after_s,
                clean=options.folder is not None,
                say=say,
            )
            stack.callback(service.stop)
            service.start()
            gateway = DevGateway(service, folder / GATEWAY_FOLDER, say) if options.gateway else None
            if gateway is not None:
                stack.callback(gateway.stop)
                gateway = gateway if gateway.start() else None
            monitor = DevMonitor(service.kafka.bootstrap, folder / MONITOR_FOLDER, say) if options.monitor else None
            if monitor is not None:
                stack.callback(monitor.stop)
                monitor = monitor if monitor.start() else None
            page = _dashboard(service, folder) if options.dashboard and monitor is not None else None
            if page is not None:
                stack.callback(page.stop)
                page.start()
            demo = DemoLoad(service.addresses, service.objects, kafka=service.kafka.bootstrap, say=say) if options.demo else None
            if demo is not None:
                stack.callback(demo.stop)
                demo.start()
            page = page if page is None or page.wait_ready() else None
            took_s = time.monotonic() - start_s
            text = guide(service, gateway, monitor, page, demo=demo is not None, temporary=options.folder is None, took_s=took_s)
            print(text, flush=True)
            while not signals.is_asked:
                service.look()
                if demo is not None:
                    demo.look()
                if gateway is not None:
                    gateway.look()
                if monitor is not None:
                    monitor.look()
                if page is not None:
                    page.look()
                time.sleep(LOOK_EVERY_S)
        except _StopAsked:
            pass
        except FolderInUseError as error:
            raise Failed(str(error)) from error
        except EXPECTED_ERRORS as error:
            say("stopping everything")
            raise Failed(str(error)) from error
        finally:
            signals.is_asked = True  # from here on a signal must not interrupt the end
            if is_ours:  # else another one runs there, or nothing was begun
                say("stopping")
            stop_s = time.monotonic()
            stack.close()
            if is_ours:
                say(f"stopped in {time.monotonic() - stop_s:.1f} s; nothing is left running")


def _dashboard(service: LocalService, folder: Path) -> DevDashboard:
    coordinators = [process.http.removeprefix("http://").rstrip("/") for process in service.processes]
    return DevDashboard(monitor_folder=folder / MONITOR_FOLDER, coordinators=coordinators, folder=folder / DASHBOARD_FOLDER, say=say)


@contextmanager
def _data_folder(chosen: Path | None) -> Iterator[Path]:
    """Make and hold the data folder; a temporary one is deleted at the end."""
    if chosen is None:
        folder = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)).resolve()
    else:
        folder = chosen.expanduser().resolve()
        folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = FolderLock(folder)
        try:
            entry = register(folder, temporary=chosen is None)
            try:
                yield folder
            finally:
                entry.unlink(missing_ok=True)
        finally:
            lock.release()
    finally:
        if chosen is None:
            shutil.rmtree(folder)


def _partitions(folder: Path, chosen: int | None) -> int:
    """The number of metadata partitions: it belongs to the topic in the folder, so it cannot be chosen a second time."""
    facts = folder / FACTS_FILE
    if facts.exists():
        stored = int(json.loads(facts.read_text(encoding="utf-8"))["partitions"])
        if chosen not in (None, stored):
            raise Failed(
                f"{folder} has a metadata topic with {stored} partitions, not {chosen}: leave --partitions out, or use a new folder",
                Exit.USAGE,
            )
        return stored
    partitions = chosen or DEFAULT_PARTITIONS
    facts.write_text(json.dumps({"partitions": partitions}), encoding="utf-8")
    return partitions
