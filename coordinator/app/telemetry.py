"""Publishes what the runtime measures and what can be read off the replicas at a scrape."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.adapters.metrics.registry import Metrics, Sample
from coordinator.adapters.server.server import Server
from coordinator.core.leadership import State
from coordinator.runtime.node import Node


class MetricsTelemetry:
    """Implements the runtime's `Telemetry`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def state_changed(self, partition: int, before: State, after: State) -> None:
        """Count a new leadership."""
        if after is State.LEADING:
            self._metrics.add("leader_changes_total", 1, partition)

    def group_appended(self, partition: int, entries: int, size_bytes: int) -> None:
        """Record the size of a group."""
        self._metrics.observe("group_files", entries)
        self._metrics.add("appended_bytes_total", size_bytes, partition)

    def group_acknowledged(self, partition: int, wait_s: float) -> None:
        """Record how long Kafka took."""
        self._metrics.observe("purgatory_seconds", wait_s)

    def loaded(self, partition: int, seconds: float) -> None:
        """Record how long a replica took to load."""
        self._metrics.observe("partition_load_seconds", seconds)

    def flushed(self, partition: int, seconds: float, batches: int) -> None:
        """Record one write of the state database."""
        self._metrics.observe("flush_seconds", seconds)
        self._metrics.observe("flush_rows", batches)


def node_samples(node: Node, clock_ms: Callable[[], int]) -> Iterable[Sample]:
    """Levels and counters of a node's replicas."""
    states = dict.fromkeys((state.value for state in State), 0)
    ends: dict[str, int] = {}
    for partition, replica in node.replicas.items():
        shard = replica.shard
        if shard is None:
            continue
        states[shard.phase.value] += 1
        age_s = shard.oldest_unacknowledged_ms(clock_ms()) / 1000
        yield Sample("oldest_unacknowledged_entry_age_seconds", (partition,), age_s)
        yield Sample("log_end_offset", (partition,), shard.state.applied_offset + 1)
        yield Sample("state_applied_offset", (partition,), replica.written_offset + 1)
        for reason, count in shard.void_entries.items():
            yield Sample("void_entries_total", (partition, reason), count)
        for reason, count in shard.term_ends.items():
            ends[reason] = ends.get(reason, 0) + count
        counts = shard.commit_counts
        yield Sample("commits_total", (partition,), counts.commits)
        yield Sample("batches_total", (partition,), counts.batches)
        yield Sample("records_total", (partition,), counts.records)
        yield Sample("duplicate_batches_total", (partition,), counts.duplicates)
        for error, count in counts.rejected.items():
            yield Sample("rejected_batches_total", (partition, error), count)
    for state, count in states.items():
        yield Sample("partitions", (state,), count)
    for reason, count in ends.items():
        yield Sample("term_ends_total", (reason,), count)
    for reason, count in node.failed_checks.items():
        yield Sample("topic_check_failures_total", (reason,), count)
    now = time.monotonic()
    for loop, then in node.loop_ages_s.items():
        yield Sample("background_loop_last_success_age_seconds", (loop,), max(0.0, now - then))


def server_samples(servers: Sequence[Server]) -> Iterable[Sample]:
    """Counters of the listeners."""
    for server in servers:
        stats, name = server.stats, server.listener
        yield Sample("connections", (name,), stats.connections_open)
        yield Sample("connection_reading_paused_total", (name,), stats.reading_paused)
        yield Sample("received_bytes_total", (name,), stats.bytes_in)
        yield Sample("sent_bytes_total", (name,), stats.bytes_out)
        for reason, count in stats.closed.items():
            yield Sample("connections_closed_total", (name, reason.name.lower()), count)


def kafka_samples(stats: KafkaStats) -> Iterable[Sample]:
    """Errors of the Kafka clients, which heal by themselves."""
    for name, count in stats.client_errors.items():
        client, _, error = name.partition(":")
        yield Sample("kafka_client_errors_total", (client, error), count)
