"""The replica consumer: tails metadata partitions for one process, each in order and without a hole.

One thread owns the `Consumer` and everything about it: every method of a consumer waits for another thread's `poll`
and is starved by a poll loop, so other threads queue commands to the owner. Entries travel to the event loop in chunks: it is woken
for an urgent or a full one, and fetches the others with its ticks; while it has not taken enough of them, the thread reads no further.

Invariants: an entry reaches the listener only under the generation its partition is followed with at that moment
(checked on the loop); offsets of one generation are contiguous from `next_offset`; after `on_log_broken` nothing more
of that generation comes. Broker outages break nothing: librdkafka reads on when the broker is back.

A log can lose its end, and other entries can take the offsets. Brokers tell that to a reader whose last entry they know by its leader
epoch, and a position alone has none. So every assignment begins one entry before what is wanted: librdkafka learns its epoch, and if it
was read before it is compared. librdkafka asks once after a change of leader, and not at all when the leader is out of reach then. So the
first entry of another leader epoch is not believed before the entry in front of it was read again: a log that lost its end has a new epoch.

librdkafka leaves control records out. Where offsets are missing, the leader of the partition is asked for their batches: entries of proven
control records are handed on without key and value, anything else that is missing is a gap.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from coordinator.adapters.kafka.bridge import post, wait_for_end
from coordinator.adapters.kafka.reading.cursor import Cursor
from coordinator.adapters.kafka.reading.log_questions import LogQuestions, Skipped
from coordinator.adapters.kafka.reading.reader_settings import PASSING_ERRORS, REFUSALS, reader_properties
from coordinator.adapters.kafka.settings import OF_THE_GROUP, client_properties
from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.core.log_entry import size_of
from coordinator.runtime.ports import LogBroken, LogEntry, LogListener

LOG = logging.getLogger("coordinator.kafka.reader")

POLL_S = 0.1
"""The time for which the thread waits for entries; also the longest wait of a command for the thread."""
CHUNK_ENTRIES_MAX = 500
CHUNKS_WAITING_MAX = 8
BYTES_WAITING_MAX = 32 * 1024 * 1024
DELIVER_EVERY_S = 0.1
"""The time for which entries of a busy log come together while no change of leader waits for them. Waking two threads for each fetch took
a follower of 20 000 batches/s, whose entries come as 200 a second, a tenth of its processor time."""
REOPEN_DELAY_S = 1.0


class _Break(NamedTuple):
    partition: int
    generation: int
    why: LogBroken
    detail: str


class _Slice(NamedTuple):
    partition: int
    generation: int
    entries: list[LogEntry]
    size_bytes: int


class _Chunk(NamedTuple):
    slices: list[_Slice]
    breaks: list[_Break]
    size_bytes: int


class KafkaLogReader:
    """`LogReader` over one consumer for all partitions this process follows."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        bootstrap_servers: str,
        topic: str,
        client_id: str,
        listener: LogListener,
        kafka_properties: Mapping[str, Any] | None = None,
        stats: KafkaStats | None = None,
        chunks_waiting_max: int = CHUNKS_WAITING_MAX,
        bytes_waiting_max: int = BYTES_WAITING_MAX,
        deliver_every_s: float = DELIVER_EVERY_S,
    ) -> None:
        self._loop = loop
        self._topic = topic
        self._listener = listener
        self.stats = stats if stats is not None else KafkaStats()
        self._chunks_waiting_max = chunks_waiting_max
        self._bytes_waiting_max = bytes_waiting_max
        self._deliver_every_s = deliver_every_s
        user = kafka_properties or {}
        self._properties = reader_properties(bootstrap_servers, client_id, user, self.stats)
        asker_properties = client_properties(
            bootstrap_servers=bootstrap_servers,
            client_id=client_id,
            role="reader-admin",
            defaults={},
            fixed={},
            user=user,
            stats=self.stats,
        )
        self._questions = LogQuestions(topic, asker_properties, self._command)
        self._wanted: dict[int, int] = {}  # loop only: partition -> generation
        # Shared, under the condition.
        self._condition = threading.Condition()
        self._commands: deque[Callable[[], None]] = deque()
        self._closing = False
        self._is_full = False
        self._urgent: set[int] = set()
        self._waiting: list[_Chunk] = []
        # Reader thread only.
        self._cursors: dict[int, Cursor] = {}
        self._assigned: set[int] = set()
        self._changed: set[int] = set()
        self._thread = threading.Thread(target=self._run, name="kafka-reader", daemon=True)

    # ---- on the loop

    def start(self) -> None:
        """Start the reading thread."""
        self._thread.start()

    async def close(self, timeout_s: float = 5.0) -> bool:
        """Stop reading; False when the thread did not end in time (it is a daemon and delivers nothing any more)."""
        self._wanted.clear()
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        self._questions.close()
        return await wait_for_end(self._thread, timeout_s)

    def follow(self, partition: int, next_offset: int, generation: int, last_hash: bytes | None = None) -> None:
        """(Re)start reading a partition at `next_offset`; older deliveries end with this call. `last_hash` as in the port."""
        self._wanted[partition] = generation
        self._command(lambda: self._set_cursor(partition, Cursor(partition, generation, next_offset, last_hash)))

    def unfollow(self, partition: int) -> None:
        """Stop reading a partition; nothing of it is delivered after this call, and it is not urgent any more."""
        self._wanted.pop(partition, None)
        self.hurry(partition, False)
        self._command(lambda: self._set_cursor(partition, None))

    def hurry(self, partition: int, is_urgent: bool) -> None:
        """Deliver all entries as they come while a partition is urgent, instead of every `deliver_every_s` and a tick later."""
        with self._condition:
            if is_urgent:
                self._urgent.add(partition)
                self._condition.notify_all()
            else:
                self._urgent.discard(partition)
        if is_urgent:
            self._loop.call_soon(self.deliver)

    def deliver(self) -> None:
        """Give the listener all that was read so far."""
        if not self._waiting:
            return
        with self._condition:
            chunks, self._waiting = self._waiting, []
            if self._is_full:
                self._condition.notify_all()
        for chunk in chunks:
            self._tell(chunk)

    def _tell(self, chunk: _Chunk) -> None:
        wanted = self._wanted
        for partition, generation, entries, size_bytes in chunk.slices:
            if wanted.get(partition) == generation:
                try:
                    self._listener.on_entries(partition, generation, entries, size_bytes)
                except Exception as error:
                    # The replica lacks these entries now, so it gets no later ones; those of other partitions wait for them.
                    LOG.exception("entries were not taken partition=%d", partition)
                    self.unfollow(partition)
                    self._listener.on_log_broken(partition, generation, LogBroken.FAILED, f"entries were not taken: {error!r}")
            else:
                self.stats.reader_stale_entries += len(entries)
        for partition, generation, why, detail in chunk.breaks:
            if wanted.get(partition) == generation:
                del wanted[partition]
                self._listener.on_log_broken(partition, generation, why, detail)

    def _command(self, command: Callable[[], None]) -> None:
        with self._condition:
            self._commands.append(command)
            self._condition.notify_all()

    # ---- in the reader thread

    def _run(self) -> None:
        while not self._closing:
            consumer: Consumer | None = None
            try:
                consumer = Consumer(self._properties)
                self._assigned.clear()
                self._changed.clear()
                for cursor in self._cursors.values():
                    self._ask_range(cursor)
                self._read(consumer)
            except Exception:
                if self._closing:
                    break
                # A dead thread would freeze every replica silently: start over with a new consumer.
                self.stats.reader_reopened += 1
                LOG.exception("reading the metadata topic failed; the consumer is opened anew in %.1f s", REOPEN_DELAY_S)
            finally:
                if consumer is not None:
                    self._close_consumer(consumer)
            with self._condition:
                if not self._closing:
                    self._condition.wait_for(lambda: self._closing, REOPEN_DELAY_S)

    def _read(self, consumer: Consumer) -> None:
        while True:
            with self._condition:
                if not self._commands and not self._changed and not self._cursors:
                    self._condition.wait_for(lambda: self._closing or bool(self._commands))
                if self._closing:
                    return
                commands = list(self._commands)
                self._commands.clear()
            for command in commands:
                command()
            if self._changed:
                self._reassign(consumer)
            if not self._wait_for_room():
                continue
            first = consumer.poll(POLL_S)
            if first is None:
                continue
            messages = [first]
            # consume() with a timeout would wait it out unless a whole chunk comes.
            messages += consumer.consume(CHUNK_ENTRIES_MAX - 1, 0)
            if self._hand_over(messages) and len(messages) < CHUNK_ENTRIES_MAX:
                self._let_come_together()

    def _set_cursor(self, partition: int, cursor: Cursor | None) -> None:
        if cursor is None:
            self._cursors.pop(partition, None)
        else:
            self._cursors[partition] = cursor
        self._changed.add(partition)

    def _reassign(self, consumer: Consumer) -> None:
        gone = [TopicPartition(self._topic, partition) for partition in self._changed if partition in self._assigned]
        if gone:
            consumer.incremental_unassign(gone)
            self._assigned.difference_update(self._changed)
        new = [cursor for partition in self._changed if (cursor := self._cursors.get(partition)) is not None and not cursor.is_asking]
        self._changed.clear()
        for cursor in new:
            cursor.repeat()
        if new:
            consumer.incremental_assign([TopicPartition(self._topic, cursor.partition, cursor.next_offset) for cursor in new])
            self._assigned.update(cursor.partition for cursor in new)

    def _let_come_together(self) -> None:
        """Wait for the time of the next delivery, unless a partition is urgent, or a command comes."""
        with self._condition:
            self._condition.wait_for(lambda: self._closing or bool(self._commands) or bool(self._urgent), self._deliver_every_s)

    def _wait_for_room(self) -> bool:
        """Wait until the loop took enough of the entries, or a command came; True when there is room."""
        with self._condition:
            if self._has_room():
                return True
            self.stats.reader_waits += 1
            self._is_full = True
            self._condition.wait_for(lambda: self._closing or bool(self._commands) or self._has_room())
            self._is_full = False
            return self._has_room() and not self._closing

    def _has_room(self) -> bool:
        waiting = self._waiting
        return len(waiting) < self._chunks_waiting_max and sum([chunk.size_bytes for chunk in waiting]) < self._bytes_waiting_max

    def _hand_over(self, messages: list[Message]) -> bool:
        """Post the entries among messages, and the ends of reading a partition, to the loop; returns whether there were entries."""
        batches: dict[int, list[LogEntry]] = {}
        breaks: list[_Break] = []
        cursors = self._cursors
        partition = -1
        cursor: Cursor | None = None
        batch: list[LogEntry] = []
        new_entry = tuple.__new__  # a third of the cost of LogEntry(...): this runs for every entry of a replay
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._on_end(message, batches, breaks)
                else:
                    self._on_error(message, error, breaks)
                cursor = None
                partition = -1
                continue
            if message.partition() != partition:
                partition = message.partition()  # type: ignore[assignment]  # None only for client-level errors
                cursor = cursors.get(partition) if partition not in self._changed else None
                batch = batches.setdefault(partition, [])
            if cursor is None:
                self.stats.reader_stale_entries += 1
                continue
            offset: int = message.offset()  # type: ignore[assignment]  # None only for client-level errors
            entry = new_entry(LogEntry, (offset, message.timestamp()[1], message.key(), message.value()))
            if offset != cursor.next_offset and not self._pass_controls(cursor, offset, batch, breaks):
                cursor = None
                continue
            if cursor.is_repeating:
                if not self._repeat(cursor, entry, breaks):
                    cursor = None
                    continue
                cursor.epoch = message.leader_epoch()
                continue
            epoch = message.leader_epoch()
            if epoch != cursor.epoch and not cursor.is_epoch_proven(epoch):
                self._changed.add(partition)
                cursor = None
                continue
            cursor.next_offset = offset + 1
            batch.append(entry)
        # The generation is read before anything else can change the cursors: only this thread does.
        broken = {item.partition: item.generation for item in breaks}
        slices = []
        for number, entries in batches.items():
            if entries:
                if number in broken:
                    generation = broken[number]
                else:
                    generation = cursors[number].generation
                    cursors[number].last = entries[-1]
                # Summed here and not on the loop: memory that another thread has written is far from its core.
                slices.append(_Slice(number, generation, entries, size_of(entries)))
                self.stats.reader_entries += len(entries)
        self._post(slices, breaks, is_full=len(messages) >= CHUNK_ENTRIES_MAX)
        return bool(slices)

    def _post(self, slices: list[_Slice], breaks: list[_Break], *, is_full: bool = False) -> None:
        """Leave what was read for the event loop, and wake it unless the next tick is soon enough."""
        if not slices and not breaks:
            return
        size_bytes = sum([item.size_bytes for item in slices])
        with self._condition:
            self._waiting.append(_Chunk(slices, breaks, size_bytes))
            is_soon = bool(is_full or breaks or self._urgent)
        self.stats.reader_chunks += 1
        self.stats.reader_bytes += size_bytes
        if is_soon and not post(self._loop, self.deliver):
            with self._condition:
                self._closing = True

    def _repeat(self, cursor: Cursor, entry: LogEntry, breaks: list[_Break]) -> bool:
        """Compare the entry before the wanted one with what was read; False when it is another one."""
        if not cursor.is_the_last(entry):
            self._break(cursor, breaks, LogBroken.CUT, f"entry {cursor.next_offset} is not the one that was read")
            return False
        cursor.is_repeating = False
        cursor.last = entry
        cursor.next_offset += 1
        return True

    def _pass_controls(self, cursor: Cursor, stop: int, batch: list[LogEntry], breaks: list[_Break]) -> bool:
        """Take the control records before an offset; False when nothing after them may be read yet, or any more."""
        if stop < cursor.next_offset:
            self._break_at_gap(cursor, stop, "the broker goes back", breaks)
            return False
        if cursor.is_repeating and not cursor.knows_the_last:
            # There is nothing to compare before the first entry that was asked for.
            cursor.next_offset, cursor.is_repeating = cursor.wanted, False
        controls = cursor.take_controls(stop)
        if controls is None:
            cursor.is_asking = True
            self._changed.add(cursor.partition)
            self._questions.ask_skipped(
                cursor.partition, cursor.next_offset, stop, partial(self._is_current, cursor), partial(self._skipped_known, cursor)
            )
            return False
        for entry in controls:
            if cursor.is_repeating:
                if not self._repeat(cursor, entry, breaks):
                    return False
            else:
                batch.append(entry)
                cursor.next_offset += 1
        return True

    def _break_at_gap(self, cursor: Cursor, read: int, cause: str, breaks: list[_Break]) -> None:
        self._break(cursor, breaks, LogBroken.GAP, f"expected offset {cursor.next_offset}, read {read} ({cause})")

    def _break(self, cursor: Cursor, breaks: list[_Break], why: LogBroken, detail: str) -> None:
        self._set_cursor(cursor.partition, None)
        breaks.append(_Break(cursor.partition, cursor.generation, why, f"{self._topic}-{cursor.partition}: {detail}"))

    def _on_end(self, message: Message, batches: dict[int, list[LogEntry]], breaks: list[_Break]) -> None:
        """Take the end of a partition: unread offsets before it are control records, or the entry to repeat is missing."""
        partition, end = message.partition(), message.offset()
        if partition is None or end is None or partition in self._changed or (cursor := self._cursors.get(partition)) is None:
            return
        if end > cursor.next_offset:
            self._pass_controls(cursor, end, batches.setdefault(partition, []), breaks)
        elif cursor.is_repeating:
            self._ask_range(cursor)

    def _on_error(self, message: Message, error: KafkaError, breaks: list[_Break]) -> None:
        if error.code() == OF_THE_GROUP:
            return
        partition = message.partition()
        cursor = self._cursors.get(partition) if partition is not None else None
        if error.code() in REFUSALS and not self.stats.reader_partition_errors[error.name()]:
            LOG.warning("a broker does not show the log, and is asked again partition=%s error=%s", partition, error)
        self.stats.reader_partition_errors[error.name()] += 1
        if error.fatal():
            raise KafkaException(error)
        if cursor is None or error.code() in PASSING_ERRORS:
            return
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            # The error comes once and silence follows; only the partition's leader knows on which side of the log the offset is.
            self._ask_range(cursor)
            return
        self._break(cursor, breaks, LogBroken.FAILED, f"reading at offset {cursor.wanted} failed: {error}")

    def _close_consumer(self, consumer: Consumer) -> None:
        try:
            consumer.close()
        except (KafkaException, RuntimeError) as error:
            LOG.warning("closing the replica consumer failed: %s", error)

    # ---- answers of the partition's leader

    def _ask_range(self, cursor: Cursor) -> None:
        """Find out on which side of the log the wanted offset is."""
        self._questions.ask_range(cursor.partition, partial(self._is_current, cursor), partial(self._range_known, cursor))

    def _is_current(self, cursor: Cursor) -> bool:
        return self._cursors.get(cursor.partition) is cursor

    def _skipped_known(self, cursor: Cursor, skipped: Skipped) -> None:
        if skipped.why:
            breaks: list[_Break] = []
            self._break_at_gap(cursor, skipped.stop, f"{skipped.why}: docs/operating.md", breaks)
            self._post([], breaks)
            return
        if skipped.is_deleted:
            cursor.is_asking = False
            self._ask_range(cursor)
        else:
            cursor.found_controls(skipped.controls)
            self._changed.add(cursor.partition)

    def _range_known(self, cursor: Cursor, found: tuple[int, int]) -> None:
        low, high = found
        where = f"offset {cursor.wanted} is not in the log, which holds [{low}, {high})"
        breaks: list[_Break] = []
        if cursor.wanted < low:
            self._break(cursor, breaks, LogBroken.BELOW_START, where)
        elif cursor.wanted > high:
            self._break(cursor, breaks, LogBroken.PAST_END, where)
        else:
            # The log moved between the two questions, or was cut and has grown again: the last entry tells.
            cursor.floor = low
            self._changed.add(cursor.partition)
        self._post([], breaks)
