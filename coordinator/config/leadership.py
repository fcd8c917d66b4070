"""Settings of the log, of leadership and of the state behind it."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import INT64_MAX, integer


@dataclass(frozen=True, kw_only=True)
class LeadershipSettings:
    """How long a leader may wait, how much is in flight, how the state follows the log."""

    heartbeat_interval_ms: int = integer(
        "heartbeat.interval.ms",
        250,
        low=50,
        high=60_000,
        why="""Interval of the group member's heartbeats. A clean stop is noticed by the others with their next heartbeat, so a
        short interval makes planned moves fast; it costs next to nothing.""",
    )
    max_poll_interval_ms: int = integer(
        "max.poll.interval.ms",
        11_000,
        low=1_000,
        high=600_000,
        why="""A process whose leadership thread hangs longer than this leaves the group. The process's own watchdog acts earlier;
        this is the last resort.""",
    )
    leader_term_timeout_ms: int = integer(
        "leader.term.timeout.ms",
        30_000,
        low=1_000,
        high=600_000,
        why="""A leader whose oldest entry stays unacknowledged for this long gives its term up. Every unclean death of a broker
        freezes acknowledgements for 8 to 12 s, after which everything is delivered in order: a value below that turns one
        dead broker into a storm of leader changes.""",
    )
    leader_load_timeout_ms: int = integer(
        "leader.load.timeout.ms",
        300_000,
        low=1_000,
        high=86_400_000,
        why="""A member that cannot bring an assigned partition to leading within this time (bad disk, entry it cannot decode)
        leaves the group for a while so that another one may lead. It must exceed the time of a cold load.""",
    )
    leader_shutdown_timeout_ms: int = integer(
        "leader.shutdown.timeout.ms",
        2_000,
        low=0,
        high=60_000,
        why="""After leaving the group on a clean stop a leader goes on leading until its successor's claim appears in the log, but
        no longer than this. It keeps planned moves free of a pause.""",
    )
    topic_check_interval_ms: int = integer(
        "topic.check.interval.ms",
        5_000,
        low=100,
        high=600_000,
        why="""How often the metadata topic's id, settings and replicas are compared with what was loaded. A topic deleted and
        recreated under the same name is silent for producers and consumers: only this check notices.""",
    )
    clock_skew_max_ms: int = integer(
        "clock.skew.max.ms",
        5_000,
        low=0,
        high=3_600_000,
        why="""A process whose clock is further ahead of the brokers than this refuses to lead: append times never go backwards, so
        one fast clock would push the time of the whole partition forward and expire things early.""",
    )
    barrier_timeout_ms: int = integer(
        "barrier.timeout.ms",
        10_000,
        low=100,
        high=600_000,
        why="""How long a strict read may wait for the acknowledged entry that proves the leadership, where the request names no time
        of its own; then it answers REQUEST_TIMED_OUT. It covers an ordinary change of a partition's broker.""",
    )
    admin_timeout_ms: int = integer(
        "admin.timeout.ms",
        10_000,
        low=500,
        high=600_000,
        why="""Deadline of one administrative call to Kafka (describe, offsets, create, delete records). Callers retry, so a shorter
        time gives earlier reports, a longer one survives a slow cluster.""",
    )
    groups_in_flight_max: int = integer(
        "groups.in.flight.max",
        4,
        low=1,
        high=64,
        why="""Groups of commits of one coordinator that may be on their way to Kafka at once. While they are, new commits gather
        into the next group; more in flight gains little with three replicas and makes groups smaller.""",
    )
    group_max_batches: int = integer(
        "group.max.batches",
        5_000,
        low=1,
        high=1_000_000,
        why="""Batches decided and appended together at most. It bounds the time the loop is busy with one group (about 5 ms at the
        default) and so the delay of everything else; one larger file still travels as one group.""",
    )
    state_flush_interval_ms: int = integer(
        "state.flush.interval.ms",
        500,
        low=10,
        high=60_000,
        why="""How long acknowledged state may wait in memory before SQLite has it. Longer means fewer and larger transactions; after
        a crash that much of the log is replayed. It is no risk: the log is the truth.""",
    )
    state_flush_max_batches: int = integer(
        "state.flush.max.batches",
        100_000,
        low=1_000,
        high=10_000_000,
        why="""Batches not yet in SQLite at which it is written at once, whatever the interval says. It bounds memory and the length
        of one write transaction.""",
    )
    metadata_log_max_record_bytes_between_snapshots: int = integer(
        "metadata.log.max.record.bytes.between.snapshots",
        20 * 1024 * 1024,
        low=1_024,
        high=INT64_MAX,
        why="""Bytes of log after which a partition takes its next snapshot (Kafka's key and default). A smaller value makes cold
        loads shorter and uploads more frequent.""",
    )
    metadata_log_max_snapshot_interval_ms: int = integer(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        low=0,
        high=INT64_MAX,
        why="""A partition with any new entry takes a snapshot at least this often (Kafka's key and default), so that a quiet
        partition can be pruned too. 0: only by size.""",
    )
    metadata_start_offset_lag_time_max_ms: int = integer(
        "metadata.start.offset.lag.time.max.ms",
        604_800_000,
        low=60_000,
        high=INT64_MAX,
        why="""The log is pruned only up to what every live replica has applied; a replica that stays behind holds pruning back for
        this long at most (KIP-630), then it must load a snapshot.""",
    )
    snapshot_loading_hold_max_ms: int = integer(
        "snapshot.loading.hold.max.ms",
        900_000,
        low=0,
        high=86_400_000,
        why="""A replica that is loading a snapshot holds pruning back for this long at most, so that it finds the log it needs after
        the snapshot it reads.""",
    )
    log_dir_failure_timeout_ms: int = integer(
        "log.dir.failure.timeout.ms",
        30_000,
        low=1_000,
        high=3_600_000,
        why="""A process that leads from a failed data directory and cannot report the failure within this time stops (KIP-858): the
        others must not believe in a replica that is gone.""",
    )
