"""The object store as commands reach it: which one, and its errors as `Failed`.

It comes from `--object-store-url` with `--object-store-option`, else from the settings file given with `--config`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.options import F, bundle, config_option
from cli.outcome import Exit, Failed
from cli.output import say

if TYPE_CHECKING:
    from coordinator.config.values import StoreUrl
    from coordinator.object_store import ObjectStore, StoredObject

URL_VARIABLE = "DISKLESS_OBJECT_STORE_URL"


def store_options(function: F) -> F:
    """Add the options that name the object store."""
    options: tuple[Callable[[F], F], ...] = (
        config_option,
        click.option(
            "--object-store-option",
            "store_options",
            multiple=True,
            metavar="KEY=VALUE",
            help="One option of the store, such as endpoint or region. Repeatable.",
        ),
        click.option(
            "--object-store-url",
            "store_url",
            metavar="URL",
            envvar=URL_VARIABLE,
            show_envvar=True,
            help="file:///folder, s3://bucket[/prefix], gs://.., az://..; without it that of --config.",
        ),
    )
    for option in options:
        function = option(function)
    return function


snapshots_prefix_option = click.option(
    "--snapshots-prefix", metavar="PREFIX", help="Where snapshots of the log are in the object store. [default: snapshots.prefix]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStore:
    """The object store as a command's options name it."""

    url: str | None
    options: Sequence[str]
    config_file: Path | None
    prefix: str | None

    @property
    def is_named(self) -> bool:
        """Whether there is one."""
        return self.url is not None or self.config_file is not None

    @property
    def snapshots_prefix(self) -> str:
        """Where snapshots are in it. Raises `Failed`."""
        return snapshots_prefix_of(self.prefix, self.config_file)

    @property
    def wal_prefix(self) -> str:
        """Where WAL files are in it. Raises `Failed`."""
        return wal_prefix(self.config_file)

    def open(self) -> ObjectStore:
        """Open it without talking to it. Raises `Failed`."""
        return open_object_store(self.url, self.options, self.config_file)


def named_store(function: F) -> F:
    """Add the options that name the object store, which the command gets as `store`, a `NamedStore`."""
    return bundle(
        "store",
        lambda given: NamedStore(
            url=given["store_url"],
            options=given["store_options"],
            config_file=given["config_file"],
            prefix=given.get("snapshots_prefix"),
        ),
        store_options,
    )(function)


def named_store_with_snapshots(function: F) -> F:
    """As `named_store`, with the option that says where snapshots are in it."""
    return named_store(snapshots_prefix_option(function))


def open_object_store(url: str | None, options: Sequence[str], config_file: Path | None) -> ObjectStore:
    """Open the store without talking to it. Raises `Failed`."""
    from cli.configuration import read_service_settings
    from coordinator.adapters.objectstore import StoreFolderMissing, StoreOptionError, open_store
    from coordinator.config import SourceError, parse_properties_flags
    from coordinator.config.values import OutOfBounds, StoreUrl

    try:
        given = parse_properties_flags(options)
        if url is not None:
            return open_store(_shared(StoreUrl.parse(url)), given)
        if config_file is None:
            raise Failed(
                f"no object store is given: pass --object-store-url, set {URL_VARIABLE}, or pass --config with the settings file "
                "of a coordinator",
                Exit.USAGE,
            )
        settings = read_service_settings(config_file)
        timeout_ms = settings.object_store_request_timeout_ms
        return open_store(_shared(settings.object_store_url), {**settings.object_store_option, **given}, request_timeout_ms=timeout_ms)
    except SourceError as error:
        raise Failed(str(error).replace("--property", "--object-store-option"), Exit.USAGE) from error
    except OutOfBounds as error:
        raise Failed(f"--object-store-url {url}: must be {error}", Exit.USAGE) from error
    except StoreFolderMissing as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except StoreOptionError as error:
        raise Failed(str(error), Exit.USAGE) from error


def snapshots_prefix_of(prefix: str | None, config_file: Path | None) -> str:
    """Where snapshots are in the store: as given, else what the settings file says, else the default. Raises `Failed`."""
    from cli.configuration import read_service_settings
    from coordinator.config import KEYS

    if prefix is not None:
        return prefix.strip("/")
    return (KEYS["snapshots.prefix"].default or "") if config_file is None else read_service_settings(config_file).snapshots_prefix


def _shared(url: StoreUrl) -> StoreUrl:
    """Return the URL of a store that others use too: objects elsewhere vanish, or lie where no process looks. Raises `Failed`."""
    if url.scheme == "memory":
        raise Failed(
            "memory:// is a store of one process alone: objects of this command would vanish with it; "
            "pass --object-store-url with the store of the nodes",
            Exit.USAGE,
        )
    return url


class UnusualKeys:
    """Counts the objects whose keys no file can have: they are of no service, so commands name the first, and leave them."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def add(self, count: int, keys: Sequence[str]) -> None:
        """Add some objects; `keys` has the first of their keys."""
        self._first = self._first or next(iter(keys), "")
        self._count += count

    def without(self, chunk: Sequence[StoredObject]) -> list[StoredObject]:
        """The objects of a chunk that may be those of files; the others are counted."""
        from coordinator.object_store import is_key

        unusual = [one.key for one in chunk if not is_key(one.key)]
        self.add(len(unusual), unusual)
        return [one for one in chunk if is_key(one.key)] if unusual else list(chunk)

    def tell(self) -> None:
        """Tell how many they are, if there are any."""
        if self._count:
            say(f"{self._count} objects have keys that no file can have, and stay: the first is {self._first!r}")


def wal_prefix(config_file: Path | None) -> str:
    """Where WAL files are uploaded to: what the settings file says, else the default. Raises `Failed`."""
    from cli.configuration import read_service_settings
    from coordinator.config import KEYS

    if config_file is None:
        return KEYS["object.store.wal.prefix"].default or ""
    settings = read_service_settings(config_file)
    return settings.object_store_wal_prefix


@contextmanager
def store_errors() -> Iterator[None]:
    """Raise errors of the object store as `Failed`."""
    from coordinator.object_store import InvalidKey, ObjectMissing, StoreDenied, StoreError, StoreUnavailable

    try:
        yield
    except StoreUnavailable as error:
        raise Failed(f"{error}; check the object store and retry", Exit.UNAVAILABLE) from error
    except ObjectMissing as error:
        raise Failed(str(error), Exit.NOT_FOUND) from error
    except (StoreDenied, StoreError, InvalidKey) as error:
        raise Failed(str(error)) from error
