"""The public keys that sign tokens (JWKS, RFC 7517), read from a file or asked over https.

Keys are read again when their file has changed, when they are old, and when a token names a key that is not among them; strangers
with made-up tokens cannot make that happen more often than every `RETRY_S`. While the keys cannot be read, the last ones hold.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import urllib.request
from concurrent.futures import Executor
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import jwt

from coordinator.security.file_stamps import FileStamps
from coordinator.security.login import LoginFailed

LOG = logging.getLogger(__name__)

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Signatures by public keys. A key that is a shared secret is left out: who can check a token could make one."""
KEYS_BYTES_MAX: Final = 1024 * 1024
FETCH_TIMEOUT_S: Final = 5.0
REFRESH_S: Final = 3600.0
RETRY_S: Final = 10.0


class TokenKeysError(Exception):
    """The keys cannot be read; the text names the place and the remedy."""


def parse_keys(content: str | bytes) -> tuple[jwt.PyJWK, ...]:
    """Read a JWKS document. Raises ValueError when it holds no key that signs tokens."""
    try:
        found = jwt.PyJWKSet.from_json(content.decode() if isinstance(content, bytes) else content)
    except (jwt.PyJWTError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"it is no JWKS document ({error})") from error
    keys = tuple(one for one in found if one.algorithm_name in ALGORITHMS and one.public_key_use in (None, "sig"))
    if not keys:
        raise ValueError(f"it has no key for signatures by {', '.join(ALGORITHMS)}")
    return keys


class TokenKeys:
    """The keys of one `file:` or `https:` URL. Used on one event loop; reading runs in `executor`."""

    def __init__(self, url: str, executor: Executor) -> None:
        self._url = url
        self._executor = executor
        self._keys: tuple[jwt.PyJWK, ...] = ()
        self._read_s = float("-inf")
        self._tried_s = float("-inf")
        self._stamps = FileStamps([_path(url)] if url.startswith("file:") else [])
        self._reading: asyncio.Task[None] | None = None

    async def find(self, key_id: str | None) -> jwt.PyJWK:
        """Return the key of a token; one without a key id may have been signed by the only key. Raises `LoginFailed`."""
        now_s = asyncio.get_running_loop().time()
        found = self._named(key_id)
        is_stale = now_s - self._read_s >= REFRESH_S
        if (found is None or is_stale) and now_s - self._tried_s >= RETRY_S:
            await self.read()
            found = self._named(key_id)
        elif found is None and self._reading is not None:
            await asyncio.shield(self._reading)
            found = self._named(key_id)
        if found is None:
            raise LoginFailed("the token is signed by a key that is not known", f"no key {key_id!r} in {self._url}")
        return found

    def _named(self, key_id: str | None) -> jwt.PyJWK | None:
        if key_id is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((one for one in self._keys if one.key_id == key_id), None)

    async def read(self) -> None:
        """Read the keys now; callers at the same time share one attempt. A failure is logged, and the last keys hold."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read(), name="token-keys")
        await asyncio.shield(self._reading)

    async def refresh(self) -> None:
        """Read the keys of a file that has changed."""
        if self._stamps.have_changed():
            await self.read()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        self._tried_s = loop.time()
        try:
            content = await loop.run_in_executor(self._executor, _fetch, self._url)
            self._keys = parse_keys(content)
            self._read_s = loop.time()
        except (OSError, ValueError, http.client.HTTPException) as error:
            LOG.warning(
                "keys of tokens not read url=%s error=%r remedy='correct sasl.oauthbearer.jwks.endpoint.url'", self._url, str(error)
            )
        finally:
            self._reading = None


def check_keys(url: str) -> None:
    """Read the keys of a file once, at a start. Raises `TokenKeysError`. Keys at an https address are fetched when they are needed."""
    if not url.startswith("file:"):
        return
    try:
        parse_keys(_fetch(url))
    except (OSError, ValueError) as error:
        raise TokenKeysError(f"sasl.oauthbearer.jwks.endpoint.url={url}: {error}; name a readable JWKS file") from error


def _fetch(url: str) -> bytes:
    if url.startswith("file:"):
        with _path(url).open("rb") as file:
            content = file.read(KEYS_BYTES_MAX + 1)
    else:
        # The scheme is https: the setting allows no other, and neither does this opener follow anywhere else.
        with _OPENER.open(url, timeout=FETCH_TIMEOUT_S) as answer:
            content = answer.read(KEYS_BYTES_MAX + 1)
    if len(content) > KEYS_BYTES_MAX:
        raise ValueError(f"it has more than {KEYS_BYTES_MAX} bytes")
    return bytes(content)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys come from where the operator says, and over TLS."""

    def redirect_request(self, *_arguments: object) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def _path(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))
