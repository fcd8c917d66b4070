"""A short time slice for the event loop, so that it runs as soon as it is woken (Linux 6.12 and later).

There a thread that is woken takes the core of a running one only if its slices are shorter. A commit wakes the loop twice, mostly while
the broker, a client or another thread of the process has the core. Threads that the loop starts get the slices of the system.
Why and how much: docs/decisions/037-a-lone-commit.md.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import platform
import struct
from typing import Final, NamedTuple

LOG = logging.getLogger("coordinator.app")

SLICE_NS: Final = 500_000
"""A fraction of the system's, which is 1.4 to 2.8 ms on two cores and more. With 0.1 ms a saturated loop commits 5 % less."""

_SET_AND_GET: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""The numbers of `sched_setattr` and `sched_getattr`, for which C libraries have no functions."""
_RESET_ON_FORK: Final = 1
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")


class Attributes(NamedTuple):
    """The first form of `struct sched_attr` (sched_setattr(2)); `runtime_ns` is the slice of a thread under the usual policy."""

    size: int
    policy: int
    flags: int
    nice: int
    priority: int
    runtime_ns: int
    deadline_ns: int
    period_ns: int


def ask_for_short_slices() -> None:
    """Ask for short slices for the calling thread. One with a policy or a better priority of its own is left alone."""
    try:
        attributes = attributes_of_thread()
        if attributes.policy == os.SCHED_OTHER and attributes.nice >= 0:
            # Without the flag all threads and processes that this one starts would have its slices, too.
            _set_attributes(attributes._replace(flags=attributes.flags | _RESET_ON_FORK, runtime_ns=SLICE_NS))
    except OSError as error:
        LOG.info("the event loop has the time slices of the system (%s): commits take a little longer beside other work", error)


def attributes_of_thread() -> Attributes:
    """Return how the calling thread is scheduled. Raises OSError where the system does not tell."""
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    _call(1, found, _ATTRIBUTES.size, 0)
    return Attributes(*_ATTRIBUTES.unpack(found.raw))


def _set_attributes(attributes: Attributes) -> None:
    _call(0, ctypes.create_string_buffer(_ATTRIBUTES.pack(*attributes), _ATTRIBUTES.size), 0)


def _call(which: int, buffer: ctypes.Array[ctypes.c_char], *rest: int) -> None:
    numbers = _SET_AND_GET.get(platform.machine()) if platform.system() == "Linux" else None
    if numbers is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(numbers[which]), 0, buffer, *rest):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
