"""Damage of a replica's state database, by its consequence for the replica.

The log has everything, so nothing here loses data: the replica fails, its database is set aside as evidence and built anew.
"""

from __future__ import annotations


class StateFailed(Exception):
    """The state database cannot be used."""


class StateCorrupt(StateFailed):
    """The file is damaged: it holds data that was never written, or lacks data that was. It will not be opened again."""


class DirectoryFailed(StateFailed):
    """The data directory cannot be read or written: disk full, I/O error, no permission. A new file there would not help."""


class DiskFull(DirectoryFailed):
    """The file system of the data directory has no room. The content of the database is whole: it can be opened again as it is."""

    wanted_bytes = 0
    """The size of the unfinished file that did not fit and was removed: where no more is free, it does not fit either. 0 when unknown."""


class StateLocked(StateFailed):
    """Another process or object has the state database open."""


class StateBusy(StateFailed):
    """Another connection has locked the database for longer than this one waits. The database is sound: ask again."""
