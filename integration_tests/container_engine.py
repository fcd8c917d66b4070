"""A container engine for tests: the one that answers at DOCKER_HOST, else a private one that ends with the test and leaves nothing.

A private engine touches no rules of the machine's network: containers reach each other in a network that they share, and the machine itself
through `--network host`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from cli.dev.process import ChildProcess, start_child
from integration_tests.waiting import wait_until

BASE: Final = "python:3.11-slim-bookworm"
CA: Final = "/etc/ssl/certs/ca-certificates.crt"
PULL_TIMEOUT_S: Final = 120
COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"
"""What images are told that they are built from."""


def _missing(text: str) -> None:
    """Skip the test, or fail it where DISKLESS_TEST_DOCKER=required."""
    if os.environ.get("DISKLESS_TEST_DOCKER") == "required":
        pytest.fail(text)
    pytest.skip(text)


class ContainerEngine:
    """Use as a context manager. Skips the test where no engine can be used."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._daemon: ChildProcess | None = None
        self._environment = dict(os.environ)
        # Debian's own client knows BuildKit's protocol of its daemon; another one on PATH may not.
        self._client = "/usr/bin/docker" if Path("/usr/bin/docker").exists() else (shutil.which("docker") or "")

    def __enter__(self) -> Self:
        if not self._client:
            _missing("no docker client is installed (apt-get install docker.io)")
        if "DOCKER_HOST" not in os.environ and not self._answers():
            self._start_daemon()
        if not self._answers():
            _missing("no container engine answers")
        return self

    def _answers(self) -> bool:
        return self.try_run("version").returncode == 0

    def _start_daemon(self) -> None:
        program = shutil.which("dockerd")
        if program is None or os.geteuid() != 0:
            _missing("no container engine answers, and a private one needs dockerd and root (apt-get install docker.io)")
            return
        socket = self._folder / "docker.sock"
        self._environment["DOCKER_HOST"] = f"unix://{socket}"
        own = ["--data-root", str(self._folder / "data"), "--exec-root", str(self._folder / "exec"), "-p", str(self._folder / "pid")]
        network = ["--ip", "127.0.0.1", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        self._daemon = start_child([program, *network, *own, "-H", f"unix://{socket}"], marker="dockerd", log=self._folder / "dockerd.log")
        wait_until(lambda: self._answers() or not self._is_running(), "the container engine")
        if not self._is_running():
            _missing(f"a private container engine does not start: {(self._folder / 'dockerd.log').read_text()[-2000:]}")

    def _is_running(self) -> bool:
        return self._daemon is not None and self._daemon.is_running()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._daemon is None:
            return
        running = self.try_run("ps", "-aq").stdout.split()
        if running:
            self.try_run("rm", "-f", *running)
        self.try_run("network", "prune", "-f")  # else their bridges stay
        self._daemon.send(signal.SIGTERM)
        self._daemon.wait(60)
        for mount in reversed(Path("/proc/mounts").read_text(encoding="utf-8").splitlines()):
            place = mount.split(" ")[1]
            if place.startswith(str(self._folder)):
                subprocess.run(["umount", place], check=True, timeout=60)
        shutil.rmtree(self._folder)

    # ---- commands

    def try_run(self, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """Run the client; whatever its status."""
        # The older builder makes every stage before the one that is wanted.
        environment = {**self._environment, "DOCKER_BUILDKIT": "1"}
        return subprocess.run([self._client, *arguments], capture_output=True, text=True, env=environment, timeout=timeout_s, check=False)

    def run(self, *arguments: str, timeout_s: float = 120) -> str:
        """Run the client; what it printed. Fails the test when it fails."""
        done = self.try_run(*arguments, timeout_s=timeout_s)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    def image(self, context: Path, target: str, *, timeout_s: float) -> str:
        """The image of a target: the one that DISKLESS_TEST_IMAGE_<TARGET> names, else one that is built now.

        It is built on `BASE`, which is pulled, or made of Debian's packages where no registry can be reached.
        """
        given = os.environ.get(f"DISKLESS_TEST_IMAGE_{target.upper()}")
        if given:
            return given
        tag = f"diskless-{target}:test"
        self.build(context, tag, "--network", "host", "--target", target, "--build-arg", f"COMMIT={COMMIT}", timeout_s=timeout_s)
        return tag

    def build(self, context: Path, tag: str, *options: str, timeout_s: float) -> None:
        """Build the image of a folder whose Dockerfile begins with `BASE`."""
        if self.try_run("image", "inspect", BASE).returncode != 0:
            try:
                pulled = self.try_run("pull", "-q", BASE, timeout_s=PULL_TIMEOUT_S).returncode == 0
            except subprocess.TimeoutExpired:
                pulled = False
            if not pulled:
                self._make_base()
        self.run("build", "-t", tag, *options, str(context), timeout_s=timeout_s)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables by which other clients find this engine."""
        return self._environment

    def _make_base(self) -> None:
        """Make an image with Debian's Python under the name of Docker's: what the Dockerfile needs of it is the same."""
        program = shutil.which("mmdebstrap")
        if program is None:
            _missing(f"{BASE} can be neither pulled nor made (apt-get install mmdebstrap)")
            return
        hook = f'cp {CA} "$1{CA}"; ln -s /usr/bin/python3 "$1/usr/local/bin/python"; rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*'
        packages = "python3,python3-venv,ca-certificates"
        options = [
            "-q",
            "--variant=minbase",
            f"--include={packages}",
            *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "locale")),
            f"--customize-hook={hook}",
        ]
        with subprocess.Popen([program, *options, "bookworm", "-"], stdout=subprocess.PIPE) as made:
            command = [self._client, "import", "-c", f"ENV PIP_CERT={CA} SSL_CERT_FILE={CA}", "-", BASE]
            subprocess.run(command, stdin=made.stdout, env=self._environment, check=True, timeout=900, capture_output=True)
        assert made.returncode == 0


def restricted(*more: str) -> Sequence[str]:
    """The options of `docker run` that give a container what the chart gives it, and nothing else."""
    tmpfs = "uid=10001,gid=10001,mode=0700"
    return [
        "--network=host",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        f"--tmpfs=/tmp:{tmpfs}",
        *more,
    ]
