"""The one thing the page can change: acknowledging findings. Only with the token that the dashboard was started with.

Off without a token. A request needs it as `Authorization: Bearer`, which no foreign page can add, and JSON, whose type makes
a browser ask first. Nothing is read of a request that is refused, and a wrong token costs time (`attempts`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from spark_jobs.dashboard.attempts import Attempts, Network, is_token, sender
from spark_jobs.monitor.facts import acknowledge_findings, reopen_findings
from spark_jobs.store.acknowledge import AcknowledgeError, Choice, UnknownFindingError
from spark_jobs.store.engine import STORE_ERRORS, StorePlace

LOG = logging.getLogger("dashboard.writes")

PATHS: Mapping[str, Callable[..., int]] = {
    "/api/findings/acknowledge": acknowledge_findings,
    "/api/findings/reopen": reopen_findings,
}
BODY_BYTES_MAX = 64 << 10


class Refused(Exception):
    """A request that is not carried out: status and text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Writes:
    """Answers the requests of `PATHS`. `token` None: there is nothing to change here."""

    def __init__(
        self, place: StorePlace, token: str | None, clock_ms: Callable[[], int], attempts: Attempts, proxies: Sequence[Network] = ()
    ) -> None:
        self._place = place
        self._token = token
        self._clock_ms = clock_ms
        self._attempts = attempts
        self._proxies = proxies

    @property
    def is_on(self) -> bool:
        """Whether anything can be changed."""
        return self._token is not None

    async def answer(self, request: Request) -> Response:
        """Carry out one request."""
        try:
            await self._admit(request)
            choice, who, reason = _parse(await _body(request))
            action = PATHS[request.url.path]
            changed = await asyncio.to_thread(action, self._place, choice, who=who, reason=reason, now_ms=self._clock_ms())
        except Refused as refused:
            headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
            return JSONResponse({"error": str(refused)}, refused.status, headers)
        except UnknownFindingError as error:
            return JSONResponse({"error": str(error)}, 404)
        except AcknowledgeError as error:
            return JSONResponse({"error": str(error)}, 400)
        except STORE_ERRORS as error:
            return JSONResponse({"error": f"the store cannot be written now: {error}; try again"}, 503)
        LOG.info("%s by %s: %d findings", request.url.path, who, changed)
        return JSONResponse({"changed": changed})

    async def _admit(self, request: Request) -> None:
        if self._token is None:
            raise Refused(405, "this dashboard changes nothing: it was started without --token-file")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not is_token(given.strip(), self._token):
            if given and (wait_s := await self._attempts.note_wrong(sender(request, self._proxies))):
                raise Refused(429, f"too many wrong tokens; wait {wait_s} s")
            raise Refused(401, "the token is missing or wrong")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "the body must be application/json")


async def _body(request: Request) -> bytes:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise Refused(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
    return body


def _parse(body: bytes) -> tuple[Choice, str, str]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError, too; deep nesting the other
        raise Refused(400, f"the body is not JSON that can be read: {error}") from error
    if not isinstance(said, dict) or not isinstance(said.get("who"), str) or not isinstance(said.get("reason"), str):
        raise Refused(400, 'the body must be {"ids": [..] or "all": true, "who": "..", "reason": ".."}')
    ids, is_all = said.get("ids", []), said.get("all", False)
    if not isinstance(ids, list) or not all(type(one) is int and 0 < one < 2**63 for one in ids) or type(is_all) is not bool:
        raise Refused(400, "ids must be a list of the numbers of findings, all must be true or false")
    if bool(ids) == is_all:
        raise Refused(400, 'name the findings: either "ids" or "all": true')
    return Choice(ids=ids), said["who"], said["reason"]
