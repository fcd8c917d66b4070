"""librdkafka's own interface beside the Python client: the messages and events of a client that the Python client made.

The Python client makes an object of every message and of every report, calls back for each, and gives the interpreter away around each.
librdkafka takes and gives them in arrays, and has a descriptor that becomes readable when there is something to report
(`rd_kafka_queue_io_event_enable`). The Python client passes none of that on, so it is asked for through ctypes, with the client's handle,
which is the first field after the header of the client's objects. That is documented nowhere. So a child process tries all of it first
(`is_usable`): with a client whose objects are laid out otherwise the child ends, never this process.

Functions keep the interpreter, except `wait_for_event`: they take microseconds, and getting it back takes longer.
Run as a program, this file is that child. Figures: docs/decisions/002-reports-by-a-signal.md.
"""

from __future__ import annotations

import ctypes
import os
import select
import subprocess
import sys
import threading
import time
from functools import cache
from typing import Final

from confluent_kafka import Producer, cimpl

EVENT: Final = (1).to_bytes(8, "little")
"""The bytes librdkafka writes: one more event for an eventfd."""
PROOF_EVENT_S: Final = 10.0
"""How long the child waits for its signal and its report, which need milliseconds."""
PROOF_S: Final = 30.0
"""How long the child may take: interpreter and client start in 0.2 s on an idle core."""

_PROVING = threading.Lock()

COPY: Final = 0x2
"""The flag of messages whose bytes librdkafka copies."""
EVENT_REPORT: Final = 0x1
EVENT_LOG: Final = 0x4
EVENT_ERROR: Final = 0x8
EVENT_STATISTICS: Final = 0x40


class NativeMessage(ctypes.Structure):
    """`rd_kafka_message_t`."""

    _fields_ = (
        ("error", ctypes.c_int),
        ("topic", ctypes.c_void_p),
        ("partition", ctypes.c_int32),
        ("value", ctypes.c_void_p),
        ("value_size", ctypes.c_size_t),
        ("key", ctypes.c_void_p),
        ("key_size", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("opaque", ctypes.c_void_p),
    )


class ReportSignal:
    """The signal of one client. It says that something came, once: `clear` it first, then take events until none is left."""

    def __init__(self, queue: int) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._queue = queue
        library().rd_kafka_queue_io_event_enable(queue, self.fd, EVENT, len(EVENT))

    def clear(self) -> None:
        """Make the descriptor unreadable until something new comes."""
        try:  # noqa: SIM105 - for every report: `suppress` takes longer than the call
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass

    def detach(self) -> None:
        """End the signal; before the last reference to its client is dropped. The descriptor stays open."""
        library().rd_kafka_queue_io_event_enable(self._queue, -1, None, 0)

    def close(self) -> None:
        """Close the descriptor; it must not be waited for any more."""
        os.close(self.fd)


def is_usable() -> bool:
    """Whether this client on this system can be used so, as a child process found out. Blocks until one has; later calls do not."""
    with _PROVING:
        return _is_proven()


@cache
def _is_proven() -> bool:
    if not hasattr(os, "eventfd"):
        return False
    try:
        # -P: the modules beside this file are not top-level ones.
        child = subprocess.run([sys.executable, "-P", __file__], capture_output=True, timeout=PROOF_S, check=False)
    except (subprocess.TimeoutExpired, OSError):
        return False
    return child.returncode == 0


def handle_of(producer: Producer) -> int:
    """Return librdkafka's handle of an open client. Only where `is_usable`."""
    handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__).value
    assert handle is not None, "an open producer has a handle"
    return handle


@cache
def library() -> ctypes.PyDLL:
    """The librdkafka that the Python client is linked with; its functions keep the interpreter."""
    # Symbols are looked for in what the client's own module is linked with: the librdkafka that made the handle.
    functions = ctypes.PyDLL(cimpl.__file__)
    pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    for name, result, *arguments in (
        ("queue_get_main", pointer, pointer),
        ("queue_io_event_enable", None, pointer, ctypes.c_int, text, size),
        ("queue_destroy", None, pointer),
        ("queue_poll", pointer, pointer, ctypes.c_int),
        ("topic_new", pointer, pointer, text, pointer),
        ("topic_destroy", None, pointer),
        ("produce_batch", ctypes.c_int, pointer, ctypes.c_int32, ctypes.c_int, pointer, ctypes.c_int),
        ("event_type", ctypes.c_int, pointer),
        ("event_destroy", None, pointer),
        ("event_message_count", size, pointer),
        ("event_message_array", size, pointer, pointer, size),
        ("event_error", ctypes.c_int, pointer),
        ("event_error_string", text, pointer),
        ("event_error_is_fatal", ctypes.c_int, pointer),
        ("event_log", ctypes.c_int, pointer, pointer, pointer, pointer),
        ("event_stats", text, pointer),
        ("name", text, pointer),
    ):
        function = getattr(functions, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return functions


@cache
def _waiting_library() -> ctypes.CDLL:
    functions = ctypes.CDLL(cimpl.__file__)
    functions.rd_kafka_queue_poll.restype = ctypes.c_void_p
    functions.rd_kafka_queue_poll.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return functions


def wait_for_event(queue: int, timeout_s: float) -> int | None:
    """Return the next event of a queue, None when none came in time; other threads run meanwhile."""
    event: int | None = _waiting_library().rd_kafka_queue_poll(queue, round(timeout_s * 1000))
    return event


def _prove() -> int:
    """Send a message to librdkafka's own broker and read its report, after a signal. Returns the exit status."""
    if Producer.__basicsize__ < object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p):
        return 1
    functions = library()
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "its own", "linger.ms": 0, "log_level": 0})
    handle = handle_of(producer)
    queue = functions.rd_kafka_queue_get_main(handle)
    signal = ReportSignal(queue)
    topic = functions.rd_kafka_topic_new(handle, b"proof", None)
    key, value = ctypes.create_string_buffer(b"the key"), ctypes.create_string_buffer(b"the value")
    message = NativeMessage(value=ctypes.addressof(value), value_size=9, key=ctypes.addressof(key), key_size=7)
    if functions.rd_kafka_produce_batch(topic, 0, COPY, ctypes.byref(message), 1) != 1:
        return 2
    seen: tuple[object, ...] = ()
    end_s = time.monotonic() + PROOF_EVENT_S
    while not seen and time.monotonic() < end_s:
        readable, _, _ = select.select([signal.fd], [], [], PROOF_EVENT_S)
        if not readable:
            return 3
        signal.clear()
        while event := functions.rd_kafka_queue_poll(queue, 0):
            if functions.rd_kafka_event_type(event) == EVENT_REPORT:
                reported = (ctypes.c_void_p * 2)()
                count = functions.rd_kafka_event_message_array(event, reported, 2)
                first = NativeMessage.from_address(reported[0] or 0)
                seen = count, first.error, first.partition, first.offset, ctypes.string_at(first.key or 0, first.key_size)
            functions.rd_kafka_event_destroy(event)
    functions.rd_kafka_topic_destroy(topic)
    signal.detach()
    functions.rd_kafka_queue_destroy(queue)
    return 0 if seen == (1, 0, 0, 0, b"the key") else 4


if __name__ == "__main__":
    sys.exit(_prove())
