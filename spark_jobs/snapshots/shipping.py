"""Brings the files of snapshots to where Spark's tasks run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship(session: SparkSession, file: Path) -> None:
    """Make a file reachable for tasks, which may run on other machines. No other one may have its name."""
    session.sparkContext.addFile(str(file))


def local(file: Path) -> Path:
    """Where a task finds a file: at its own place on the machine of the driver."""
    if file.exists():
        return file
    from pyspark import SparkFiles

    return Path(SparkFiles.get(file.name))
