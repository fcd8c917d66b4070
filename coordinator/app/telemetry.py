"""Publishes the measurements of the runtime, and figures that are read off the replicas at a scrape."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from coordinator.adapters.kafka.stats import KafkaStats
from coordinator.adapters.metrics.registry import Metrics, Sample
from coordinator.adapters.server.listeners import ListenersSecurity
from coordinator.adapters.server.server import Server
from coordinator.app.requests.quotas import QUOTAS, QuotaGate
from coordinator.app.security.authorization import KafkaRules
from coordinator.app.version import installed_version
from coordinator.core.directory.directory import DIRECTORY_PARTITION
from coordinator.core.leadership.states import State
from coordinator.kafka.errors import error_name
from coordinator.runtime.node.accusations import CONTRADICTION_KINDS
from coordinator.runtime.node.node import Node
from coordinator.runtime.node.refusals import KINDS
from coordinator.runtime.routing.move_progress import MOVE_EVENTS
from coordinator.runtime.snapshots.keeper import STEPS
from coordinator.runtime.telemetry import SnapshotPurpose

CHECK_FAILURES = ("missing", "refused", "unavailable")
"""The kinds of failure, all of which are there from the beginning: a counter that begins with its first failure shows no increase."""
DIGEST_BYTES = 6
"""So many bytes of a digest are published: a float holds them exactly."""


class MetricsTelemetry:
    """Implements the runtime's `Telemetry`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._group_files = metrics.series("group_files")
        self._purgatory = metrics.series("purgatory_seconds")
        self._loop_lag = metrics.series("event_loop_lag_seconds")

    def state_changed(self, partition: int, before: State, after: State) -> None:
        """Count a new leadership."""
        if after is State.LEADING:
            self._metrics.add("leader_changes_total", 1, partition)

    def group_appended(self, partition: int, entries: int, size_bytes: int) -> None:
        """Record the size of a group."""
        self._group_files.observe(entries)
        self._metrics.add("appended_bytes_total", size_bytes, partition)

    def group_acknowledged(self, partition: int, wait_s: float) -> None:
        """Record how long Kafka took."""
        self._purgatory.observe(wait_s)

    def loaded(self, partition: int, seconds: float) -> None:
        """Record how long a replica took to load."""
        self._metrics.observe("partition_load_seconds", seconds)

    def snapshot_taken(self, seconds: float) -> None:
        """Record how long a snapshot took, from its mark to its commit."""
        self._metrics.observe("snapshot_generation_seconds", seconds)

    def snapshot_loaded(self, purpose: SnapshotPurpose, seconds: float) -> None:
        """Record how long it took to fetch a snapshot and to make a database of it."""
        self._metrics.observe("snapshot_load_seconds", seconds, purpose.value)

    def flushed(self, partition: int, seconds: float, batches: int) -> None:
        """Record one write of the state database."""
        self._metrics.observe("flush_seconds", seconds)
        self._metrics.observe("flush_rows", batches)

    def ticked(self, late_s: float) -> None:
        """Record how late the event loop came to a tick, or how long the last tick kept it: either delays every commit."""
        self._loop_lag.observe(late_s)

    def partition_moved(self, frozen_s: float) -> None:
        """Record for how long a partition may have taken no batches while it moved."""
        self._metrics.observe("partition_move_freeze_seconds", frozen_s)


def node_samples(node: Node, clock_ms: Callable[[], int]) -> Iterable[Sample]:
    """Levels and counters of a node's replicas."""
    states = dict.fromkeys((state.value for state in State), 0)
    ends: dict[str, int] = {}
    for replica in node.replicas.followed():
        partition, shard = replica.partition, replica.view
        yield Sample("replica_failures_total", (partition,), replica.failures.count)
        yield Sample("state_locked_seconds", (partition,), replica.state_lock.age_ms / 1000)
        if shard is None:
            state = State.FAILED.value if replica.failure is not None else "loading"
            states[state] = states.get(state, 0) + 1
            continue
        states[shard.phase.value] += 1
        yield Sample("leading", (partition,), shard.is_leading)
        yield Sample("leader_epoch", (partition,), shard.fence.epoch)
        yield Sample("pending_bytes", (partition,), shard.queue_bytes)
        yield Sample("live_partitions", (partition,), shard.live_partitions)
        migrations = shard.migration_counts()
        yield Sample("classic_partitions", (partition, "pending"), migrations.pending)
        yield Sample("classic_partitions", (partition, "initialised"), migrations.initialised)
        yield Sample("state_digest", (partition,), int.from_bytes(replica.writer.digest.to_bytes()[:DIGEST_BYTES]))
        age_s = shard.oldest_unacknowledged_ms(clock_ms()) / 1000
        yield Sample("oldest_unacknowledged_entry_age_seconds", (partition,), age_s)
        yield Sample("log_end_offset", (partition,), shard.applied_offset + 1)
        yield Sample("state_applied_offset", (partition,), replica.writer.written_offset + 1)
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
            yield Sample("rejected_batches_total", (partition, error_name(error)), count)
    for partition in (one.partition for one in node.replicas.followed()):
        for kind in CONTRADICTION_KINDS:
            yield Sample("contradictions_total", (partition, kind), node.accusations.counts[(partition, kind)])
    yield from _snapshot_samples(node)
    yield from _directory_samples(node)
    yield from _retention_samples(node)
    yield from _file_samples(node, clock_ms())
    yield from _orphan_samples(node)
    yield from _move_samples(node)
    directory = node.replicas.shard(DIRECTORY_PARTITION)
    if directory is not None:
        yield Sample("restore_unfinished", (), directory.is_restore_open)
    config = node.config
    yield Sample("node_info", (config.node_id, config.rack, installed_version()), 1)
    yield Sample("schema_level", (), node.schema_level)
    yield Sample("pending_bytes_limit", (), config.limits.queue_bytes_max)
    for state, count in states.items():
        yield Sample("partitions", (state,), count)
    warm = sum(one.is_warm for one in node.replicas.followed())
    yield Sample("partitions_followed", ("warm",), warm)
    yield Sample("partitions_followed", ("cold",), len(node.replicas.followed()) - warm)
    spares = node.keeper.directories.spares()
    yield Sample("partitions_spare", (), len(spares))
    yield Sample("partitions_spare_bytes", (), sum(spares.values()))
    withheld = node.standing.refusals.kinds()
    for kind in KINDS:
        yield Sample("leadership_withheld", (kind,), kind in withheld)
    yield Sample("draining", (), node.standing.is_draining)
    for comparison in node.clocks.comparisons():
        yield Sample("clock_ahead_seconds", (comparison.clock,), comparison.ahead_ms / 1000)
    yield Sample("clock_skew_limit_seconds", (), config.clock_skew_max_ms / 1000)
    for reason, count in ends.items():
        yield Sample("term_ends_total", (reason,), count)
    for reason in CHECK_FAILURES:
        yield Sample("topic_check_failures_total", (reason,), node.topic.failed_checks[reason])
    now = time.monotonic()
    for loop, then in node.loop_rounds_s.items():
        yield Sample("background_loop_last_success_age_seconds", (loop,), max(0.0, now - then))


def _snapshot_samples(node: Node) -> Iterable[Sample]:
    """Snapshots of each replica that is loaded, and their failures; an unknown figure has no sample."""
    for partition in (one.partition for one in node.replicas.followed()):
        for step in STEPS:
            yield Sample("snapshot_failures_total", (partition, step), node.workers.snapshots.failures[partition, step])
        yield Sample("snapshot_digest_mismatches_total", (partition,), node.workers.snapshots.digest_mismatches[partition])
        found = node.workers.snapshots.describe(partition)
        if found is None:
            continue
        newest = found.known[-1].snapshot if found.known else None
        yield Sample("snapshot_lag_entries", (partition,), found.applied_offset + 1 - (0 if newest is None else newest.end_offset))
        if newest is not None:
            yield Sample("snapshot_size_bytes", (partition,), newest.size_bytes)
            yield Sample("snapshot_age_seconds", (partition,), found.age_ms / 1000)
        if found.log_start >= 0:
            yield Sample("log_start_offset", (partition,), found.log_start)


def _retention_samples(node: Node) -> Iterable[Sample]:
    """What is kept by default; where this node leads, what retention deleted, how long it looks, and what timestamps keep from it."""
    kept = node.config.retention.default
    yield Sample("retention_default_seconds", (), kept.ms / 1000 if kept.ms >= 0 else -1)
    yield Sample("retention_default_bytes", (), kept.size_bytes)
    for partition in (one.partition for one in node.replicas.followed()):
        yield Sample("retention_deleted_batches_total", (partition,), node.workers.retention.deleted_batches[partition])
        if partition in node.workers.retention.last_run_s:
            yield Sample("retention_last_run_seconds", (partition,), node.workers.retention.last_run_s[partition])
        if partition in node.workers.retention.held_partitions:
            yield Sample("retention_held_partitions", (partition,), node.workers.retention.held_partitions[partition])


def _directory_samples(node: Node) -> Iterable[Sample]:
    """Data directories, and the number of replicas in them that partition 0 has not recorded; sizes that are not known have no sample."""
    directories = node.keeper.directories.directories()
    yield Sample("offline_log_directories", (), sum(one.offline_reason is not None for one in directories))
    for one in directories:
        yield Sample("log_directory_offline", (one.path,), one.offline_reason is not None)
        if one.total_bytes >= 0 and one.offline_reason is None:
            yield Sample("log_directory_bytes", (one.path,), one.total_bytes)
            yield Sample("log_directory_free_bytes", (one.path,), one.free_bytes)
    yield Sample("queued_replica_to_dir_assignments", (), len(node.reports.queued()))
    yield Sample("replica_to_dir_assignment_wait_seconds", (), node.reports.longest_wait_s())


def _file_samples(node: Node, now_ms: int) -> Iterable[Sample]:
    """Files of each coordinator, and the work for those without batches; the state of the cleaner only where this node leads."""
    for replica in node.replicas.followed():
        partition = replica.partition
        done = node.workers.files.counts(partition)
        yield Sample("files_deleted_total", (partition,), done.deleted)
        yield Sample("files_handed_over_total", (partition,), done.handed_over)
        yield Sample("file_delete_failures_total", (partition,), done.delete_failures)
        view = replica.view
        if view is None:
            continue
        files = view.file_counts()
        yield Sample("files", (partition, "live"), files.live)
        yield Sample("files", (partition, "empty"), files.empty)
        yield Sample("file_bytes", (partition, "live"), files.bytes_live)
        yield Sample("file_bytes", (partition, "empty"), files.bytes_empty)
        if view.is_leading:
            yield Sample("files", (partition, "waiting"), done.waiting)
            yield Sample("files", (partition, "deletable"), done.deletable)
            age_ms = 0 if done.oldest_empty_ms < 0 else max(0, now_ms - done.oldest_empty_ms)
            yield Sample("file_oldest_empty_age_seconds", (partition,), age_ms / 1000)


def _move_samples(node: Node) -> Iterable[Sample]:
    """Moves of partitions; those under way where the directory is led, which carries them out."""
    progress = node.directory.moves.progress
    for event in MOVE_EVENTS:
        yield Sample("partition_moves_total", (event,), progress.counts[event])
    if node.replicas.is_leading(DIRECTORY_PARTITION):
        ages_s = [age_s for _, age_s in progress.under_way()]
        yield Sample("partitions_moving", (), len(ages_s))
        yield Sample("partition_move_oldest_seconds", (), max(ages_s, default=0.0))


def _orphan_samples(node: Node) -> Iterable[Sample]:
    """The scan for orphans; when the last one finished is known where the directory is led."""
    status = node.workers.orphans.status()
    yield Sample("orphan_scan_running", (), status.is_running)
    if status.record is not None:
        yield Sample("orphan_scan_unusual_objects", (), status.record.counts.unusual)
        if status.record.finished_ms >= 0:
            yield Sample("orphan_scan_last_finished_timestamp_seconds", (), status.record.finished_ms / 1000)
    yield Sample("orphans_deleted_total", (), node.workers.orphans.deleted)
    yield Sample("orphan_scan_failures_total", (), node.workers.orphans.failures)


def request_samples(answered: Mapping[tuple[str, int], int]) -> Iterable[Sample]:
    """Requests answered, by operation and first error."""
    for (api, error), count in answered.items():
        yield Sample("requests_total", (api, error_name(error)), count)


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


def certificate_samples(security: ListenersSecurity) -> Iterable[Sample]:
    """The seconds for which the certificates of listeners are good."""
    for listener, expires_s in security.expiries_s():
        yield Sample("certificate_seconds_left", (listener,), expires_s - time.time())


def acl_samples(rules: KafkaRules) -> Iterable[Sample]:
    """The age of the ACLs that were read from Kafka."""
    yield Sample("acl_refresh_failures_total", (), rules.failures)
    if (age_s := rules.age_s) is not None:
        yield Sample("acl_age_seconds", (), age_s)


def quota_samples(gate: QuotaGate | None) -> Iterable[Sample]:
    """Requests that quotas hold up; zeros without a quota, since a counter that begins with its first event shows no increase."""
    for quota in QUOTAS:
        yield Sample("throttled_requests_total", (quota,), 0 if gate is None else gate.throttled[quota])
    yield Sample("throttled_requests_waiting", (), 0 if gate is None else gate.waiting)


def kafka_samples(stats: KafkaStats) -> Iterable[Sample]:
    """Counters of the Kafka clients; their own errors heal by themselves."""
    yield Sample("produce_errors_total", (), stats.report_errors.total())
    yield Sample("producer_failures_total", (), stats.producer_failures)
    yield Sample("producers_unready_total", (), stats.producers_opened_unready)
    yield Sample("read_entries_total", (), stats.reader_entries)
    yield Sample("read_bytes_total", (), stats.reader_bytes)
    yield Sample("read_errors_total", (), stats.reader_partition_errors.total())
    events = {
        "assigned": stats.member_assignments,
        "lost": stats.member_lost,
        "left by watchdog": stats.member_watchdog_leaves,
        "failed": stats.member_failures,
    }
    for event, count in events.items():
        yield Sample("membership_events_total", (event,), count)
    for name, count in stats.client_errors.items():
        client, _, error = name.partition(":")
        yield Sample("kafka_client_errors_total", (client, error), count)
