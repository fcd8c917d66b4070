"""Bearer tokens of a file, which may change while the service runs: a request with one of them is admitted."""

from __future__ import annotations

import hmac
import logging
from pathlib import Path
from typing import Final

from coordinator.printable import quoted
from coordinator.security.file_stamps import FileStamps

LOG = logging.getLogger(__name__)

TOKEN_CHARACTERS_MIN: Final = 16
TOKEN_CHARACTERS_MAX: Final = 4_096
TOKENS_MAX: Final = 16
_FILE_BYTES_MAX: Final = 128 * 1024


class TokenFileError(Exception):
    """A file of tokens is not usable; the text names file, limit and remedy. No token is in it."""


class BearerTokens:
    """The tokens of one file. Raises `TokenFileError` when made from a file that is not usable. `setting` names the file's key in texts."""

    def __init__(self, setting: str, file: Path) -> None:
        self._setting = setting
        self._file = file
        self._stamps = FileStamps([file])
        self._tokens = read_tokens(setting, file)

    def admit(self, authorization: str) -> bool:
        """Tell whether the value of an Authorization header carries one of the tokens; the time it takes tells nothing of them."""
        scheme, _, given = authorization.partition(" ")
        offered = given.strip().encode("utf-8", "surrogateescape")
        is_known = False
        for token in self._tokens:
            is_known |= hmac.compare_digest(offered, token)
        return is_known and scheme.lower() == "bearer"

    def refresh(self) -> None:
        """Read the file if it has changed; one that is not usable is logged once, and the last tokens stay."""
        if not self._stamps.have_changed():
            return
        try:
            self._tokens = read_tokens(self._setting, self._file)
        except TokenFileError as error:
            if self._stamps.could_not_be_read(str(error)):
                LOG.error("tokens not reloaded error=%r; the last ones stay", str(error))
            return
        LOG.info("tokens reloaded file=%s tokens=%d", self._file, len(self._tokens))


def read_tokens(setting: str, file: Path) -> tuple[bytes, ...]:
    """Return the tokens of a file, one a line; empty lines are passed over. Raises `TokenFileError`."""
    remedy = f"`openssl rand -hex 24 > {quoted(str(file))}` makes one"
    try:
        with file.open("rb") as opened:
            data = opened.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise TokenFileError(f"{setting} {file}: {error.strerror or error}; {remedy}") from error
    tokens = tuple(stripped for line in data.splitlines() if (stripped := line.strip()))
    if not 0 < len(tokens) <= TOKENS_MAX or len(data) > _FILE_BYTES_MAX:
        raise TokenFileError(f"{setting} {file}: it must hold 1 to {TOKENS_MAX} tokens, one a line; {remedy}")
    for number, token in enumerate(tokens, 1):
        if not TOKEN_CHARACTERS_MIN <= len(token) <= TOKEN_CHARACTERS_MAX or any(not 0x21 <= byte <= 0x7E for byte in token):
            limit = f"{TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX} printable ASCII characters without spaces"
            raise TokenFileError(f"{setting} {file}: token {number} must have {limit}; {remedy}")
    return tokens
