"""How the program ends as a process: signals, outputs that take nothing, streams that are closed, bytes that are no text."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import cli
from cli.ending import describe, wake_for_signals
from cli.outcome import Exit
from integration_tests.waiting import wait_until
from tests.cli.hostile import files_below

HERE = Path(cli.__file__).parents[1]
PROGRAM = (sys.executable, "-m", "cli.program")
PATIENCE_S = 60.0
KILL_S = 5.0
"""Long enough for the kernel to kill a process, and too short for one to come to its own end."""
LONG = ("--timeout", "600")

# Commands that would wait ten minutes for somebody who does not answer, with {address} for where that is.
WAITING = {
    "init": ("init", "--bootstrap-server", "{address}", *LONG),
    "doctor": ("doctor", "--kafka-bootstrap-server", "{address}", *LONG),
    "doctor-nodes": ("doctor", "--bootstrap-server", "{address}", *LONG),
    "log-dump": ("log", "dump", "--bootstrap-server", "{address}", *LONG),
    "topics-list": ("topics", "list", "--bootstrap-server", "{address}", *LONG),
    "records-delete": ("records", "delete", "orders", "0", "--before-offset", "1", "--yes", "--bootstrap-server", "{address}", *LONG),
    "verify": ("monitor", "verify", "--bootstrap-server", "{address}", "--kafka-bootstrap-server", "{address}", *LONG),
}


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DISKLESS_")}
    return kept | {"PYTHONPATH": str(HERE), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def take_interrupts() -> None:
    """Take SIGINT as a process on a terminal does, also where a shell started the tests in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def started(*words: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(folder),
        start_new_session=True,
        preexec_fn=take_interrupts,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run(*words: str | bytes, folder: Path, shell: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command line; `shell` is what redirects its streams, as a shell writes it."""
    command = ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", *PROGRAM, *words]
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder),
        timeout=PATIENCE_S,
        check=False,
    )


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    wait_until(lambda: condition() or process.poll() is not None, "the process", PATIENCE_S)
    assert condition() or process.poll() is None, process.communicate()


def session(process: subprocess.Popen[str]) -> set[int]:
    """The processes of a process's session that are no zombies, itself left out."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == process.pid and fields[0] not in "ZX":
            found.add(int(stat.parent.name))
    return found - {process.pid}


def wait_for_last(process: subprocess.Popen[str]) -> None:
    """Wait until nothing of an ended process is left: the kernel kills what it had begun, and that needs a core to end on."""
    wait_until(lambda: session(process) == set(), "the last process of the session to end", KILL_S)


def end(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Send the signal; the process ends with nothing of it left. Returns what it said."""
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in set(Exit), (process.returncode, said)
    assert "Traceback" not in said
    wait_for_last(process)
    return said


def test_a_signal_that_ends_the_command_is_sent_again_until_it_is_heard() -> None:
    told, tells = os.pipe()
    os.write(tells, bytes([signal.SIGCHLD, signal.SIGINT]))
    os.close(tells)
    sent: list[int] = []
    wake_for_signals(told, lambda _number: len(sent) == 3, sent.append)
    os.close(told)
    assert sent == [signal.SIGINT] * 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", WAITING)
def test_a_signal_ends_a_command_long_before_its_wait_is_over(command: str, number: signal.Signals, tmp_path: Path) -> None:
    # Connections are accepted by the kernel and never answered.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        words = [word.format(address=address) for word in WAITING[command]]
        with started(*words, folder=tmp_path) as process:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)  # it asks, and waits for an answer
                said = end(process, number)
    assert said.strip().splitlines()[-1].startswith("diskless: stopped by a signal")
    assert files_below(tmp_path) == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_simulations_in_several_processes_leave_none_of_them(number: signal.Signals, tmp_path: Path) -> None:
    with started("simulate", "--seeds", "0..500", "--jobs", "2", "--virtual-seconds", "600", folder=tmp_path) as process:
        wait_for(lambda: len(session(process)) >= 2, process)
        if number is signal.SIGKILL:
            process.kill()
            process.wait(PATIENCE_S)
            wait_for_last(process)
        else:
            end(process, number)
    assert files_below(tmp_path) == set()


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("config", "show", "--docs"), ("config", "show", "--docs", "-o", "yaml"), ("completion", "bash")]
)
def test_an_output_that_takes_nothing_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*words, folder=tmp_path, shell=">/dev/full")
    assert done.returncode == Exit.FAILURE
    assert done.stderr.splitlines() == ["diskless: standard output: No space left on device; free some space there"]


def test_a_reader_that_leaves_is_no_reason_for_words(tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m cli.program config show --docs -o jsonl | head -c 10 >/dev/null'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, cwd=tmp_path, env=environment(tmp_path), check=False)
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_streams_that_are_closed_end_nothing(shell: str, tmp_path: Path) -> None:
    done = run("config", "show", "--docs", folder=tmp_path, shell=shell)
    assert done.returncode == Exit.OK, done.stderr
    assert "Traceback" not in done.stderr
    packed = run("files", "pack", "--out", "a.wal", folder=tmp_path, shell=shell)
    assert packed.returncode == Exit.FAILURE, packed.stderr
    assert files_below(tmp_path) == set()


def test_bytes_that_are_no_text_are_a_usage_error(tmp_path: Path) -> None:
    done = run("db", "dump", b"caf\xe9.db", folder=tmp_path)
    assert done.returncode == Exit.USAGE
    assert done.stderr.startswith("diskless: argument 3 is no text in UTF-8: caf\\xe9.db;")


def test_a_defect_is_one_line_that_names_where_the_details_are(tmp_path: Path) -> None:
    script = (
        "from cli.main import root\n@root.command('odd')\ndef odd() -> None: raise KeyError('a\\nb')\nroot(['odd'], prog_name='diskless')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, env=environment(tmp_path), check=False
    )
    assert done.returncode == Exit.FAILURE
    (line,) = done.stderr.splitlines()
    assert line.startswith("diskless: a defect of diskless: KeyError:")
    (kept,) = tmp_path.iterdir()
    assert str(kept) in line
    assert "Traceback" in kept.read_text()


def test_a_defect_whose_text_cannot_be_told_is_named_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class JvmIsGone(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert describe(JvmIsGone()).startswith("a defect of diskless: JvmIsGone; please report it with ")
    assert "JvmIsGone" in next(tmp_path.iterdir()).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("listener", "reason"),
    [
        ("127.0.0.1:{taken}", "another process listens there"),
        ("192.0.2.1:9192", "does not have that address"),
        ("host.invalid:9192", "resolved"),
    ],
)
@pytest.mark.parametrize("key", ["listeners", "http.listener"])
def test_a_node_that_cannot_listen_says_why(key: str, listener: str, reason: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = listener.format(taken=taken.getsockname()[1])
        settings = {"node.id": "1", "bootstrap.servers": "127.0.0.1:1", "data.dirs": "data", "object.store.url": "file:///objects"}
        settings |= {"listeners": "PLAINTEXT://127.0.0.1:0", "http.listener": "127.0.0.1:0"}
        settings[key] = f"PLAINTEXT://{address}" if key == "listeners" else address
        given = [word for item in settings.items() for word in ("--property", "=".join(item))]
        done = run("coordinator", "run", *given, folder=tmp_path)
    assert done.returncode == Exit.FAILURE
    assert reason in done.stderr
    assert key in done.stderr
    assert "Traceback" not in done.stderr
