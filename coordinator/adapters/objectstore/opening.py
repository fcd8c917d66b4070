"""Open the object store that a URL names.

Options are those of obstore, written with dots or underscores (`access.key.id`); options of the HTTP client are told
apart by name, because obstore fails hard on them elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

from obstore import exceptions as obstore_errors
from obstore.store import MemoryStore, from_url

from coordinator.adapters.objectstore.local import LocalFolderStore
from coordinator.adapters.objectstore.store import PING_TIMEOUT, ObstoreStore
from coordinator.config.values import StoreUrl
from coordinator.object_store import ObjectStore

if TYPE_CHECKING:  # obstore has these in its type stubs only
    from obstore.store import ClientConfig, RetryConfig, S3Config
    from obstore.store import ObjectStore as RawStore

_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "root_certificate",
        "randomize_addresses",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)


class StoreOptionError(ValueError):
    """The URL and options do not make a store; the text says which option and why."""


class StoreFolderMissing(StoreOptionError):
    """The folder of a file:// store is not there."""


def open_store(url: StoreUrl | str, options: Mapping[str, str] | None = None, *, request_timeout_ms: int = 30_000) -> ObjectStore:
    """Open a store without talking to it. Raises `StoreOptionError` and its kind, and `OutOfBounds` for a URL that is none.

    Each memory:// store is a new, empty one.
    """
    parsed = StoreUrl.parse(url) if isinstance(url, str) else url
    given = {name.replace(".", "_").lower(): value for name, value in (options or {}).items()}
    match parsed.scheme:
        case "file":
            _refuse_options(parsed, given)
            folder = Path(parsed.path)
            if not folder.is_dir():
                # Only a node makes it: any other program that names a missing folder has mistyped it.
                what = "is no folder" if folder.exists() else "does not exist"
                raise StoreFolderMissing(f"{parsed}: the folder {what}; correct the path, or mount or create it if it shall be the store")
            return LocalFolderStore(folder, request_timeout_ms=request_timeout_ms)
        case "memory":
            _refuse_options(parsed, given)
            raw: RawStore = MemoryStore()
            return ObstoreStore(raw, raw, location=str(parsed), base="", request_timeout_ms=request_timeout_ms)
    retries: RetryConfig = {"retry_timeout": timedelta(milliseconds=request_timeout_ms)}
    return ObstoreStore(
        _remote(parsed, given, retries, timeout=timedelta(milliseconds=request_timeout_ms)),
        _remote(parsed, given, {"max_retries": 0}, timeout=PING_TIMEOUT),
        location=str(parsed),
        base=_base(parsed),
        request_timeout_ms=request_timeout_ms,
    )


def _root(url: StoreUrl) -> str:
    """The part of the URL that names the bucket; for Azure that is account and container."""
    if url.scheme == "az":
        container = url.path.partition("/")[0]
        if not container:
            raise StoreOptionError(f"{url}: name the container too, az://account/container")
        return f"az://{url.bucket}/{container}"
    return f"{url.scheme}://{url.bucket}"


def _base(url: StoreUrl) -> str:
    path = url.path.partition("/")[2] if url.scheme == "az" else url.path
    return path + "/" if path else ""


def _remote(url: StoreUrl, options: Mapping[str, str], retries: RetryConfig, *, timeout: timedelta) -> RawStore:
    client: dict[str, object] = {"timeout": timeout, "connect_timeout": timedelta(seconds=5)}
    client |= {name: _client_value(value) for name, value in options.items() if name in _CLIENT_OPTIONS}
    if options.get("endpoint", "").startswith("http://"):
        client.setdefault("allow_http", True)  # who writes http:// means it
    config = {name: value for name, value in options.items() if name not in _CLIENT_OPTIONS}
    try:
        # obstore checks names and values itself; its types only list them.
        return from_url(_root(url), config=cast("S3Config", config), client_options=cast("ClientConfig", client), retry_config=retries)
    except (obstore_errors.BaseError, ValueError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise StoreOptionError(f"{url}: {reason} Check object.store.url and object.store.option.*") from error


def _client_value(value: str) -> object:
    match value.lower():
        case "true":
            return True
        case "false":
            return False
    return value


def _refuse_options(url: StoreUrl, options: Mapping[str, str]) -> None:
    if options:
        raise StoreOptionError(f"{url} takes no options, but object.store.option.* gives {', '.join(sorted(options))}; remove them")
