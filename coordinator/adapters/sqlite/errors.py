"""What goes wrong with a state database, by what it means for the replica.

A busy database is never a corrupt one: `apsw.BusyError` passes through as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw


class StateLocked(Exception):
    """Another process or object has the state database open."""


class StateCorrupt(Exception):
    """The file is damaged. It is marked and will be discarded when it is opened next; the log has everything."""


class DirectoryFailed(Exception):
    """The data directory cannot be read or written: disk full, I/O error, no permission."""


class DamagedRow(Exception):
    """SQLite read a row, but what is in it was never written. `translated` makes a `StateCorrupt` of it."""


CORRUPTIONS = (apsw.CorruptError, apsw.NotADBError, DamagedRow)
DIRECTORY_FAILURES = (apsw.IOError, apsw.FullError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)


TROUBLES = (*CORRUPTIONS, *DIRECTORY_FAILURES)
"""What `translation` knows."""


def translation(error: Exception, path: Path, on_corrupt: Callable[[str], None]) -> StateCorrupt | DirectoryFailed:
    """What to raise instead of one of the `TROUBLES`."""
    if isinstance(error, CORRUPTIONS):
        on_corrupt(str(error))
        return StateCorrupt(f"the state database {path} is damaged ({error}); it is discarded and rebuilt when the replica starts again")
    return DirectoryFailed(f"the state database {path} cannot be used ({error}); check the disk and the permissions")


@contextmanager
def translated(path: Path, on_corrupt: Callable[[str], None]) -> Iterator[None]:
    """Raise `StateCorrupt` or `DirectoryFailed` instead of the library's own errors. Takes a microsecond: see `StateReader`."""
    try:
        yield
    except TROUBLES as error:
        raise translation(error, path, on_corrupt) from error
