"""Every metric of a coordinator: name, kind, labels, help. Nothing is exported that is not declared here.

Names follow Prometheus (base units, `_total` for counters) and, where Kafka's coordinators have the metric, Kafka's words:
event queue time, purgatory time (wait for the acknowledgement), flush time, load time. Labels have few values: metadata
partition, state, reason, error, operation, loop, event, step, data directory.

A metric is either told (`Metrics.add`, `set`, `observe`) or, with `is_read`, read from its owner at each scrape
(`Metrics.read_from`): levels and ages, and counters that are kept anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PREFIX = "diskless_coordinator_"


class MetricKind(Enum):
    """The kinds of Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The declaration of one metric; the exported name is a prefix and the name, `diskless_coordinator_` for those of a coordinator."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    is_read: bool = False


_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LOAD_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_FILES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
_BATCHES = (1.0, 10.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 50_000.0)
_ROWS = (1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0)


def _counter(name: str, help_text: str, *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.COUNTER, help=help_text, labels=labels)


def read_counter(name: str, help_text: str, *labels: str) -> Metric:
    """Declare a counter that is read at each scrape."""
    return Metric(name=name, kind=MetricKind.COUNTER, help=help_text, labels=labels, is_read=True)


def read_gauge(name: str, help_text: str, *labels: str) -> Metric:
    """Declare a level that is read at each scrape."""
    return Metric(name=name, kind=MetricKind.GAUGE, help=help_text, labels=labels, is_read=True)


def _histogram(name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name=name, kind=MetricKind.HISTOGRAM, help=help_text, labels=labels, buckets=buckets)


LEADERSHIP = (
    read_gauge("partitions", "Metadata partitions by what this process does with them.", "state"),
    read_gauge("partitions_followed", "Metadata partitions of which this process has a replica: warm ones could lead at once.", "state"),
    read_gauge("partitions_spare", "State databases of metadata partitions that this process follows no longer (state.spare.max.percent)."),
    read_gauge("partitions_spare_bytes", "What these state databases take on disk."),
    read_gauge("leadership_withheld", "1 while this process stays out of leadership, by kind of reason; /ready has the reason.", "reason"),
    read_gauge("draining", "1 while an operator has this process give up what it leads (diskless coordinator drain)."),
    read_gauge("clock_ahead_seconds", "How far this node's clock is surely ahead of another: Kafka, or a node.", "clock"),
    read_gauge("clock_skew_limit_seconds", "By how much clocks may differ (clock.skew.max.ms)."),
    _counter("leader_changes_total", "Claims that came into force, of any node.", "partition"),
    read_counter("term_ends_total", "Leadership terms of this process that ended, by reason.", "reason"),
    read_counter("void_entries_total", "Log entries without effect, by reason.", "partition", "reason"),
    read_counter(
        "contradictions_total",
        "Log entries that contradict the state: `void`, `suspected` (the state is rebuilt first) or `accused` (by another node).",
        "partition",
        "kind",
    ),
    read_gauge("ready", "1 while /ready says yes."),
    read_gauge("node_info", "Always 1; its labels say which node this is, and of which version.", "node_id", "rack", "version"),
    read_gauge("leading", "1 where this process leads the metadata partition, else 0.", "partition"),
    read_gauge("leader_epoch", "Epoch of the claim in force as far as this process has read; it grows with every claim.", "partition"),
    read_gauge("schema_level", "Schema level of the log at which this process writes entries."),
    _histogram("partition_load_seconds", "Time from the assignment of a partition to the end of its log.", _LOAD_SECONDS),
)

COMMITS = (
    read_counter("commits_total", "CommitFile requests decided anew, per coordinator.", "partition"),
    read_counter("batches_total", "Batches accepted.", "partition"),
    read_counter("records_total", "Records in accepted batches.", "partition"),
    read_counter("duplicate_batches_total", "Batches answered as duplicates of an accepted one.", "partition"),
    read_counter("rejected_batches_total", "Batches rejected, by Kafka error.", "partition", "error"),
)

REQUESTS = (
    read_counter("requests_total", "Requests answered, by operation and first error.", "api", "error"),
    read_gauge("pending_bytes", "Bytes of commits that wait to be decided.", "partition"),
    read_gauge("pending_bytes_limit", "What `partition.pending.max.bytes` allows of them."),
    _histogram("request_seconds", "Time from a request's last byte to its answer.", _SECONDS, "api"),
    read_gauge("connections", "Open client connections.", "listener"),
    read_counter("connections_closed_total", "Client connections that ended, by reason.", "listener", "reason"),
    read_counter(
        "connection_reading_paused_total",
        "Times a connection was not read for a while because it had too much pending or did not take its answers.",
        "listener",
    ),
    read_counter("received_bytes_total", "Bytes read from clients.", "listener"),
    read_counter("sent_bytes_total", "Bytes written to clients.", "listener"),
    read_counter("throttled_requests_total", "Requests whose answer told of a throttle time, by quota.", "quota"),
    read_gauge("throttled_requests_waiting", "Requests that wait for a quota of their principal."),
    read_gauge("certificate_seconds_left", "Time until the certificate of a listener expires; negative afterwards.", "listener"),
    read_gauge("acl_age_seconds", "Time since Kafka told its ACLs (authorizer=kafka)."),
    read_counter("acl_refresh_failures_total", "Times Kafka did not tell its ACLs (authorizer=kafka)."),
)

LOG = (
    _histogram("purgatory_seconds", "Time a decided group waited for Kafka's acknowledgement.", _SECONDS),
    _histogram("group_files", "Files decided and appended together.", _FILES),
    _counter("appended_bytes_total", "Bytes of entries handed to Kafka.", "partition"),
    read_gauge(
        "oldest_unacknowledged_entry_age_seconds", "Age of the oldest entry without an acknowledgement; 0 without one.", "partition"
    ),
    read_gauge("log_end_offset", "End of the metadata partition's log as last seen.", "partition"),
    read_gauge("state_applied_offset", "Next offset the materialised state needs, on disk.", "partition"),
    read_counter("produce_errors_total", "Entries that Kafka reported as not written; each ends a term."),
    read_counter("producer_failures_total", "Attempts to make a spare producer that failed."),
    read_counter("producers_unready_total", "Terms that began with a producer not yet ready; each costs about half a second."),
    read_counter("read_entries_total", "Entries read from the metadata topic."),
    read_counter("read_bytes_total", "Bytes of keys and values read from the metadata topic."),
    read_counter("read_errors_total", "Errors that Kafka reported for a metadata partition that was being read."),
    read_counter("membership_events_total", "What happened to the membership of the consumer group.", "event"),
    read_counter("kafka_client_errors_total", "Errors reported by librdkafka's clients; they heal by themselves.", "client", "error"),
)

STATE = (
    read_counter(
        "replica_failures_total",
        "Failures of a replica: damage found in its state database, an unusable directory, a log it cannot apply.",
        "partition",
    ),
    read_gauge(
        "state_locked_seconds",
        "For how long another connection has locked the state database of a replica; 0 if none has.",
        "partition",
    ),
    _histogram("flush_seconds", "Time of one write of state to SQLite.", _SECONDS),
    _histogram("flush_rows", "Rows of one write of state to SQLite.", _ROWS),
    read_gauge("live_partitions", "User partitions the coordinator owns.", "partition"),
    read_gauge("classic_partitions", "User partitions that are to be migrated (pending), or were (initialised).", "partition", "state"),
    read_gauge(
        "state_digest", "48 bits of the digest of the state at state_applied_offset; equal on all replicas at equal offsets.", "partition"
    ),
)

SNAPSHOTS = (
    _histogram(
        "snapshot_generation_seconds",
        "Time to take a snapshot, from its mark to its commit (KIP-630: GenSnapshotLatencyMs).",
        _LOAD_SECONDS,
    ),
    _histogram(
        "snapshot_load_seconds",
        "Time to fetch a snapshot, unless it is local, and to load it, by reason: `replica` (to make one, at a start or past the start of"
        " the log) or `proof` (of a committed one; KIP-630: LoadSnapshotLatencyMs).",
        _LOAD_SECONDS,
        "reason",
    ),
    read_gauge("snapshot_size_bytes", "Size of the newest committed snapshot (KIP-630: SnapshotSizeBytes).", "partition"),
    read_gauge(
        "snapshot_lag_entries", "Applied entries that the newest committed snapshot does not have (KIP-630: SnapshotLag).", "partition"
    ),
    read_gauge("snapshot_age_seconds", "Time since the newest snapshot was committed, as far as this process has seen.", "partition"),
    read_gauge("restore_unfinished", "1 while the log begins with a restore that no operator has called finished."),
    read_gauge("log_start_offset", "Start of the metadata partition's log as its leader saw it last.", "partition"),
    read_counter(
        "snapshot_failures_total",
        "Failed attempts to take, prove or prune to a snapshot, by step.",
        "partition",
        "step",
    ),
    read_counter(
        "snapshot_digest_mismatches_total",
        "Committed snapshots that this process refused: another digest than its own state's, or not what the log says.",
        "partition",
    ),
)

RETENTION = (
    read_counter(
        "retention_deleted_batches_total",
        "Batches that were deleted because they were past their topic's retention.",
        "partition",
    ),
    read_gauge("retention_last_run_seconds", "Duration of the last look at all partitions for retention, pauses included.", "partition"),
    read_gauge("retention_default_seconds", "How long batches of topics without a retention.ms of their own are kept; -1: without limit."),
    read_gauge(
        "retention_default_bytes", "Bytes that partitions keep of topics without a retention.bytes of their own; -1: without limit."
    ),
    read_gauge("retention_held_partitions", "User partitions that a timestamp in the future keeps from retention by time.", "partition"),
)

ORPHANS = (
    read_gauge("orphan_scan_running", "1 while this process scans the object store for orphans."),
    read_gauge("orphan_scan_last_finished_timestamp_seconds", "When the last scan for orphans finished; where the directory is led."),
    read_gauge(
        "orphan_scan_unusual_objects",
        "Objects whose keys no file can have, of the scan under way, else of the last one; where the directory is led.",
    ),
    read_counter("orphans_deleted_total", "Objects that this process deleted as orphans."),
    read_counter("orphan_scan_failures_total", "Scans for orphans that were interrupted; they go on later."),
)

DIRECTORIES = (
    read_gauge("offline_log_directories", "Data directories that are offline (KIP-858: OfflineLogDirectoryCount)."),
    read_gauge("log_directory_offline", "1 for a data directory that is offline, else 0; /ready has the reason.", "directory"),
    read_gauge("log_directory_bytes", "Size of the file system of a data directory.", "directory"),
    read_gauge("log_directory_free_bytes", "What of it is free.", "directory"),
    read_gauge(
        "queued_replica_to_dir_assignments",
        "Replicas of this process whose data directory partition 0 has not recorded yet (KIP-858: QueuedReplicaToDirAssignments).",
    ),
    read_gauge("replica_to_dir_assignment_wait_seconds", "How long the one of these has waited that waits longest; 0 without one."),
)

FILES = (
    read_gauge(
        "files",
        "Committed files: live ones have batches, empty ones have none. Of these, waiting ones wait for another owner or for their age,"
        " deletable ones for the object store, as their leader met them last.",
        "partition",
        "state",
    ),
    read_gauge("file_bytes", "Size of the files that have batches (live) and of those that have none (empty).", "partition", "state"),
    read_gauge("file_oldest_empty_age_seconds", "How long the file has been empty that has been so longest; 0 without one.", "partition"),
    read_counter("files_deleted_total", "Files whose objects this process deleted and logged as removed.", "partition"),
    read_counter("files_handed_over_total", "Files that this process handed over to their next owner.", "partition"),
    read_counter("file_delete_failures_total", "Calls to the object store to delete objects that failed.", "partition"),
)

MOVES = (
    read_counter(
        "partition_moves_total",
        "Moves of user partitions that this process carried out: done (`moved`), ended with their topics (`dropped`), and steps that a"
        " coordinator did not take and that are repeated (`delayed`).",
        "event",
    ),
    read_gauge("partitions_moving", "User partitions whose move to another coordinator is not done; where the directory is led."),
    read_gauge(
        "partition_move_oldest_seconds",
        "For how long the move is under way that is so longest, since this process leads the directory; 0 without one.",
    ),
    _histogram(
        "partition_move_freeze_seconds",
        "For how long no coordinator took batches of a partition that moved. Writers also wait until their node has read that.",
        _SECONDS,
    ),
)

LOOPS = (
    _histogram(
        "event_loop_lag_seconds",
        "How much later than wanted the event loop came to a tick of the node, ten times a second, or how long the tick before kept it.",
        _SECONDS,
    ),
    read_gauge("background_loop_last_success_age_seconds", "Time since a background loop last finished a round, or began.", "loop"),
    read_counter("topic_check_failures_total", "Looks at the metadata topic that failed: unavailable, refused, missing.", "reason"),
)

TABLE: tuple[Metric, ...] = (
    *LEADERSHIP,
    *COMMITS,
    *REQUESTS,
    *LOG,
    *STATE,
    *SNAPSHOTS,
    *RETENTION,
    *ORPHANS,
    *DIRECTORIES,
    *FILES,
    *MOVES,
    *LOOPS,
)
