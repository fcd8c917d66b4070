"""Starting Spark's JVM: what may be left of an earlier one."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from spark_jobs.session import Engine, SparkStartError, keep_interrupts, open_spark


def test_a_jvm_that_was_left_behind_while_it_started_is_not_taken_for_ours(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    java = tmp_path / "java"
    java.write_text(f'#!/bin/sh\necho "$_PYSPARK_DRIVER_CONN_INFO_PATH" >> {asked}\nexit 3\n')
    java.chmod(0o755)
    for _ in range(2):
        with (
            pytest.raises(SparkStartError, match="ended with status 3"),
            open_spark("test", Engine(java=java, jars=(), scratch=tmp_path / "s")),
        ):
            pass
    first, second = asked.read_text().split()
    assert first != second  # where the JVM says how to reach it


def test_spark_takes_no_signal_from_the_job() -> None:
    def stop(_number: int, _frame: object) -> None: ...

    former = signal.signal(signal.SIGINT, stop)
    try:
        with keep_interrupts():
            signal.signal(signal.SIGINT, signal.default_int_handler)  # as PySpark does
        assert signal.getsignal(signal.SIGINT) is stop
    finally:
        signal.signal(signal.SIGINT, former)
