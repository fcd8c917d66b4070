"""What goes wrong with a state database, by what it means for the replica.

A busy database is never a corrupt one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from coordinator.core.damage import DirectoryFailed, StateBusy, StateCorrupt, StateFailed, StateLocked

__all__ = [
    "CORRUPTIONS",
    "TROUBLES",
    "DamagedRow",
    "DirectoryFailed",
    "StateBusy",
    "StateCorrupt",
    "StateLocked",
    "translated",
    "translation",
]


class DamagedRow(Exception):
    """SQLite read a row, but what is in it was never written. `translated` makes a `StateCorrupt` of it."""


CORRUPTIONS = (apsw.CorruptError, apsw.NotADBError, DamagedRow)
OTHER_SIGNS = (
    apsw.SQLError,
    apsw.SchemaChangeError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.InternalError,
    apsw.FormatError,
    apsw.ProtocolError,
)
"""The statements are those of this release and so are the tables: where one does not fit the other, the file has changed."""
DIRECTORY_FAILURES = (apsw.IOError, apsw.FullError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
SHORT_READS = (apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)
"""The file is shorter than it was, or the file system found it damaged: another one can be written in its place."""

TROUBLES = (*CORRUPTIONS, *DIRECTORY_FAILURES, *OTHER_SIGNS, apsw.BusyError)
"""What `translation` knows."""


def translation(error: Exception, path: Path, on_corrupt: Callable[[str], None]) -> StateFailed:
    """What to raise instead of one of the `TROUBLES`."""
    if isinstance(error, apsw.BusyError):
        return StateBusy(f"the state database {path} is locked by another connection ({error}); end what writes to it")
    if isinstance(error, DIRECTORY_FAILURES) and getattr(error, "extendedresult", 0) not in SHORT_READS:
        return DirectoryFailed(f"the state database {path} cannot be used ({error}); check the disk and the permissions")
    on_corrupt(str(error))
    return StateCorrupt(f"the state database {path} is damaged ({error}); it is set aside and rebuilt from the log")


@contextmanager
def translated(path: Path, on_corrupt: Callable[[str], None]) -> Iterator[None]:
    """Raise `StateCorrupt`, `DirectoryFailed` or `StateBusy` instead of the library's errors. Takes a microsecond: see `StateReader`."""
    try:
        yield
    except TROUBLES as error:
        raise translation(error, path, on_corrupt) from error
