"""Settings of the HTTP port beyond its address: TLS and a bearer token."""

# ruff: noqa: RUF009 - the calls make dataclass fields, as dataclasses.field() does

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from coordinator.config.keys import boolean, path, text
from coordinator.config.values import HttpAddress


@dataclass(frozen=True, kw_only=True)
class HttpSettings:
    """How /metrics, /ready and /healthy are protected."""

    http_ssl_certificate_location: Path | None = path(
        "http.ssl.certificate.location",
        why="""File with the certificate of the HTTP port and those between it and the authority, in PEM; needed when http.listener
        begins with https. It is read again within seconds when it changes; while it is not usable the last one stays in use.""",
    )
    http_ssl_key_location: Path | None = path(
        "http.ssl.key.location",
        why="""File with the private key of http.ssl.certificate.location in PEM.""",
    )
    http_ssl_key_password: str = text(
        "http.ssl.key.password",
        "",
        secret=True,
        why="""Password of that private key, when its file is encrypted. Give it by the environment or a file that only the service
        can read.""",
    )
    http_bearer_token_file: Path | None = path(
        "http.bearer.token.file",
        why="""File with tokens, one a line, of at least 16 characters: /metrics then wants one of them as `Authorization: Bearer`.
        Several lines let a token be changed without a gap. The file is read again within seconds when it changes. /healthy never
        asks for a token. Without TLS the network sees the token.""",
    )
    http_ready_open: bool = boolean(
        "http.ready.open",
        True,
        why="""Whether /ready answers without a token of http.bearer.token.file too, since orchestrators look there and have none: it
        then says yes or no, and the details only to who has a token.""",
    )


class HttpProtected(Protocol):
    """The settings of the HTTP port of any process, with those of TLS that all of its listeners share."""

    @property
    def http_listener(self) -> HttpAddress | None:
        """The address."""

    @property
    def http_ssl_certificate_location(self) -> Path | None:
        """See `HttpSettings`."""

    @property
    def http_ssl_key_location(self) -> Path | None:
        """See `HttpSettings`."""

    @property
    def http_ssl_key_password(self) -> str:
        """See `HttpSettings`."""

    @property
    def http_bearer_token_file(self) -> Path | None:
        """See `HttpSettings`."""

    def for_listener(self, listener: str) -> Any:
        """Return the settings of one listener, or those of all for an empty name."""
