"""How the entries of a term reach librdkafka, and how its reports come back: directly, or by the Python client's callbacks.

Invariants of both: entries leave in one call, in order; reports come in the order librdkafka gives them, each exactly once; nothing here
waits but `take` with a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coordinator.adapters.kafka.producing.librdkafka import (
    COPY,
    EVENT_ERROR,
    EVENT_LOG,
    EVENT_REPORT,
    EVENT_STATISTICS,
    NativeMessage,
    ReportSignal,
    handle_of,
    library,
    wait_for_event,
)
from coordinator.adapters.kafka.settings import Properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.core.events import NewEntry
from coordinator.runtime.ports import ProduceRefused, Report
from records.entry_key import decode_key

LOG_LEVELS: Final = (50, 50, 50, 40, 30, 20, 20, 10)
"""The levels of Python's `logging` by those of syslog."""
MESSAGES_AT_ONCE: Final = 500


class EntryClient(Protocol):
    """A client of librdkafka that sends the entries of one term."""

    @property
    def signal(self) -> ReportSignal | None:
        """Says that there is something to take; without it a thread has to wait in `take`."""

    def send(self, partition: int, entries: Sequence[NewEntry]) -> None:
        """Hand entries over, to travel in few requests. Raises `ProduceRefused`; entries after the refused one may be sent."""

    def take(self, timeout_s: float) -> None:
        """Take all that librdkafka has to report, or wait for it so long."""

    def let_go(self) -> None:
        """Drop what holds on to the client: it is called last."""


class EntryClientListener(Protocol):
    """Hears the reports and statistics of a client, in the thread that calls `take`."""

    def on_report(self, report: Report) -> None: ...

    def on_statistics(self, text: str) -> None: ...


class ToldPlaces:
    """Tells places that a broker gave from those that librdkafka made up.

    A request was repeated and the broker does not remember the place of its batch: it answers -1, and librdkafka counts on from there.
    """

    def __init__(self) -> None:
        self._next_made_up: int | None = None

    def place(self, first: int | None, count: int = 1) -> int | None:
        """The place of the last of so many entries side by side, the first of which is reported at this offset; None when it is unknown."""
        if first is None or first < 0:
            first = -1
        elif first != self._next_made_up:
            self._next_made_up = None
            return first + count - 1
        self._next_made_up = first + count
        return None


class DirectClient:
    """Messages are handed over and reported in arrays, and the interpreter is kept: nothing is called back."""

    def __init__(self, producer: Producer, topic: str, properties: Properties, listener: EntryClientListener, stats: KafkaStats) -> None:
        self._library = library()
        self._handle = handle_of(producer)
        self._queue: int = self._library.rd_kafka_queue_get_main(self._handle)
        self._topic_name = topic
        self._topic: int | None = None  # a client that knows its topic asks brokers for it: not while it is a spare
        self._name: str = self._library.rd_kafka_name(self._handle).decode()
        self._listener = listener
        self._stats = stats
        self._on_error: Callable[[KafkaError], None] = properties["error_cb"]
        self._logger = properties["logger"]
        self._messages = (NativeMessage * MESSAGES_AT_ONCE)()
        self._slots = list(self._messages)
        self._reported = (ctypes.c_void_p * MESSAGES_AT_ONCE)()
        self._places = ToldPlaces()
        self.signal = ReportSignal(self._queue)

    def send(self, partition: int, entries: Sequence[NewEntry]) -> None:
        """Implement `EntryClient.send`."""
        if self._topic is None:
            self._topic = self._library.rd_kafka_topic_new(self._handle, self._topic_name.encode(), None)
        for first in range(0, len(entries), MESSAGES_AT_ONCE):
            self._send(partition, entries[first : first + MESSAGES_AT_ONCE])

    def _send(self, partition: int, entries: Sequence[NewEntry]) -> None:
        data = b"".join([part for _, key, value in entries for part in (key, value)])
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        for slot, (_, key, value) in zip(self._slots, entries, strict=False):
            key_size, value_size = len(key), len(value)
            slot.key, slot.key_size = address, key_size
            address += key_size
            slot.value, slot.value_size = address, value_size
            address += value_size
        # The bytes are copied before the call returns.
        sent = self._library.rd_kafka_produce_batch(self._topic, partition, COPY, self._messages, len(entries))
        if sent != len(entries):
            place = next((place for place in range(len(entries)) if self._slots[place].error), 0)
            raise refused(entries[place], partition, KafkaError(self._slots[place].error))

    def take(self, timeout_s: float) -> None:
        """Implement `EntryClient.take`."""
        functions = self._library
        event = functions.rd_kafka_queue_poll(self._queue, 0)
        if event is None and timeout_s:
            event = wait_for_event(self._queue, timeout_s)
        while event is not None:
            kind = functions.rd_kafka_event_type(event)
            if kind == EVENT_REPORT:
                self._take_reports(event)
            elif kind == EVENT_STATISTICS:
                self._listener.on_statistics(functions.rd_kafka_event_stats(event).decode())
            elif kind == EVENT_ERROR:
                self._take_error(event)
            elif kind == EVENT_LOG:
                self._take_log(event)
            functions.rd_kafka_event_destroy(event)
            event = functions.rd_kafka_queue_poll(self._queue, 0)

    def _take_reports(self, event: int) -> None:
        count = MESSAGES_AT_ONCE
        while count == MESSAGES_AT_ONCE:
            count = self._library.rd_kafka_event_message_array(event, self._reported, MESSAGES_AT_ONCE)
            if count > 1 and self._take_request(count):
                continue
            for place in range(count):
                message = self._message(place)
                if message.error:
                    self._listener.on_report(failed(seq_of(message), KafkaError(message.error), self._stats))
                else:
                    self._listener.on_report(Report(seq_of(message), self._places.place(message.offset), None))

    def _take_request(self, count: int) -> bool:
        """Report entries of one request together: they have places side by side and one outcome, as their ends tell. False for others."""
        first, last = self._message(0), self._message(count - 1)
        if first.error or last.error:
            return False
        last_seq = seq_of(last)
        if not last_seq - seq_of(first) == last.offset - first.offset == count - 1:
            return False
        self._listener.on_report(Report(last_seq, self._places.place(first.offset, count), None, count))
        return True

    def _message(self, place: int) -> NativeMessage:
        return NativeMessage.from_address(self._reported[place])  # type: ignore[arg-type]  # librdkafka has set it

    def _take_error(self, event: int) -> None:
        error = KafkaError(self._library.rd_kafka_event_error(event))
        if self._library.rd_kafka_event_error_is_fatal(event):
            note_fatal(error, self._stats)
        else:
            self._on_error(error)

    def _take_log(self, event: int) -> None:
        facility, text, level = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_int()
        self._library.rd_kafka_event_log(event, ctypes.byref(facility), ctypes.byref(text), ctypes.byref(level))
        said = [(part.value or b"").decode(errors="replace") for part in (facility, text)]
        self._logger.log(LOG_LEVELS[level.value & 7], "%s [%s] %s", said[0], self._name, said[1])

    def let_go(self) -> None:
        """Implement `EntryClient.let_go`."""
        self.signal.detach()
        if self._topic is not None:
            self._library.rd_kafka_topic_destroy(self._topic)
        self._library.rd_kafka_queue_destroy(self._queue)


class CallbackClient:
    """Every message and every report by itself, as the Python client has it; reports are waited for by a thread."""

    signal = None

    def __init__(self, producer: Producer, topic: str, listener: EntryClientListener, stats: KafkaStats) -> None:
        self._producer: Producer | None = producer
        self._topic = topic
        self._listener = listener
        self._stats = stats
        self._places = ToldPlaces()

    def send(self, partition: int, entries: Sequence[NewEntry]) -> None:
        """Implement `EntryClient.send`."""
        producer, report = self._producer, self._on_delivery
        if producer is None:
            raise ProduceRefused(f"the producer of partition {partition} was abandoned")
        messages: list[dict[str, Any]] = [{"value": value, "key": key, "callback": partial(report, seq)} for seq, key, value in entries]
        try:
            sent = producer.produce_batch(self._topic, messages, partition)
        except (BufferError, KafkaException) as error:
            raise ProduceRefused(f"entries {entries[0].seq} to {entries[-1].seq} of partition {partition}: {error}") from error
        if sent != len(messages):
            place = next((place for place, message in enumerate(messages) if "_error" in message), 0)
            raise refused(entries[place], partition, messages[place].get("_error"))

    def take(self, timeout_s: float) -> None:
        """Implement `EntryClient.take`."""
        try:
            if self._producer is not None:
                self._producer.poll(timeout_s)
        except KafkaException as error:
            # Raised once for a fatal error. Entries under way are still reported as failed, and the next
            # call is refused, so the term learns of it in order; reports must go on being served.
            note_fatal(error.args[0], self._stats)

    def _on_delivery(self, seq: int, error: KafkaError | None, message: Message) -> None:
        place = None if error is not None else self._places.place(message.offset())
        self._listener.on_report(Report(seq, place, None) if error is None else failed(seq, error, self._stats))

    def let_go(self) -> None:
        """Implement `EntryClient.let_go`."""
        self._producer = None


def seq_of(message: NativeMessage) -> int:
    """Return the place of a reported entry in its term, by its key; -1, which no report may have, when the key is none of ours."""
    key = decode_key(ctypes.string_at(message.key, message.key_size)) if message.key else None
    return -1 if key is None else key.seq


def refused(entry: NewEntry, partition: int, error: KafkaError | None) -> ProduceRefused:
    """Say that an entry was not taken."""
    return ProduceRefused(f"entry {entry.seq} of partition {partition} ({len(entry.value)} bytes): {error}")


def failed(seq: int, error: KafkaError, stats: KafkaStats) -> Report:
    """Count an entry that was not delivered, and return its report."""
    stats.report_errors[error.name()] += 1
    return Report(seq, None, f"{error.name()}: {error.str()}")


def note_fatal(error: KafkaError, stats: KafkaStats) -> None:
    """Count an error after which a producer sends nothing any more."""
    stats.report_errors[f"fatal:{error.name()}"] += 1
