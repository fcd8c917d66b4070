"""What a gateway learns of a login that it passes on: the mechanism, when the cluster has accepted it, for how long, and the name. Pure.

The cluster judges the login. Its last answer to SaslAuthenticate has no error, but so has the answer in the middle of SCRAM, and the one by
which OAUTHBEARER tells that a token is refused: each mechanism says by the bytes of an answer whether it was the last one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from coordinator.config.sections.security import SaslMechanism

PASSING: Final = tuple(one.value for one in SaslMechanism)
"""The mechanisms that prove a client by what it knows, on any connection. A ticket of GSSAPI is for a host by name, not for a gateway."""
NAME_CHARACTERS_MAX: Final = 255
UNKNOWN: Final = "unknown"
"""The name by which a client counts whose login shows none. The cluster accepted it, so this is no stranger."""
_SEPARATOR: Final = "\x01"
_NAME_CLAIM: Final = "sub"
_HASH_CHARACTERS: Final = 16


class Passed(Enum):
    """What an answer of the cluster says of a login."""

    GOES_ON = "the client has to answer"
    ACCEPTED = "the client is logged in"
    REFUSED = "the login has failed"


class Mechanisms(NamedTuple):
    """The mechanisms that a listener of the cluster offers."""

    passing: Sequence[str]
    others: Sequence[str]


def split_mechanisms(offered: Iterable[str]) -> Mechanisms:
    """Say which of the offered mechanisms can pass through a gateway."""
    known = list(dict.fromkeys(offered))
    return Mechanisms([one for one in known if one in PASSING], [one for one in known if one not in PASSING])


class PassingLogin:
    """One login by one mechanism, from the accepted SaslHandshake to its end."""

    def __init__(self, mechanism: str) -> None:
        assert mechanism in PASSING, mechanism
        self.mechanism = mechanism
        self.name = UNKNOWN
        """Of the principal, as the first message shows it."""
        self.identity: bytes | None = None
        """See `identity_in`."""
        self._has_begun = False

    def send(self, message: bytes) -> None:
        """Note a message of the client."""
        if not self._has_begun:
            self._has_begun = True
            self.name = name_in(self.mechanism, message)
            self.identity = identity_in(self.mechanism, message)

    def receive(self, *, has_error: bool, reply: bytes) -> Passed:
        """Judge the cluster's answer to the last message."""
        if has_error:
            return Passed.REFUSED
        return Passed.ACCEPTED if self._is_last(reply) else Passed.GOES_ON

    def _is_last(self, reply: bytes) -> bool:
        match self.mechanism:
            case SaslMechanism.SCRAM_SHA_256 | SaslMechanism.SCRAM_SHA_512:
                return reply.startswith(b"v=")  # the cluster proves that it knows the password; its first message begins with r=
            case SaslMechanism.OAUTHBEARER:
                return not reply  # a refused token is answered with {"status":"invalid_token"}, and with the error in the next round
        return True


def name_in(mechanism: str, message: bytes) -> str:
    """Return the user's name in the first message of a login, for logs and quotas; a token's hash if nothing in it is a name."""
    try:
        text = message.decode("utf-8")
    except UnicodeDecodeError:
        return UNKNOWN
    match mechanism:
        case SaslMechanism.PLAIN:
            parts = text.split("\0")
            name = parts[1] if len(parts) == 3 else ""
        case SaslMechanism.OAUTHBEARER:
            name = _name_of_token(text)
        case _:
            fields = text.split(",")
            bare = fields[2] if len(fields) > 3 and fields[2].startswith("n=") else ""
            name = bare[2:].replace("=2C", ",").replace("=3D", "=")
    return name if 0 < len(name) <= NAME_CHARACTERS_MAX else UNKNOWN


def identity_in(mechanism: str, message: bytes) -> bytes | None:
    """Return what all logins have in common that are the same client to the cluster, should it accept them; None when that is not known.

    It is a hash of the mechanism and of all that the first message says, but for the password of PLAIN and the nonce of SCRAM. So it has
    extensions, such as the one by which a token of a delegation logs in, and two tokens of one user are two identities.
    """
    parts = [message]
    match mechanism:
        case SaslMechanism.PLAIN:
            *parts, _ = message.split(b"\0")
            if len(parts) != 2:
                return None
        case SaslMechanism.SCRAM_SHA_256 | SaslMechanism.SCRAM_SHA_512:
            parts = message.split(b",")
            if len(parts) < 4 or not parts[3].startswith(b"r="):
                return None
            del parts[3]
    return hashlib.sha256(b"\0".join((mechanism.encode(), *parts))).digest()


def _name_of_token(text: str) -> str:
    """The subject that a signed token names, else a hash: Kafka tells no client its principal. The cluster has yet to accept the token."""
    pairs = dict(pair.split("=", 1) for pair in text.split(_SEPARATOR) if "=" in pair)
    scheme, _, token = pairs.get("auth", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        return UNKNOWN
    subject = _claims(token).get(_NAME_CLAIM)
    if isinstance(subject, str) and 0 < len(subject) <= NAME_CHARACTERS_MAX:
        return subject
    return "token-" + hashlib.sha256(token.encode()).hexdigest()[:_HASH_CHARACTERS]


def _claims(token: str) -> Mapping[str, object]:
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
