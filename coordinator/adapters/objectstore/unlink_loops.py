"""Removes many files without the interpreter lock. Compiled when installed; the `.pxd` has the types.

A thread that calls `os.unlink` lets go of the lock and takes it again for every file: beside a deletion the event loop is stopped for
each of them.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from records import interpreted_cython as cython


def unlink_while_possible(paths: bytes, at: int) -> int:
    """Remove the files whose paths are in `paths`, each ended by a zero byte, from the place `at` on.

    Returns the place of the first path that the system does not remove, or the length of `paths`. Only the compiled loop removes any.
    Raises `IndexError` when `at` is before the paths or the last of them has no end.
    """
    stop = len(paths)
    if cython.compiled and stop:
        if at < 0 or paths[stop - 1]:
            raise IndexError(f"place {at} is not within the paths, or the last path is not ended by a zero byte")
        raw = paths  # an address, which is not checked in the loop
        with cython.nogil:
            while at < stop and not unlink(raw + at):  # type: ignore[name-defined, operator]  # noqa: F821 - the C library's, as is the next
                at += strlen(raw + at) + 1  # type: ignore[name-defined, operator]  # noqa: F821
    return at
