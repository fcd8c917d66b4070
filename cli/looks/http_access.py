"""HTTP ports of nodes and gateways as commands ask them: with a token, over TLS where the URL says so."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cli.outcome import Exit, Failed
from cli.progress import doing

BODY_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAccess:
    """How HTTP ports are asked."""

    timeout_s: float
    token: str = ""
    ca_file: str | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str], timeout_s: float, token_file: Path | None) -> HttpAccess:
        """Take the authority that clients' properties name, and the first token of a file. Raises `Failed`."""
        token = ""
        if token_file is not None:
            try:
                token = next(filter(None, map(str.strip, token_file.read_text(encoding="ascii").splitlines())), "")
            except (OSError, UnicodeDecodeError) as error:
                raise Failed(f"--token-file: {error}", Exit.USAGE) from error
        return cls(timeout_s=min(timeout_s, 10.0), token=token, ca_file=properties.get("ssl.ca.location"))

    def get(self, url: str) -> tuple[int, bytes]:
        """Return status and body. Raises OSError, ValueError, http.client.HTTPException."""
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"} if self.token else {})
        context = ssl.create_default_context(cafile=self.ca_file) if url.startswith("https://") else None
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s, context=context) as answer:
                return answer.status, answer.read(BODY_BYTES_MAX)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(BODY_BYTES_MAX)

    @doing("asking the HTTP port")
    def settings(self, url: str) -> list[dict[str, object]]:
        """Return the settings of the process at an HTTP port, each with `key`, `value` and `source`. Raises `Failed`."""
        import json
        from http.client import OK, UNAUTHORIZED, HTTPException

        if not url.startswith(("http://", "https://")):
            raise Failed(f"{url} is no URL of an HTTP port; write http://host:9193", Exit.USAGE)
        where = f"{url.rstrip('/')}/config"
        try:
            status, body = self.get(where)
            if status == OK:
                return [dict(one) for one in json.loads(body)["settings"]]
        except (OSError, HTTPException) as error:
            raise Failed(f"{where} does not answer: {error}; is it the HTTP port of a node or a gateway?", Exit.UNAVAILABLE) from error
        except (ValueError, KeyError, TypeError) as error:
            raise Failed(f"{where} is not the HTTP port of a node or a gateway: {error}", Exit.USAGE) from error
        if status == UNAUTHORIZED:
            raise Failed(f"{where} wants a token: pass --token-file with one of http.bearer.token.file")
        raise Failed(f"{where} answers {status}; a node listens for HTTP on 9193 by default", Exit.NOT_FOUND)
