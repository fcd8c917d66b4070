"""Where the database of a monitor is, as options say it."""

from __future__ import annotations

from pathlib import Path

from cli.outcome import Exit, Failed
from cli.spark.session import PASSWORD_BYTES_MAX
from coordinator.config.sources import read_bounded
from spark_jobs.store.engine import PostgresPlace, StorePlace


def find_place(folder: Path | None, url: str | None, password_file: Path | None) -> StorePlace | None:
    """Return the database that is named, else that of the folder. Raises `Failed`."""
    if url is None:
        if password_file is not None:
            raise Failed("--store-password-file is of no use without --store", Exit.USAGE)
        return folder
    try:
        return PostgresPlace(url, None if password_file is None else _password(password_file))
    except ValueError as error:
        raise Failed(f"--store: {error}", Exit.USAGE) from error


def _password(file: Path) -> str:
    try:
        return read_bounded(file, PASSWORD_BYTES_MAX).rstrip("\r\n")
    except OSError as error:
        raise Failed(f"--store-password-file {file} cannot be read: {error.strerror or error}", Exit.USAGE) from error
    except ValueError as error:
        raise Failed(f"--store-password-file {file}: {error}", Exit.USAGE) from error
