"""Starting Spark's JVM: what may be left of an earlier one."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cli.spark.session import find_engine
from spark_jobs.session import Engine, SparkStartError, keep_interrupts, open_spark
from spark_jobs.settings import LOCAL_MASTER


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


def asked_of_java(folder: Path, master: str) -> Sequence[str]:
    """Start Spark with a Java that only notes its environment and its arguments; returns them."""
    asked, java, jars = folder / "asked", folder / "java", (folder / "a.jar", folder / "b.jar")
    java.write_text(f'#!/bin/sh\nenv > {asked}\nfor word; do echo "$word" >> {asked}; done\nexit 3\n')
    java.chmod(0o755)
    engine = Engine(java=java, jars=jars, scratch=folder / "s", master=master)
    with pytest.raises(SparkStartError), open_spark("test", engine):
        pass
    return asked.read_text().splitlines()


@pytest.mark.parametrize(("given", "runs"), [("/opt/workers/python", "/opt/workers/python"), ("", sys.executable)])
def test_tasks_run_with_the_python_that_is_named(given: str, runs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", given)
    words = asked_of_java(tmp_path, LOCAL_MASTER)
    assert f"PYSPARK_PYTHON={runs}" in words
    assert f"PYSPARK_DRIVER_PYTHON={sys.executable}" in words


def test_executors_elsewhere_get_jars_and_environment_and_reach_the_driver(tmp_path: Path) -> None:
    words = asked_of_java(tmp_path, "spark://master:7077")
    assert {
        "spark.master=spark://master:7077",
        f"spark.jars={tmp_path}/a.jar,{tmp_path}/b.jar",
        "spark.executorEnv.OPENBLAS_NUM_THREADS=1",
    } <= set(words)
    assert not [word for word in words if word.startswith("spark.driver.")]
    local = asked_of_java(tmp_path, LOCAL_MASTER)
    assert "spark.driver.bindAddress=127.0.0.1" in local
    assert not [word for word in local if word.startswith(("spark.jars", "spark.executorEnv"))]


def test_the_master_may_be_a_property(tmp_path: Path) -> None:
    named = find_engine(tmp_path, spark_properties=("spark.master=spark://master:7077", "spark.cores.max=2"))
    assert (named.master, named.is_local, dict(named.settings)) == ("spark://master:7077", False, {"spark.cores.max": "2"})
    assert find_engine(tmp_path, master="local[1]", spark_properties=("spark.master=spark://master:7077",)).master == "local[1]"
