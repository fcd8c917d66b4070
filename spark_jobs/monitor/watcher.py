"""Asks Kafka again and again, in a thread of its own: where the log ends, whether it is still the same log, which brokers there are.

Spark would not notice a topic that was deleted and created anew: every offset of it looks like one that was merged already.
Invariant: once `replaced` is set it stays, and the job must end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from spark_jobs.monitor.topic import KafkaUnavailableError, TopicBroker, TopicMissingError, TopicWatch, WatchedTopic
from spark_jobs.store.engine import STORE_ERRORS

LOG = logging.getLogger("monitor.kafka")

ENDS_EVERY_S = 1.0
IDENTITY_EVERY_S = 5.0
QUIET_S = 60.0
ROUTINE_TIMEOUT_S = 4.0
"""Less patience than at the start: a Kafka that does not answer has to be reported within seconds."""


class LogReplacedError(Exception):
    """The topic is not the log that the folder was built from; the text says how that shows and what to do."""


def check_identity(topic: str, known: WatchedTopic, found: WatchedTopic) -> None:
    """Raise `LogReplacedError` when the topic is another one. A topic gets more partitions, never fewer: its id says all."""
    if found.topic_id != known.topic_id:
        raise LogReplacedError(
            f"topic {topic} has id {found.topic_id}, this folder was built from {known.topic_id}: the topic was deleted and "
            "created anew. Keep this folder for reference and start with an empty one"
        )


def check_ends(topic: str, heads: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Raise `LogReplacedError` when a partition ends before what was merged of it. `heads` must be older than `ends`."""
    for partition, end in sorted(ends.items()):
        if heads.get(partition, 0) > end:
            raise LogReplacedError(
                f"{topic}-{partition} ends at offset {end}, but entries up to {heads[partition]} were merged: Kafka has lost the end of "
                "the log (an unclean leader election?). Start with an empty folder"
            )


class ReadTimes:
    """Until when the log is known to be merged whole, from where heads and ends were at each look.

    The age of a log's last entry does not show it: a log that was quiet for an hour is not an hour behind when an entry comes.
    `read_until_ms` is, for each partition, the newest look of which is known that everything that Kafka took before it is merged.
    """

    def __init__(self) -> None:
        self._marks: dict[int, tuple[int, int]] = {}
        self.read_until_ms: dict[int, int] = {}

    def look(self, heads: Mapping[int, int], ends: Mapping[int, int], asked_ms: int) -> None:
        """Note a look; `heads` are next offsets, `ends` may lack entries that Kafka took after it was asked."""
        for partition, end in ends.items():
            head, mark = heads.get(partition, 0), self._marks.get(partition)
            if mark is not None and head >= mark[0]:
                self.read_until_ms[partition] = mark[1]
            if head >= end:
                self.read_until_ms[partition] = asked_ms
                self._marks.pop(partition, None)
            elif mark is None or head >= mark[0]:
                self._marks[partition] = (end, asked_ms)


class Watcher:
    """See the module. `heads` tells the next offsets of the database; `on_brokers` gets brokers and gateways when they changed,
    `on_grown` the number of partitions when there are more.

    `known` is the topic as Kafka told it last, `answered_ms` when Kafka last answered everything, `error` why it did not since then.
    """

    def __init__(
        self,
        watch: TopicWatch,
        known: WatchedTopic,
        *,
        heads: Callable[[], Mapping[int, int]],
        gateways: Callable[[], Sequence[TopicBroker]],
        on_brokers: Callable[[Sequence[TopicBroker]], None],
        on_grown: Callable[[int], None],
        on_error: Callable[[], None],
    ) -> None:
        self.replaced: LogReplacedError | None = None
        self.answered_ms = 0
        self.error = ""
        self._watch = watch
        self.known = known
        self._heads = heads
        self._gateways = gateways
        self._on_brokers = on_brokers
        self._on_grown = on_grown
        self._on_error = on_error
        self._ends: dict[int, int] = {}
        self._read = ReadTimes()
        self._brokers: list[TopicBroker] = []
        self._quiet_until_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-watcher", daemon=True)

    def start(self) -> None:
        """Look once, then go on in the thread. Raises `LogReplacedError`, `TopicMissingError`, `KafkaUnavailableError`."""
        self._look(with_identity=True)
        self._watch.timeout_s = ROUTINE_TIMEOUT_S
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a question under way is not waited for."""
        self._stop.set()

    def ends(self) -> Mapping[int, int]:
        """Where each partition ended when last asked."""
        return self._ends

    def read_until_ms(self) -> Mapping[int, int]:
        """Until when each partition is known to be merged whole."""
        return self._read.read_until_ms

    def look_at_identity(self) -> None:
        """Ask now whether it is still the same log. Raises `LogReplacedError` if not; no answer is no news."""
        try:
            check_identity(self._watch.topic, self.known, self._watch.facts())
        except TopicMissingError as error:
            raise self._deleted() from error
        except KafkaUnavailableError:
            return

    def _run(self) -> None:
        identity_due_s = time.monotonic() + IDENTITY_EVERY_S
        while not self._stop.wait(ENDS_EVERY_S) and self.replaced is None:
            is_due = time.monotonic() >= identity_due_s
            if is_due:
                identity_due_s = time.monotonic() + IDENTITY_EVERY_S
            try:
                self._look(with_identity=is_due)
            except LogReplacedError as error:
                self.replaced = error
            except TopicMissingError:
                self.replaced = self._deleted()
            except KafkaUnavailableError as error:
                self.error = str(error)
                self._on_error()
                self._report("Kafka does not answer", error)
            except STORE_ERRORS as error:  # they are noted at the next look at them
                self._report("brokers and the number of partitions cannot be noted", error)

    def _look(self, *, with_identity: bool) -> None:
        if with_identity:
            found = self._watch.facts()
            check_identity(self._watch.topic, self.known, found)
            if found.partitions > self.known.partitions:
                self._on_grown(found.partitions)
                self.known = found
            brokers = [*self._watch.brokers(), *self._gateways()]
            if brokers != self._brokers:
                self._on_brokers(brokers)
                self._brokers = brokers
        heads, asked_ms = dict(self._heads()), time.time_ns() // 1_000_000
        ends = self._ask_ends()
        try:
            check_ends(self._watch.topic, heads, ends)
        except LogReplacedError:
            self.look_at_identity()  # a new topic is shorter, too, and the better explanation
            raise
        self._ends, self.error = ends, ""
        self.answered_ms = time.time_ns() // 1_000_000
        self._read.look(heads, ends, asked_ms)

    def _ask_ends(self) -> dict[int, int]:
        try:
            return self._watch.ends(range(self.known.partitions))
        except TopicMissingError as error:
            self.look_at_identity()  # the topic is there: a broker has not heard of a new partition yet
            raise KafkaUnavailableError(f"a broker does not know all {self.known.partitions} partitions of {self._watch.topic}") from error

    def _deleted(self) -> LogReplacedError:
        return LogReplacedError(
            f"topic {self._watch.topic} (id {self.known.topic_id}) does not exist any more. What was merged stays in this folder; "
            "for a new topic start with an empty one"
        )

    def _report(self, what: str, error: Exception) -> None:
        if time.monotonic() >= self._quiet_until_s:
            self._quiet_until_s = time.monotonic() + QUIET_S
            LOG.warning("%s: %s", what, error)
