"""A file descriptor that becomes readable when a librdkafka client has something to report: an event loop can wait for it.

A thread that blocks in `poll()` does the same for two switches of threads more: it is woken, waits for the interpreter that the loop
holds, and wakes the loop. librdkafka has such a descriptor (`rd_kafka_queue_io_event_enable`), the Python client does not pass it on, so
it is asked for through ctypes, with the client's handle. That is the first field behind the header of the client's objects, which is
said nowhere. So a child process tries it first (`is_usable`): a client whose objects are laid out otherwise ends the child, never this
process.

Run as a program, this file is that child. Figures: docs/decisions/002-reports-by-a-signal.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import subprocess
import sys
from functools import cache
from typing import Final

from confluent_kafka import Producer, cimpl

EVENT: Final = (1).to_bytes(8, "little")
"""The bytes librdkafka writes: one more event for an eventfd."""
PROOF_EVENT_S: Final = 5.0
"""How long the child waits for its signal; statistics bring it after a millisecond."""
PROOF_S: Final = 30.0
"""How long the child may take: interpreter and client start in 0.2 s on an idle core."""


class ReportSignal:
    """The signal of one producer. It says that something came, once: `clear` it first, then poll until nothing is left."""

    def __init__(self, library: ctypes.CDLL, handle: int) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._library = library
        self._queue = library.rd_kafka_queue_get_main(handle)
        library.rd_kafka_queue_io_event_enable(self._queue, self.fd, EVENT, len(EVENT))

    def clear(self) -> None:
        """Make the descriptor unreadable until something new comes."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.fd)

    def detach(self) -> None:
        """End the signal; before the last reference to its producer is dropped. The descriptor stays open."""
        self._library.rd_kafka_queue_io_event_enable(self._queue, -1, None, 0)
        self._library.rd_kafka_queue_destroy(self._queue)

    def close(self) -> None:
        """Close the descriptor; it must not be waited for any more."""
        os.close(self.fd)


@cache
def is_usable() -> bool:
    """Whether this client on this system gives signals, as a child process found out. Blocks the first time."""
    if not hasattr(os, "eventfd"):
        return False
    try:
        # -P: the modules beside this file are not top-level ones.
        child = subprocess.run([sys.executable, "-P", __file__], capture_output=True, timeout=PROOF_S, check=False)
    except (subprocess.TimeoutExpired, OSError):
        return False
    return child.returncode == 0


def report_signal(producer: Producer) -> ReportSignal:
    """Return the signal of a producer that nothing polls yet. Only where `is_usable`."""
    handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__).value
    assert handle is not None, "an open producer has a handle"
    return ReportSignal(_library(), handle)


@cache
def _library() -> ctypes.CDLL:
    # Symbols are looked for in what the client's own module is linked with: the librdkafka that made the handle.
    library = ctypes.CDLL(cimpl.__file__)
    library.rd_kafka_queue_get_main.argtypes = [ctypes.c_void_p]
    library.rd_kafka_queue_get_main.restype = ctypes.c_void_p
    library.rd_kafka_queue_io_event_enable.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_queue_io_event_enable.restype = None
    library.rd_kafka_queue_destroy.argtypes = [ctypes.c_void_p]
    library.rd_kafka_queue_destroy.restype = None
    return library


def _prove() -> int:
    """Wait for a signal of a producer without brokers, which reports its statistics. Returns the exit status."""
    if Producer.__basicsize__ < object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p):
        return 1
    producer = Producer({"statistics.interval.ms": 1, "stats_cb": lambda _: None, "log_level": 0})
    signal = report_signal(producer)
    while producer.poll(0):
        pass  # an event that came before there was a signal is not signalled
    readable, _, _ = select.select([signal.fd], [], [], PROOF_EVENT_S)
    signal.detach()
    return 0 if readable else 1


if __name__ == "__main__":
    sys.exit(_prove())
