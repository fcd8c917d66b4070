"""Starts the JVM of a job and the Spark session in it, and ends both.

The JVM is started here and not by Spark's scripts: so it runs on every Java the project runs on, a signal to the process
group reaches the job alone, and its death is seen at once. It ends by itself when this process does, however that ends.
Invariant: everything Spark writes on this machine is below the scratch folder, which is emptied at every start.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import spark_jobs
from spark_jobs.causes import essence, essence_of_log
from spark_jobs.settings import ENVIRONMENT, JVM_OPTIONS, LOCAL_MASTER, LOCAL_SETTINGS, SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger("monitor.spark")

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 10.0
LOOK_EVERY_S = 0.02
LOG_TAIL_BYTES = 4000

JARS_LOCK = Path(__file__).with_name("jars.lock")
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


class SparkStartError(Exception):
    """Spark could not be started; the text says why and what to do, and a note has the end of the JVM's log if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The environment of Spark: a Java program, the jars of `JARS_LOCK`, a folder for everything temporary, and the master.

    `jvm_options` come after ours; `stop_timeout_s` is how long a JVM may take to end before it is killed.
    """

    java: Path
    jars: Sequence[Path]
    scratch: Path
    master: str = LOCAL_MASTER
    settings: Mapping[str, str] = field(default_factory=dict)
    log_level: str = "WARN"
    jvm_options: Sequence[str] = ()
    stop_timeout_s: float = STOP_TIMEOUT_S

    @property
    def log_file(self) -> Path:
        """The output of the JVM and the Python workers."""
        return self.scratch / "jvm.log"

    @property
    def is_local(self) -> bool:
        """Whether driver and executors are one process."""
        return self.master.startswith("local")


@dataclass(slots=True)
class RunningSpark:
    """A session and the JVM it lives in."""

    session: SparkSession
    jvm: subprocess.Popen[bytes]
    log_file: Path

    def is_alive(self) -> bool:
        """Whether the JVM still runs."""
        return self.jvm.poll() is None


def find_spark() -> Path:
    """Return PySpark's folder. Raises `SparkStartError` when it is not installed."""
    found = importlib.util.find_spec("pyspark")
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None]
    if missing or found is None or found.origin is None:
        raise SparkStartError(
            f"the monitor needs {' and '.join(missing)}, which is not installed: pip install 'diskless-coordinator[spark]'"
        )
    return Path(found.origin).parent


@contextmanager
def open_spark(name: str, engine: Engine) -> Iterator[RunningSpark]:
    """Start Spark, and end it with the block. Raises `SparkStartError`."""
    home = find_spark()
    shutil.rmtree(engine.scratch, ignore_errors=True)
    # The JVM of a job that was ended while it started may still be there, writing: what it leaves here must not be in the way.
    engine.scratch.mkdir(parents=True, exist_ok=True)
    address_file = engine.scratch / f"gateway-{secrets.token_hex(8)}"
    settings = _settings(name, engine)
    # Workers would otherwise run the first python3 on PATH, and look for our modules in its folders. On other machines it may be elsewhere.
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    packages = str(Path(spark_jobs.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH"))))
    os.environ["JAVA_HOME"] = str(engine.java.parent.parent)
    os.environ["SPARK_HOME"] = str(home)
    jvm = _start_jvm(home, engine, settings, address_file)
    try:
        running = RunningSpark(_connect(jvm, engine, settings, address_file), jvm, engine.log_file)
    except BaseException:
        jvm.kill()  # a JVM that is starting would notice the end of this process late
        _end(jvm, engine.stop_timeout_s)
        raise
    try:
        yield running
    finally:
        _disconnect(running)
        _end(jvm, engine.stop_timeout_s)


def _settings(name: str, engine: Engine) -> dict[str, str]:
    settings = {"spark.app.name": name, "spark.master": engine.master, **SETTINGS}
    settings |= LOCAL_SETTINGS if engine.is_local else cluster_settings(engine.jars)
    settings["spark.sql.warehouse.dir"] = str(engine.scratch / "warehouse")
    return settings | dict(engine.settings)


def cluster_settings(jars: Sequence[Path]) -> dict[str, str]:
    """Return the settings that bring what is in this JVM and its environment to executors on other machines."""
    return {"spark.jars": ",".join(map(str, jars)), **{f"spark.executorEnv.{name}": value for name, value in ENVIRONMENT.items()}}


def _start_jvm(home: Path, engine: Engine, settings: Mapping[str, str], address_file: Path) -> subprocess.Popen[bytes]:
    class_path = [str(home / "jars" / "*"), *map(str, engine.jars)]
    command = [
        str(engine.java),
        *JVM_OPTIONS,
        *engine.jvm_options,
        f"-Djava.io.tmpdir={engine.scratch}",
        f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
    ]
    command += [f"-Ddiskless.log.level={engine.log_level}", "-cp", os.pathsep.join(class_path), "org.apache.spark.deploy.SparkSubmit"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    environment = {
        **os.environ,
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address_file),
        "SPARK_CONNECT_MODE": "0",
        "SPARK_LOCAL_DIRS": str(engine.scratch / "local"),
        **ENVIRONMENT,
    }
    with engine.log_file.open("ab") as log:
        return subprocess.Popen(
            # The JVM ends when its standard input does, that is, when this process is gone.
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def _connect(jvm: subprocess.Popen[bytes], engine: Engine, settings: Mapping[str, str], address_file: Path) -> SparkSession:
    port, secret = _wait_for_address(jvm, engine, address_file)
    from pyspark.accumulators import AccumulatorTCPServer
    from pyspark.conf import SparkConf
    from pyspark.sql import SparkSession

    # py4j logs every command, and a lost connection several times; errors that matter come as exceptions.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_of_py4j)
    AccumulatorTCPServer.handle_error = _log_lost_connection  # type: ignore[assignment, method-assign]
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        conf = SparkConf(loadDefaults=False)
        for key, value in settings.items():
            conf.set(key, value)
        with keep_interrupts():
            return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:
        raise _with_log(f"Spark does not start: {essence(str(error))}", engine) from error
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


@contextmanager
def keep_interrupts() -> Iterator[None]:
    """Keep what this process does on Ctrl-C: PySpark would break off running jobs, and a job stops between micro-batches."""
    former = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, former)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return f"{os.sep}py4j{os.sep}" not in record.pathname  # a part of it logs under no name


def _log_lost_connection(_server: object, _request: object, _address: object) -> None:
    """PySpark's server for counters, which we do not use, would print a traceback when the JVM is gone."""
    LOG.debug("a connection to Spark's JVM was lost")


def _wait_for_address(jvm: subprocess.Popen[bytes], engine: Engine, file: Path) -> tuple[int, str]:
    """The JVM writes its port (4 bytes) and a secret (4 bytes of length, text), and renames the file to this name."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not file.exists():
        if jvm.poll() is not None:
            said = essence_of_log(_log_tail(engine))
            raise _with_log(f"Spark's JVM ended with status {jvm.returncode} while it started: {said}", engine)
        if time.monotonic() > deadline_s:
            raise _with_log(f"Spark's JVM did not start within {START_TIMEOUT_S:g} s", engine)
        time.sleep(LOOK_EVERY_S)
    data = file.read_bytes()
    file.unlink()
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()


def _with_log(text: str, engine: Engine) -> SparkStartError:
    """Make the error; the end of the JVM's log is a note of it, for who keeps details: the log itself goes with the scratch folder."""
    error = SparkStartError(text)
    error.add_note(_log_tail(engine))
    return error


def _log_tail(engine: Engine) -> str:
    return engine.log_file.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace").strip()


def _disconnect(running: RunningSpark) -> None:
    """Stop the session if the JVM is still there, and forget the connection, so that another session can start."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    with suppress(Py4JError, OSError):  # the JVM is ended next; nothing it could still do is of use
        if running.is_alive():
            running.session.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


def _end(jvm: subprocess.Popen[bytes], timeout_s: float) -> None:
    if jvm.stdin is not None:
        with suppress(BrokenPipeError):
            jvm.stdin.close()
    try:
        jvm.wait(timeout_s)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
