"""OAUTHBEARER logins (RFC 7628): a signed token (JWT) of an authority names the user and the end of the session.

A token must have an end, a user and a signature by a key of the authority; audience and issuer are compared when they are configured.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from coordinator.security.login import LoginFailed, Step
from coordinator.security.principal import Principal
from coordinator.security.token_keys import ALGORITHMS, TokenKeys

TOKEN_BYTES_MAX: Final = 64 * 1024
_SEPARATOR: Final = "\x01"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The claims that a token must have. Empty `audiences` and `issuer` are not compared."""

    audiences: tuple[str, ...] = ()
    issuer: str = ""
    user_claim: str = "sub"
    skew_s: int = 30


class TokenCheck:
    """Checks tokens."""

    def __init__(self, keys: TokenKeys, rules: TokenRules) -> None:
        self._keys = keys
        self._rules = rules

    async def check(self, token: str) -> tuple[Principal, int]:
        """Return the principal of a token and for how long, in milliseconds, it is valid. Raises `LoginFailed`."""
        try:
            head = jwt.get_unverified_header(token)
            if head.get("alg") not in ALGORITHMS:
                raise LoginFailed("the token is not signed by a public key", f"algorithm {str(head.get('alg'))[:20]!r}")
            key_id = head.get("kid")
            key = await self._keys.find(key_id if isinstance(key_id, str) else None)
            claims = self._claims(token, key)
        except jwt.PyJWTError as error:
            raise LoginFailed(f"the token is not valid: {error}") from error
        user = claims.get(self._rules.user_claim)
        if not isinstance(user, str) or not user or len(user) > 255:
            raise LoginFailed(f"the token is not valid: it names no user in {self._rules.user_claim}")
        try:
            session_ms = int((float(claims["exp"]) + self._rules.skew_s - time.time()) * 1000)
        except OverflowError as error:
            raise LoginFailed("the token is not valid: its end is no time") from error
        return Principal(user), max(1, session_ms)

    def _claims(self, token: str, key: jwt.PyJWK) -> Mapping[str, Any]:
        rules = self._rules
        return jwt.decode(
            token,
            key,
            algorithms=ALGORITHMS,
            audience=list(rules.audiences) or None,
            issuer=rules.issuer or None,
            leeway=rules.skew_s,
            options={"require": ["exp"], "verify_aud": bool(rules.audiences), "verify_iss": bool(rules.issuer), "verify_sub": False},
        )


class TokenLogin:
    """One OAUTHBEARER login; implements `coordinator.security.login.ServerLogin`."""

    def __init__(self, tokens: TokenCheck) -> None:
        self._tokens = tokens

    async def step(self, data: bytes) -> Step:
        """See `ServerLogin`."""
        acting_as, token = _parse(data)
        principal, session_ms = await self._tokens.check(token)
        if acting_as not in ("", principal.name):
            raise LoginFailed("a user cannot act as another one", f"user {principal.name!r} by OAUTHBEARER: wants to act as another user")
        return Step(b"", principal, session_ms)


def _parse(data: bytes) -> tuple[str, str]:
    """Return the name that the client wants to act as, and its token. Raises `LoginFailed`."""
    try:
        header, *pairs = data.decode("ascii").split(_SEPARATOR)
    except UnicodeDecodeError as error:
        raise LoginFailed("malformed OAUTHBEARER message: it is no ASCII") from error
    parts = header.split(",")
    if len(parts) != 3 or parts[0] not in ("n", "y") or parts[2] or (parts[1] and not parts[1].startswith("a=")):
        raise LoginFailed("malformed OAUTHBEARER message: it does not begin with n,,")
    fields = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    scheme, _, token = fields.get("auth", "").partition(" ")
    if len(pairs) < 2 or pairs[-2:] != ["", ""] or scheme.lower() != "bearer" or not token or len(token) > TOKEN_BYTES_MAX:
        raise LoginFailed("malformed OAUTHBEARER message: it is not auth=Bearer TOKEN")
    return parts[1].removeprefix("a=").replace("=2C", ",").replace("=3D", "="), token
