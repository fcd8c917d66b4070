"""Users of a file that may change while the service runs."""

from __future__ import annotations

import logging
from pathlib import Path

from coordinator.security.file_stamps import FileStamps
from coordinator.security.scram import ScramCredentials
from coordinator.security.users_file import UsersFileError, read_users

LOG = logging.getLogger(__name__)


class WatchedUsers:
    """Implements `coordinator.security.scram.ScramUsers`. Raises `UsersFileError` when made from a file that is not usable."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._stamps = FileStamps([file])
        self._users = read_users(file)

    def find(self, mechanism: str, user: str) -> ScramCredentials | None:
        """See `ScramUsers`."""
        return self._users.get(user, {}).get(mechanism)

    def refresh(self) -> None:
        """Read the file if it has changed; one that is not usable is logged once, and the last users stay."""
        if not self._stamps.have_changed():
            return
        try:
            users = read_users(self._file)
            if self._users and not users and not self._file.read_bytes().endswith(b"\n"):
                raise UsersFileError(f"{self._file} ends before its first user; replace it as a whole, as `diskless users` does")
            self._users = users
        except (UsersFileError, OSError) as error:
            if self._stamps.could_not_be_read(str(error)):
                LOG.error("users not reloaded error=%r; the last ones stay", str(error))
            return
        LOG.info("users reloaded file=%s users=%d", self._file, len(self._users))
