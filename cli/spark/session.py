"""The requirements of commands that start Spark: PySpark, a Java, the jars, and their errors as `Failed`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from cli.options import bundle
from cli.outcome import Exit, Failed
from cli.output import say
from cli.progress import doing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from spark_jobs.session import Engine

    F = TypeVar("F", bound=Callable[..., Any])

SCRATCH = "spark"
MASTER = "spark.master"
"""The property is as good as the option: the chart of Kubernetes passes properties."""
ARCHIVES = "spark"


def _folder_option(text: str, *, is_required: bool = False) -> Callable[[F], F]:
    return click.option(
        "--dir",
        "folder",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="DISKLESS_MONITOR_DIR",
        show_envvar=True,
        required=is_required,
        help=text,
    )


folder_option: Callable[[Any], Any] = _folder_option("Folder of the monitor: its database is there.", is_required=True)
database_folder_option: Callable[[Any], Any] = _folder_option("Folder of the monitor with its database; not needed with --store.")
"""The option of commands that read nothing but the database."""


STORE_VARIABLE = "DISKLESS_MONITOR_STORE"
PASSWORD_BYTES_MAX = 4096


def store_place(folder: Callable[[Any], Any] = folder_option, *, is_needed: bool = True) -> Callable[[F], F]:
    """Return the options of commands that use the database of a monitor, which get its `StorePlace` as `place`.

    `folder` is the option of the monitor's folder, where the database is unless it is named. Commands that do not need one get None
    without both.
    """

    def find(given: Mapping[str, Any]) -> object:
        from cli.spark.places import find_place

        place = find_place(given["folder"], given["database_url"], given["database_password_file"])
        if place is None and is_needed:
            raise Failed("the monitor's database is not named: pass its folder as --dir, or --store", Exit.USAGE)
        return place

    return bundle(
        "place",
        find,
        folder,
        click.option(
            "--store",
            "database_url",
            metavar="URL",
            envvar=STORE_VARIABLE,
            show_envvar=True,
            help="The monitor's database in PostgreSQL: postgresql://[USER@]HOST[:PORT]/DATABASE. [default: a file in --dir]",
        ),
        click.option(
            "--store-password-file",
            "database_password_file",
            type=click.Path(path_type=Path, dir_okay=False),
            help="File with the password for --store. [default: as PostgreSQL's programs find it: PGPASSFILE, PGPASSWORD]",
        ),
    )


def outcome_folder_option(what: str) -> Callable[[F], F]:
    """Return the option of commands that keep what they found, `what`, in a monitor's folder, if one is named."""
    return _folder_option(f"Folder of a monitor: {what} is kept there, for the dashboard.")


def spark_options(function: F) -> F:
    """Add the options of commands that start Spark."""
    for option in (
        click.option(
            "--spark-property", "spark_properties", multiple=True, metavar="KEY=VALUE", help="One setting of Spark, spark.*. Repeatable."
        ),
        click.option(
            "--master", help="Where Spark runs: spark://HOST:PORT, or in this process's JVM. [default: local[2,3], two tasks at a time]"
        ),
    ):
        function = option(function)
    return function


def find_engine(folder: Path, *, master: str | None = None, spark_properties: tuple[str, ...] = (), log_level: str = "WARNING") -> Engine:
    """Find everything Spark needs; fetches the jars the first time. Raises `Failed`."""
    from cli.java.cache import cache_folder
    from cli.java.jars import JarError, resolve
    from cli.java.java import NoJavaError, find_java
    from spark_jobs.class_archive import class_archive
    from spark_jobs.session import JARS_LOCK, Engine, SparkStartError, find_spark
    from spark_jobs.settings import LOCAL_MASTER

    settings = _spark_settings(spark_properties)
    named = settings.pop(MASTER, None)
    try:
        find_spark()
        engine = Engine(
            java=find_java().program,
            jars=resolve(JARS_LOCK),
            scratch=folder.absolute() / SCRATCH,
            master=master or named or LOCAL_MASTER,
            settings=settings,
            log_level={"WARNING": "WARN"}.get(log_level, log_level),
        )
        archive = class_archive(engine, cache_folder() / ARCHIVES)
        return replace(engine, jvm_options=(f"-XX:SharedArchiveFile={archive}",)) if archive.exists() else engine
    except (SparkStartError, NoJavaError, JarError) as error:
        raise Failed(str(error)) from error


def prepare_spark() -> Sequence[Path]:
    """Fetch the jars and make the archive that jobs start quicker with, where they are not there yet; return the jars. Raises `Failed`.

    Jobs run without the archive: where it cannot be made, or not in time, that is said, and the next call tries again.
    """
    from cli.java.cache import cache_folder, file_lock
    from spark_jobs.class_archive import class_archive, make_class_archive
    from spark_jobs.session import SparkStartError

    folder = cache_folder() / ARCHIVES
    with file_lock(folder / ".lock"), tempfile.TemporaryDirectory() as scratch:
        with doing("fetching Spark's jars for Kafka"):
            engine = find_engine(Path(scratch))
        archive = class_archive(engine, folder)
        if not archive.exists():
            try:
                with doing("making the archive of Java's classes, with which jobs start in half the time"):
                    make_class_archive(engine, archive)
            except SparkStartError as error:
                say(f"jobs will start without an archive of Java's classes, which takes twice the time: {error}")
    return engine.jars


def _spark_settings(given: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for one in given:
        key, separator, value = one.partition("=")
        if not separator or not key.startswith("spark."):
            raise Failed(f"--spark-property {one}: expected spark.KEY=VALUE", Exit.USAGE)
        settings[key] = value
    return settings
