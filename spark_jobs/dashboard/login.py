"""Access to the page: for a login with the token, or a user whom a trusted proxy names. Without token and proxy the page is open.

A login is a cookie that holds for `SESSION_S` and is made from the token alone: restarts keep it, another token ends it. Wrong tokens
cost time (`attempts`). A proxy's header counts only when the connection itself comes from one of its addresses.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from spark_jobs.dashboard.attempts import Attempts, Network, digest, is_proxy, is_token, sender

LOGIN_PATH: Final = "/login"
OPEN_PATHS: Final = frozenset({"/healthz", "/favicon.ico"})
COOKIE: Final = "diskless_dashboard"
SESSION_S: Final = 12 * 3600
BODY_BYTES_MAX: Final = 8 << 10
FIELDS_MAX: Final = 8

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Log in</title></head>
<body><h1>Diskless monitor</h1><form method="post" action="/login">
<label>Token <input type="password" name="token" autocomplete="current-password" required autofocus></label>
<button>Log in</button></form><p>{said}</p></body></html>
"""
_FORM_POLICY = "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookRules:
    """The rules of access to the page, open without token and header. `proxies` are trusted: their `user_header`, their X-Forwarded-For."""

    token: str | None = None
    user_header: str | None = None
    proxies: Sequence[Network] = ()

    @property
    def are_set(self) -> bool:
        """Whether anybody is kept out."""
        return self.token is not None or self.user_header is not None


class Login:
    """Wraps the application; see the module. `now_s` gives the time since 1970."""

    def __init__(self, app: ASGIApp, rules: LookRules, attempts: Attempts, now_s: Callable[[], float] = time.time) -> None:
        self._app = app
        self._rules = rules
        self._attempts = attempts
        self._now_s = now_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not self._rules.are_set or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = await (self._log_in if scope["path"] == LOGIN_PATH and self._rules.token is not None else self._refuse)(request)
        await (self._app if answer is None else answer)(scope, receive, send)

    async def _refuse(self, request: Request) -> Response | None:
        """Return why a request is not served; None when it is."""
        if self._is_named_by_proxy(request) or self._has_session(request):
            return None
        given = request.headers.get("authorization")
        if given is not None and self._rules.token is not None:
            scheme, _, token = given.partition(" ")
            if scheme.lower() == "bearer" and is_token(token.strip(), self._rules.token):
                return None
            if wait_s := await self._note_wrong(request):
                return _too_many(wait_s)
        if self._rules.token is None:
            return PlainTextResponse("this page is reached through its proxy, which says who you are\n", 403)
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(LOGIN_PATH, 303)
        return JSONResponse({"error": "log in at /login, or send the token as Authorization: Bearer"}, 401, {"WWW-Authenticate": "Bearer"})

    async def _log_in(self, request: Request) -> Response:
        if request.method != "POST":
            return _form("", 200)
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_BYTES_MAX:
                return _form("Too much was sent.", 413)
        if not is_token(_sent_token(body), self._rules.token):
            wait_s = await self._note_wrong(request)
            return _too_many(wait_s) if wait_s else _form("The token is wrong.", 401)
        answer = RedirectResponse("/", 303)
        is_secure = request.url.scheme == "https" or (self._is_proxy(request) and request.headers.get("x-forwarded-proto") == "https")
        expires_s = int(self._now_s()) + SESSION_S
        answer.set_cookie(COOKIE, self._session(expires_s), max_age=SESSION_S, httponly=True, samesite="strict", secure=is_secure)
        return answer

    async def _note_wrong(self, request: Request) -> int:
        return await self._attempts.note_wrong(sender(request, self._rules.proxies))

    def _session(self, expires_s: int) -> str:
        key = digest(f"session:{self._rules.token}")
        return f"{expires_s}.{hmac.digest(key, str(expires_s).encode(), 'sha256').hex()}"

    def _has_session(self, request: Request) -> bool:
        given = request.cookies.get(COOKIE, "")
        expires, _, _ = given.partition(".")
        if self._rules.token is None or not (expires.isascii() and expires.isdigit() and len(expires) <= 12):
            return False
        is_ours = hmac.compare_digest(given.encode("utf-8", "replace"), self._session(int(expires)).encode())
        return is_ours and int(expires) > self._now_s()

    def _is_named_by_proxy(self, request: Request) -> bool:
        header = self._rules.user_header
        return header is not None and self._is_proxy(request) and bool(request.headers.get(header, "").strip())

    def _is_proxy(self, request: Request) -> bool:
        return request.client is not None and is_proxy(request.client.host, self._rules.proxies)


def _sent_token(body: bytes) -> str:
    """Return the token of a form; empty without one."""
    try:
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=FIELDS_MAX).get("token", [""])[0].strip()
    except ValueError:  # more fields than any form has
        return ""


def _form(said: str, status: int) -> Response:
    return HTMLResponse(_PAGE.format(said=said), status, {"Content-Security-Policy": _FORM_POLICY, "Cache-Control": "no-store"})


def _too_many(wait_s: int) -> Response:
    return PlainTextResponse("too many wrong tokens; wait a little\n", 429, {"Retry-After": str(wait_s)})
