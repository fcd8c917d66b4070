"""Settings of the log, of leadership and of the state."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import boolean, integer, items
from coordinator.config.values import is_number_range
from records.levels import LEVEL_LATEST


@dataclass(frozen=True, kw_only=True)
class LeadershipSettings:
    """How long a leader may wait, how much is in flight, how the state follows the log."""

    node_coordinators: tuple[str, ...] = items(
        "node.coordinators",
        "",
        allowed=is_number_range,
        bounds="numbers and ranges of them, such as 0,4-7",
        why="""The metadata partitions that this process leads or stands by for, and no others; empty for any. A partition that is
        named at some nodes stays with them while one of them is there, and nodes that name nothing share the rest: so a dedicated
        node serves the coordinators of important topics. Where all nodes name partitions, any node may lead those that none names.""",
    )
    leader_racks: tuple[str, ...] = items(
        "leader.racks",
        "",
        why="""Values of node.rack in which leaders are to be, while a node there can lead; empty for all. Nodes elsewhere stand by.
        It must be the same on all nodes: where they differ, that of the process that started last counts.""",
    )
    heartbeat_interval_ms: int = integer(
        "heartbeat.interval.ms",
        250,
        low=50,
        high=60_000,
        why="""Interval of the group member's heartbeats. A clean stop is noticed by the others with their next heartbeat, so a
        short interval makes planned moves fast; it costs next to nothing.""",
    )
    leader_term_timeout_ms: int = integer(
        "leader.term.timeout.ms",
        45_000,
        low=1_000,
        high=600_000,
        why="""A leader whose oldest entry stays unacknowledged for this long gives its term up. Every unclean death of a broker
        freezes acknowledgements for 8 to 12 s, and one that leaves half-open connections behind for up to 30 s (Kafka's
        replica.socket.timeout.ms and replica.lag.time.max.ms), after which everything is delivered in order: a value below
        that turns one dead broker into a storm of leader changes.""",
    )
    leader_load_timeout_ms: int = integer(
        "leader.load.timeout.ms",
        300_000,
        low=1_000,
        high=86_400_000,
        why="""A node that cannot bring an assigned partition to leading within this time (bad disk, entry it cannot decode)
        refuses it for a while so that another one may lead. It must exceed the time of a cold load.""",
    )
    leader_shutdown_timeout_ms: int = integer(
        "leader.shutdown.timeout.ms",
        2_000,
        low=0,
        high=60_000,
        why="""After leaving the group on a clean stop a leader goes on leading until its successor's claim appears in the log, but
        no longer than this. It keeps planned moves free of a pause.""",
    )
    log_dir_failure_timeout_ms: int = integer(
        "log.dir.failure.timeout.ms",
        30_000,
        low=1_000,
        high=3_600_000,
        why="""How long a node waits for partition 0 to record the data directory of a replica. After that, a node that leads replicas in a
        failed directory ends; a replica that is being moved changes its directory without the record.""",
    )
    schema_level_max: int = integer(
        "schema.level.max",
        LEVEL_LATEST,
        low=1,
        high=LEVEL_LATEST,
        why="""Highest schema level of the log that this node agrees to. Once all nodes of the service agree to a higher level, entries
        are written at it, and versions that do not know it can never be run again: before an upgrade, hold this at the level
        in force (`diskless coordinator level`) for as long as you may want to go back, then leave it out.""",
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
        low=500,
        high=3_600_000,
        why="""Clocks that differ by more are wrong. Nodes compare theirs with each other and with Kafka's brokers: one that is further
        off than this from all who agree stays out of leadership until it is right, and no leader writes times into the log that
        are further ahead of its brokers. The log's time never goes back: a fast clock would expire producers, answers and deleted
        topics early.""",
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
    producer_report_signals_enabled: bool = boolean(
        "producer.report.signals.enabled",
        True,
        why="""Whether the event loop itself hands entries to Kafka's client and takes the reports, all of a request at once, instead of a
        thread with a callback for each entry: a tenth less work for small files under load, and the slowest commits of a light load
        about a fifth faster. It relies on how Kafka's Python client lays out its objects, so a child process tries it at the start;
        where that fails, the threads are there, and a warning says so.""",
    )
    state_flush_interval_ms: int = integer(
        "state.flush.interval.ms",
        500,
        low=10,
        high=60_000,
        why="""How long acknowledged state may wait in memory before SQLite has it. Longer means fewer and larger transactions; after
        a crash that much of the log is replayed. It is no risk: the log is the truth. A replica that follows lets ten times as long pass
        while batches come in each interval.""",
    )
    state_flush_max_batches: int = integer(
        "state.flush.max.batches",
        100_000,
        low=1_000,
        high=10_000_000,
        why="""Batches not yet in SQLite at which it is written at once, whatever the interval says. It bounds memory and the length
        of one write transaction.""",
    )
    state_flush_backlog_max_batches: int = integer(
        "state.flush.backlog.max.batches",
        5_000_000,
        low=10_000,
        high=1_000_000_000,
        why="""Batches not yet in SQLite beyond which new commits wait for a write to end, a fifth of a second at the most. A leader can
        acknowledge faster than one thread writes, for as long as memory lasts: 150 to 400 bytes a batch. A disk that hangs slows commits
        down in the end, and does not stop them. While another connection has locked the database they wait until their deadlines.""",
    )
    state_spare_max_percent: int = integer(
        "state.spare.max.percent",
        10,
        low=0,
        high=50,
        why="""Percent of the data directory's disk that the state databases of metadata partitions which this node follows no longer may
        take together, and that they leave free: the one let go of first is removed first. A node that is told to follow such a
        partition again reads only what the log has got since. 0 keeps none.""",
    )
    state_evidence_max_percent: int = integer(
        "state.evidence.max.percent",
        10,
        low=0,
        high=50,
        why="""Percent of the data directory's disk that state databases which were set aside (partition-N.db.failed-TIME: damaged, or of
        another log) may take together. Of each metadata partition the newest two are kept, the oldest go first, and whatever this says
        all of them go when the disk has no room for the databases in use. 0 keeps none. They are for people who look for the cause of
        damage; the service never reads them again.""",
    )
