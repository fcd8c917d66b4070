"""Rules for every request and every answer: only GET (and POST where something can be changed), a known Host on loopback,
no foreign page as origin, and headers that let a page run nothing but its own files.

The Host check keeps a foreign page that made its name resolve to this machine from reading the dashboard.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Wraps the application. `hosts` are the names it may be called by, empty: any; `written` the paths that take POST."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str] = (), written: Collection[str] = ()) -> None:
        self._app = app
        self._written = frozenset(written)
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        refusal = self._refuse(scope)
        await (refusal if refusal is not None else self._app)(scope, receive, send_guarded)

    def _refuse(self, scope: Scope) -> PlainTextResponse | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if scope["method"] == "POST" and scope["path"] in self._written:
            origin = headers.get(b"origin")
            if origin is not None and origin.partition("://")[2] != host:
                return PlainTextResponse("only this page itself may change something here\n", 403)
        elif scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("only GET: this page changes nothing\n", 405, {"Allow": "GET, HEAD"})
        if not self._hosts:
            return None
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() in self._hosts:
            return None
        return PlainTextResponse("this dashboard listens on loopback and answers only to localhost\n", 421)
