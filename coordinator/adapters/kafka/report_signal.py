"""A file descriptor that becomes readable when a librdkafka client has something to report: an event loop can wait for it.

A thread that blocks in `poll()` does the same for two switches of threads more: it is woken, waits for the interpreter that the loop
holds, and wakes the loop. librdkafka has such a descriptor (`rd_kafka_queue_io_event_enable`), the Python client does not pass it on, so
it is asked for through ctypes, with the client's handle. That is the first field behind the header of the client's objects, which is
said nowhere: it is only looked for in versions it was found in.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from functools import cache
from importlib.metadata import version
from typing import Final

from confluent_kafka import Producer, cimpl

CLIENT_VERSION: Final = version("confluent-kafka")
TRIED_VERSIONS: Final = ("2.16.",)
"""Of the client. To add one: `tests/adapters/test_term_producer.py` passes with it."""
EVENT: Final = (1).to_bytes(8, "little")
"""What librdkafka writes: one more event for an eventfd."""


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
        """Close the descriptor; nobody may wait for it any more."""
        os.close(self.fd)


def is_signalling() -> bool:
    """Whether producers can be waited for by event loops, with this client on this system."""
    return hasattr(os, "eventfd") and CLIENT_VERSION.startswith(TRIED_VERSIONS)


def report_signal(producer: Producer) -> ReportSignal | None:
    """Return the signal of a producer that nobody polls yet; None where there are none."""
    if not is_signalling():
        return None
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
