"""Faults of the log: an entry of the term in force, with the sequence that is due, that contradicts what stands before it.

That is what a leader writes whose memory or database is damaged; here it is written in its name while it is frozen for a
moment. It must be void for every replica, end the leader's term, and lose nothing that was acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from random import Random
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from integration_tests.faults.catalogue import Hits, Needs, Say, action
from integration_tests.faults.forging import LIES, NothingToContradict
from integration_tests.faults.topology import COORDINATORS, Topology
from integration_tests.history import Forgery, LogMessage
from integration_tests.metadata_log import LogReader
from records.entry_key import encode_key

FORGING_TIMEOUT_S: Final = 45.0
REQUEST_TIMEOUT_S: Final = 5.0
FROZEN_MAX_S: Final = 2.0
"""Longer than a forgery takes, much shorter than a session: the fault is the lie, not the pause."""


class Forger:
    """Follows one partition of the metadata topic and writes to it. Close it (a context manager)."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        self.reader = LogReader()
        self.next_offset = 0
        self._place = TopicPartition(topic, partition, 0)
        quiet = {"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500}
        self._consumer = Consumer({**quiet, "group.id": "forger", "enable.auto.commit": False, "isolation.level": "read_uncommitted"})
        self._producer = Producer({**quiet, "acks": "all", "delivery.timeout.ms": int(REQUEST_TIMEOUT_S * 1000), "retries": 0})
        self._consumer.assign([self._place])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._consumer.close()

    def catch_up(self, until_s: float) -> bool:
        """Read up to the end of the log as it is now; returns whether that was possible in time."""
        try:
            end = self._consumer.get_watermark_offsets(self._place, timeout=REQUEST_TIMEOUT_S, cached=False)[1]
        except KafkaException:
            return False  # a broker is being hit too
        while self.next_offset < end:
            if time.monotonic() > until_s:
                return False
            for message in self._consumer.consume(500, 0.05):
                if message.error() is None:
                    self.next_offset = (message.offset() or 0) + 1
                    self.reader.take(LogMessage(message.offset() or 0, message.key(), message.value(), message.timestamp()[1]))
        return True

    def write(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        """Write entries, each a key and a value; whether they are in the log is for it to say."""
        for key, value in entries:
            self._producer.produce(self._place.topic, value, key, partition=self._place.partition)
        self._producer.flush(REQUEST_TIMEOUT_S + 1)


@action(
    "forgery",
    "an entry that contradicts the log, in the name of a leader frozen for a moment",
    needs=Needs.OWN_CLIENTS,
    hits=Hits.NODE,
    lasts_s=(1, 4),
)
def forgery(topology: Topology, target: str, rng: Random, say: Say) -> Iterator[None]:
    led = topology.node(target).readiness()[1].get("leading")
    coordinators = led if isinstance(led, list) and led else range(COORDINATORS)
    coordinator_id = int(rng.choice(list(coordinators)))
    name = rng.choice(sorted(LIES))
    end_s = time.monotonic() + FORGING_TIMEOUT_S
    with Forger(topology.service.bootstrap, topology.service.topic, coordinator_id) as forger:
        tries = 0
        is_forged = False
        while not is_forged and time.monotonic() < end_s:
            tries += 1
            is_forged = _forge_once(topology, target, forger, coordinator_id, name, rng, end_s)
        text = "forged" if is_forged else "could not forge"
        say(f"{text} {name} in coordinator {coordinator_id}, {'led' if led else 'not led'} by {target}, at try {tries}")
    yield


def _forge_once(topology: Topology, target: str, forger: Forger, coordinator_id: int, name: str, rng: Random, end_s: float) -> bool:
    """Lie once; returns whether the lie stands where only its content can make it void."""
    if not forger.catch_up(end_s):
        return False
    topology.node(target).pause()
    try:
        if not forger.catch_up(time.monotonic() + FROZEN_MAX_S) or (due := forger.reader.next_key) is None:
            return False
        try:
            values = LIES[name](forger.reader.fold, rng)
        except NothingToContradict:
            return False
        entries = [(encode_key(due._replace(seq=due.seq + place)), value) for place, value in enumerate(values)]
        # Noted before it is written: one that nobody confirms may be in the log all the same, now or later.
        topology.forgeries.append(Forgery(coordinator_id=coordinator_id, key=entries[-1][0], value=entries[-1][1]))
        first = forger.next_offset
        forger.write(entries)
    finally:
        topology.node(target).resume()
    forger.catch_up(end_s)
    return any(void.offset >= first for void in forger.reader.read.contradictions)
