"""TLS and tokens of the HTTP port, made from the settings at a start and kept up with files that change."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from typing import Final

from coordinator.config.sections.http import HttpProtected
from coordinator.config.sections.security import ClientAuth
from coordinator.runtime.failures import FatalError
from coordinator.security.bearer_token import BearerTokens, TokenFileError
from coordinator.security.tls import ListenerTls, TlsFilesError

LOOK_S: Final = 5.0


class HttpSecurity:
    """Raises `FatalError` when made from files that are not usable."""

    def __init__(self, settings: HttpProtected) -> None:
        has_tls = settings.http_listener is not None and settings.http_listener.has_tls
        file = settings.http_bearer_token_file
        try:
            self._tls = _tls(settings) if has_tls else None
            self.tokens = None if file is None else BearerTokens("http.bearer.token.file", file)
            """None: requests need no token."""
        except (TlsFilesError, TokenFileError) as error:
            raise FatalError(str(error)) from error

    def context(self) -> ssl.SSLContext | None:
        """Return the context for the next handshake; None for plain text."""
        return None if self._tls is None else self._tls.context

    async def follow(self, every_s: float = LOOK_S) -> None:
        """Look at the files again and again. Ends by being cancelled."""
        while True:
            await asyncio.sleep(every_s)
            if self._tls is not None:
                self._tls.refresh()
            if self.tokens is not None:
                self.tokens.refresh()


def _tls(settings: HttpProtected) -> ListenerTls:
    """Return the TLS of the port: versions and cipher suites are those of all listeners."""
    files = replace(
        settings.for_listener(""),
        ssl_keystore_location=None,
        ssl_certificate_location=settings.http_ssl_certificate_location,
        ssl_key_location=settings.http_ssl_key_location,
        ssl_key_password=settings.http_ssl_key_password,
        ssl_client_auth=ClientAuth.NONE,
        ssl_truststore_location=None,
    )
    return ListenerTls("http", files)
