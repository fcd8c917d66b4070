"""One line of what Spark and its JVM print, for each of their forms; nothing of Java's stacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.causes import essence, essence_of_log

STACK = "\tat org.apache.spark.rdd.RDD.collect(RDD.scala:1048)\n\tat java.base/java.lang.Thread.run(Thread.java:1583)\n\t... 12 more\n"
JOB = (
    "An error occurred while calling o63.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times\n"
    f"{STACK}"
    f"Caused by: java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: no answer\n{STACK}"
    f"Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment.\n{STACK}"
)
NO_CAUSE = (
    f"An error occurred while calling o63.load.\n: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n{STACK}"
)
PYTHON = (
    "An error occurred while calling o63.collectToPython.\n: org.apache.spark.SparkException: Job aborted\n"
    'Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "worker.py", line 1, in main\n'
    f"ValueError: the record is too short\n\n{STACK}"
)
CONVERTED = "[STREAM_FAILED] Query [id = 1] terminated with exception: no answer SQLSTATE: XXKST\n=== Query ===\n\nJVM stacktrace:\n" + JOB
LOG = (
    "2026-01-01T00:00:00.000Z WARN Utils something\n"
    "2026-01-01T00:00:00.000Z ERROR SparkContext Error initializing SparkContext.\n"
    f"java.net.BindException: Cannot assign requested address: Service 'sparkDriver' failed after 16 retries\n{STACK}"
    "2026-01-01T00:00:01.000Z INFO ShutdownHookManager Shutdown hook called\n"
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (JOB, "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment."),
        (NO_CAUSE, "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."),
        (PYTHON, "ValueError: the record is too short"),
        (CONVERTED, "[STREAM_FAILED] Query [id = 1] terminated with exception: no answer SQLSTATE: XXKST"),
        ("boom", "boom"),
        ("", "no message"),
    ],
)
def test_the_line_says_what_happened(text: str, line: str) -> None:
    assert essence(text) == line


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (LOG, "java.net.BindException: Cannot assign requested address: Service 'sparkDriver' failed after 16 retries"),
        (LOG + f"Caused by: java.io.IOException: No space left on device\n{STACK}", "java.io.IOException: No space left on device"),
        ("Error: Could not find or load main class x\n", "Error: Could not find or load main class x"),
        ("Unrecognized option: --nonsense\n", "Unrecognized option: --nonsense"),
        ("", "its log is empty"),
    ],
)
def test_the_line_of_a_log_says_why_the_jvm_ended(log: str, line: str) -> None:
    assert essence_of_log(log) == line


@given(
    st.lists(st.sampled_from([*JOB.splitlines(), *PYTHON.splitlines(), *LOG.splitlines(), "", " ", "Traceback (most recent call last):"]))
)
def test_any_text_has_one_line(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert "\n" not in essence(text)
    assert "\n" not in essence_of_log(text)
