"""Client and object store of a query, opened on the machine that uses them: by options, and by files that are there.

`diskless.config` names a file in Java's properties format. It holds login and TLS of connections to nodes, by the keys that commands take
with `--command-config`, and `object.store.option.*`, such as access keys. A file name without a folder is one of `spark.files`.
Invariant: what the file holds stays on this machine; errors name keys and files, and no values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tables.source.options import BOOTSTRAP, CONFIG, STORE_URL, ServiceAccess, SourceOptionError

if TYPE_CHECKING:
    from coordinator.client.client import DisklessClient
    from coordinator.object_store import ObjectStore

_NODE: Final = "node."
_STORE: Final = "object.store.option."
_SECURITY: Final = ("security.", "ssl.", "sasl.", "enable.ssl.")
_FILES: Final = (".location", ".file")


def open_client(access: ServiceAccess, store: ObjectStore | None = None) -> DisklessClient:
    """Make a client, which connects when it is first used. Raises `SourceOptionError`."""
    from coordinator.client.client import DisklessClient
    from coordinator.client.errors import InvalidArgument
    from coordinator.security.client_security import ClientSecurity, SecurityUnsupported

    try:
        security = ClientSecurity(_security(access))
        return DisklessClient(access.servers, object_store=store, api_timeout_ms=access.timeout_ms, security=security)
    except InvalidArgument as error:
        raise SourceOptionError(f"Option '{BOOTSTRAP}': {error}") from error
    except (SecurityUnsupported, OSError) as error:
        raise SourceOptionError(f"Connections to nodes: {error}; correct the options diskless.* or the file of {CONFIG}") from error


def open_objects(access: ServiceAccess) -> ObjectStore:
    """Open the object store without talking to it. Raises `SourceOptionError`."""
    from coordinator.adapters.objectstore import StoreOptionError, open_store
    from coordinator.config.values import OutOfBounds, StoreUrl

    in_file = {key.removeprefix(_STORE): value for key, value in _file(access).items() if key.startswith(_STORE)}
    try:
        url = StoreUrl.parse(access.store_url)
        if url.scheme == "memory":
            raise OutOfBounds("a store that driver and executors share")
        return open_store(url, {**access.store_options, **in_file})
    except OutOfBounds as error:
        raise SourceOptionError(f"Option '{STORE_URL}' must be {error}") from error
    except StoreOptionError as error:
        raise SourceOptionError(f"Object store: {error}") from error


def properties_of(access: ServiceAccess, prefix: str = "") -> dict[str, str]:
    """Return the properties of connections in the file, without those of nodes. Raises `SourceOptionError`."""
    found = {key.removeprefix(prefix): _seen(key, value) for key, value in _file(access).items() if key.startswith(prefix)}
    return {key: value for key, value in found.items() if key.startswith(_SECURITY)}


def _security(access: ServiceAccess) -> dict[str, str]:
    """The properties for nodes: of the file, then those that are for nodes alone, then those of options."""
    return properties_of(access) | properties_of(access, _NODE) | {key: _seen(key, value) for key, value in access.security.items()}


def _file(access: ServiceAccess) -> Mapping[str, str]:
    if not access.config_file:
        return {}
    from coordinator.config.sources import SourceError, read_file

    try:
        return {one.key: one.value for one in read_file(Path(_shipped(access.config_file)))}
    except SourceError as error:
        raise SourceOptionError(f"Option '{CONFIG}': {error}; it must be on the driver and on every executor") from error


def _seen(key: str, value: str) -> str:
    return _shipped(value) if key.endswith(_FILES) else value


def _shipped(name: str) -> str:
    """Return the path of a file: as it is, or of `spark.files` when it has no folder and is there.

    Spark names a session's folder, which is below that of the application. Executors copy files into the first, the driver into the second.
    """
    if "/" in name or not name:
        return name
    from pyspark import SparkFiles

    root = Path(SparkFiles.getRootDirectory())
    return next((str(file) for file in (root / name, root.parent / name) if file.is_file()), name)
