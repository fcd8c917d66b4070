"""How the /metrics of a coordinator or an export is asked for: in plain text or by TLS, with a bearer token where one is wanted."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final

TLS: Final = "https://"
TIMEOUT_S: Final = 2.0
ANSWER_BYTES_MAX: Final = 16 << 20
TOKEN_BYTES_MAX: Final = 8 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraping:
    """`token_file` holds the token, alone or as the first line; `ca_file` the authorities of addresses that begin with https://.

    With `is_only_by_tls` other addresses are asked without the token, which would be seen on the way.
    """

    token_file: Path | None = None
    ca_file: Path | None = None
    is_only_by_tls: bool = False

    def fetch(self, address: str) -> tuple[str, str]:
        """Ask one address, HOST:PORT or https://HOST:PORT; returns its text, or what went wrong. Blocks."""
        url = f"{address if '://' in address else f'http://{address}'}/metrics"
        try:
            # Both files are read for each look: they may have changed, and a look takes a connection anyway.
            request = urllib.request.Request(url, headers=self._headers(url))
            with self._opener(url).open(request, timeout=TIMEOUT_S) as answer:
                body = answer.read(ANSWER_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            error.close()
            wanted = "; give the token that it asks for (of a node: http.bearer.token.file)" if error.code == 401 else ""
            return "", f"answered {error.code} {error.reason}{wanted}"
        except (OSError, HTTPException, ValueError) as error:
            return "", str(getattr(error, "reason", error)) or type(error).__name__
        if len(body) > ANSWER_BYTES_MAX:
            return "", f"its answer is larger than {ANSWER_BYTES_MAX} bytes"
        return body.decode("utf-8", "replace"), ""

    def _headers(self, url: str) -> dict[str, str]:
        if self.token_file is None or (self.is_only_by_tls and not url.startswith(TLS)):
            return {}
        with self.token_file.open(encoding="ascii") as opened:
            token = opened.readline(TOKEN_BYTES_MAX).strip()
        return {"Authorization": f"Bearer {token}"}

    def _opener(self, url: str) -> urllib.request.OpenerDirector:
        # Directly, whatever proxies the environment names: these are the operator's own machines.
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if url.startswith(TLS):
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.ca_file)))
        return urllib.request.build_opener(*handlers)
