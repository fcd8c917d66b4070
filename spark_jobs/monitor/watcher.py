"""Asks Kafka again and again, in a thread of its own: where the log ends, whether it is still the same log, which brokers there are.

Spark would not notice a topic that was deleted and created anew: every offset of it looks like one that was merged already.
Invariant: once `replaced` is set it stays, and the job must end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from spark_jobs.monitor.topic import Broker, KafkaUnavailableError, TopicFacts, TopicMissingError, TopicWatch

LOG = logging.getLogger("monitor.kafka")

ENDS_EVERY_S = 2.0
IDENTITY_EVERY_S = 5.0
QUIET_S = 60.0


class LogReplacedError(Exception):
    """The topic is not the log that the folder was built from; the text says how that shows and what to do."""


def check_identity(topic: str, known: TopicFacts, found: TopicFacts) -> None:
    """Raise `LogReplacedError` when the topic is another one."""
    if found.topic_id != known.topic_id:
        raise LogReplacedError(
            f"topic {topic} has id {found.topic_id}, this folder was built from {known.topic_id}: the topic was deleted and "
            "created anew. Keep this folder for reference and start with an empty one"
        )
    if found.partitions != known.partitions:
        raise LogReplacedError(
            f"topic {topic} has {found.partitions} partitions, this folder was built from {known.partitions}: the number of "
            "metadata partitions never changes in a service. Start with an empty folder"
        )


def check_ends(topic: str, heads: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """Raise `LogReplacedError` when a partition ends before what was merged of it. `heads` must be older than `ends`."""
    for partition, end in sorted(ends.items()):
        if heads.get(partition, 0) > end:
            raise LogReplacedError(
                f"{topic}-{partition} ends at offset {end}, but entries up to {heads[partition]} were merged: Kafka has lost the end of "
                "the log (an unclean leader election?). Start with an empty folder"
            )


class Watcher:
    """See the module. `heads` tells the next offsets of the database; `on_brokers` gets the brokers when they changed."""

    def __init__(
        self,
        watch: TopicWatch,
        known: TopicFacts,
        *,
        heads: Callable[[], Mapping[int, int]],
        on_brokers: Callable[[Sequence[Broker]], None],
        on_error: Callable[[], None],
    ) -> None:
        self.replaced: LogReplacedError | None = None
        self._watch = watch
        self._known = known
        self._heads = heads
        self._on_brokers = on_brokers
        self._on_error = on_error
        self._ends: dict[int, int] = {}
        self._brokers: list[Broker] = []
        self._quiet_until_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-watcher", daemon=True)

    def start(self) -> None:
        """Look once, then go on in the thread. Raises `LogReplacedError`, `TopicMissingError`, `KafkaUnavailableError`."""
        self._look(with_identity=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a question under way is not waited for."""
        self._stop.set()

    def ends(self) -> Mapping[int, int]:
        """Where each partition ended when last asked."""
        return self._ends

    def look_at_identity(self) -> None:
        """Ask now whether it is still the same log. Raises `LogReplacedError` if not; no answer is no news."""
        try:
            check_identity(self._watch.topic, self._known, self._watch.facts())
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
                self._on_error()
                self._report(error)

    def _look(self, *, with_identity: bool) -> None:
        if with_identity:
            check_identity(self._watch.topic, self._known, self._watch.facts())
            brokers = self._watch.brokers()
            if brokers != self._brokers:
                self._on_brokers(brokers)
                self._brokers = brokers
        heads = dict(self._heads())
        ends = self._watch.ends(range(self._known.partitions))
        try:
            check_ends(self._watch.topic, heads, ends)
        except LogReplacedError:
            self.look_at_identity()  # a new topic is shorter, too, and the better explanation
            raise
        self._ends = ends

    def _deleted(self) -> LogReplacedError:
        return LogReplacedError(
            f"topic {self._watch.topic} (id {self._known.topic_id}) does not exist any more. What was merged stays in this folder; "
            "for a new topic start with an empty one"
        )

    def _report(self, error: KafkaUnavailableError) -> None:
        if time.monotonic() >= self._quiet_until_s:
            self._quiet_until_s = time.monotonic() + QUIET_S
            LOG.warning("Kafka does not answer: %s", error)
