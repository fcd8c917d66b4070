"""Spark's maker of Python workers, with what tasks import loaded before: `python -m spark_jobs.python_daemon pyspark.worker`.

Workers are copies of this process. Spark ends those that were idle for a minute; new ones would import for 1.3 s of processor time each,
while the first entry after a pause waits, and keep what they imported in memory of their own.
"""

from __future__ import annotations

from importlib import import_module

from pyspark import daemon

LOADED = ("pyspark.worker", "pyspark.sql.pandas.serializers", "pandas", "pyarrow", "spark_jobs.scan")

if __name__ == "__main__":
    for name in LOADED:
        import_module(name)
    daemon.manager()
