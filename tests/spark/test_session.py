"""Starting Spark's JVM: what may be left of an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.session import Engine, SparkStartError, open_spark


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
