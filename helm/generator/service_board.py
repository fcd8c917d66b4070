"""The dashboard of the service: is it healthy, how much does it do, how fast, who leads, who is behind."""

from __future__ import annotations

from typing import Final

from helm.generator.file_section import FILES
from helm.generator.model import Board, BoardMark, Look, Panel, Query, Section, Unit
from helm.generator.recording import GROUP, SERVICE_ERRORS
from helm.generator.service_queries import (
    BY_PARTITION,
    IN_DIRECTORY,
    INSTANCE,
    OF,
    ON_INSTANCE,
    RATE,
    VARIABLES,
    metric,
    number,
    quantile,
    quantiles,
    rate,
)

_COMMIT = 'api="COMMIT_FILE"'
_FAILED = f'{_COMMIT}, error=~"{SERVICE_ERRORS}"'

HEALTH: Final = Section(
    title="Now",
    panels=(
        number("Processes ready", "Processes whose /ready says yes.", f"sum({metric('ready')})", bad_below=1),
        number(
            "Without leader",
            "Metadata partitions without a leader: commits to their topics are refused.",
            f"count(sum by ({GROUP}, partition) ({metric('leading')}) == 0) or vector(0)",
            bad_from=1,
        ),
        number("Commits", "Files committed per second.", rate("commits_total"), Unit.PER_SECOND),
        number("Batches", "Batches accepted per second.", rate("batches_total"), Unit.PER_SECOND),
        number("Commit p99", "99 of 100 commits are faster.", quantile(0.99, "request_seconds", more=_COMMIT), Unit.SECONDS, bad_from=0.5),
        number(
            "Commits failed",
            "Share of the commit requests that failed through the service's fault.",
            f"({rate('requests_total', more=_FAILED)} or vector(0)) / {rate('requests_total', more=_COMMIT)}",
            Unit.RATIO,
            bad_from=0.001,
        ),
        number(
            "Largest standby lag",
            "Entries that the replica furthest behind has not read.",
            f"max(max by ({GROUP}, partition) ({metric('log_end_offset')}) - min by ({GROUP}, partition) ({metric('log_end_offset')}))",
        ),
        number(
            "Alerts firing",
            "Alerts of this service that fire now; the runbook has an entry for each.",
            'count(ALERTS{alertname=~"Diskless.*", alertstate="firing"}) or vector(0)',
            bad_from=1,
        ),
    ),
)

WORK: Final = Section(
    title="Work",
    panels=(
        Panel(
            title="Commits by coordinator",
            help="Files committed per second. One coordinator far above the others carries a hot topic.",
            queries=(Query(expr=rate("commits_total", "partition", per_partition=True), legend=BY_PARTITION),),
            unit=Unit.PER_SECOND,
            look=Look.STACKED,
        ),
        Panel(
            title="Batches by coordinator",
            help="Batches accepted per second, and those answered as duplicates of accepted ones.",
            queries=(
                Query(expr=rate("batches_total", "partition", per_partition=True), legend=BY_PARTITION),
                Query(expr=rate("duplicate_batches_total", per_partition=True), legend="duplicates"),
            ),
            unit=Unit.PER_SECOND,
            look=Look.STACKED,
        ),
        Panel(
            title="Records",
            help="Records in accepted batches per second.",
            queries=(Query(expr=rate("records_total", "partition", per_partition=True), legend=BY_PARTITION),),
            unit=Unit.PER_SECOND,
            look=Look.STACKED,
        ),
    ),
)

LATENCY: Final = Section(
    title="Latency",
    panels=(
        Panel(
            title="Commit latency",
            help="From a request's last byte to its answer. The objective is 99 of 100 within half a second.",
            queries=quantiles("request_seconds", _COMMIT),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Wait for Kafka's acknowledgement",
            help="The part of a commit's time that is Kafka's: from the decision to the acknowledgement of its entry.",
            queries=quantiles("purgatory_seconds"),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Latency by operation (p99)",
            help="Reads and administration; large answers take long and take turns.",
            queries=(Query(expr=quantile(0.99, "request_seconds", "api"), legend="{{api}}"),),
            unit=Unit.SECONDS,
        ),
    ),
)

ERRORS: Final = Section(
    title="Answers and errors",
    panels=(
        Panel(
            title="Commit answers by error",
            help="Commit requests per second by their first error; NONE is success.",
            queries=(Query(expr=rate("requests_total", "error", _COMMIT), legend="{{error}}"),),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Batches rejected",
            help="Batches that the rules refused (sequences, epochs, unknown partitions): mistakes of producers, or retries of lost ones.",
            queries=(Query(expr=rate("rejected_batches_total", "error", per_partition=True), legend="{{error}}"),),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Other requests by operation and error",
            help="Requests per second that are not commits.",
            queries=(Query(expr=rate("requests_total", "api, error", 'api!="COMMIT_FILE"'), legend="{{api}} {{error}}"),),
            unit=Unit.PER_SECOND,
        ),
    ),
)

LEADERSHIP: Final = Section(
    title="Leadership",
    panels=(
        Panel(
            title="Who leads what",
            help="For every metadata partition the process that leads it and its version, by its own word.",
            queries=(
                Query(
                    expr=f"({metric('leading', per_partition=True)} == 1)"
                    f" * on (job, instance) group_left (node_id, rack, version) {metric('node_info')}",
                ),
            ),
            look=Look.TABLE,
        ),
        Panel(
            title="Partitions led by each process",
            help="An even share each; steps are changes of leadership.",
            queries=(Query(expr=f"sum by (instance) ({metric('leading')})", legend=INSTANCE),),
            look=Look.STACKED,
        ),
        Panel(
            title="Epoch",
            help="It grows by one with every change of leadership: a flat line is calm.",
            queries=(Query(expr=f"max by (partition) ({metric('leader_epoch', per_partition=True)})", legend=BY_PARTITION),),
        ),
        Panel(
            title="Leaderships won",
            help="Within ten minutes, by the process that won. A process that was just started shows its second one first.",
            queries=(Query(expr=f"sum by (instance) (increase({metric('leader_changes_total')}[10m]))", legend=INSTANCE),),
        ),
        Panel(
            title="Replicas by what they do",
            help="Leading and following are the normal ones; failed ones have an alert.",
            queries=(Query(expr=f"sum by (state) ({metric('partitions')})", legend="{{state}}"),),
            look=Look.STACKED,
        ),
        Panel(
            title="Ends of leadership by reason",
            help="Within ten minutes. Delivery and timeout point to Kafka, foreign claim to the group.",
            queries=(Query(expr=f"sum by (reason) (increase({metric('term_ends_total')}[10m]))", legend="{{reason}}"),),
        ),
        Panel(
            title="Out of leadership by reason",
            help="Processes that know that they should not lead (/ready says why), and those that an operator drains. Zero is normal.",
            queries=(
                Query(expr=f"sum by (reason) ({metric('leadership_withheld')})", legend="{{reason}}"),
                Query(expr=f"sum({metric('draining')})", legend="drained"),
            ),
        ),
        Panel(
            title="Replicas by node",
            help="What each node follows; those not warm could not lead at once. Of what it follows no longer it keeps spares on disk.",
            queries=(
                Query(expr=f"sum by (instance, state) ({metric('partitions_followed')})", legend="{{instance}} {{state}}"),
                Query(expr=f"sum by (instance) ({metric('partitions_spare')})", legend="{{instance}} spare"),
            ),
        ),
        Panel(
            title="Spare state databases",
            help="Their bytes on each node; state.spare.max.percent of a disk is the most.",
            queries=(Query(expr=f"sum by (instance) ({metric('partitions_spare_bytes')})", legend="{{instance}}"),),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Clocks",
            help="How far each node's clock is certainly ahead of others' and of Kafka's. Beyond the limit such a node does not lead.",
            queries=(
                Query(expr=f"max by (instance, clock) ({metric('clock_ahead_seconds')})", legend="{{instance}} and {{clock}}"),
                Query(expr=f"max({metric('clock_skew_limit_seconds')})", legend="limit"),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Schema level",
            help="At which each process writes. It rises once all agree to it (`diskless coordinator level`), and never goes back.",
            queries=(Query(expr=f"max by (instance) ({metric('schema_level')})", legend=INSTANCE),),
        ),
        Panel(
            title="Time to load a partition (p99)",
            help="From opening a replica to following its log.",
            queries=(
                Query(expr=f"histogram_quantile(0.99, sum by (le, instance) ({metric('partition_load_seconds_bucket')}))", legend=INSTANCE),
            ),
            unit=Unit.SECONDS,
        ),
    ),
)

MOVES: Final = Section(
    title="Moves of user partitions",
    panels=(
        Panel(
            title="Partitions that move",
            help="User partitions on their way to another coordinator (`diskless partitions moves`). A move takes milliseconds.",
            queries=(Query(expr=f"max({metric('partitions_moving')})", legend="partitions"),),
        ),
        Panel(
            title="Longest move under way",
            help="Since the process that leads coordinator 0 has known of it. A move that waits has an alert.",
            queries=(Query(expr=f"max({metric('partition_move_oldest_seconds')})", legend="longest"),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Moves of partitions",
            help="Within ten minutes: done, ended with their topics, and steps that a coordinator did not take and that are repeated.",
            queries=(Query(expr=f"sum by (event) (increase({metric('partition_moves_total')}[10m]))", legend="{{event}}"),),
        ),
        Panel(
            title="Freeze of a move",
            help="For how long no coordinator took batches of partitions that moved in ten minutes. Writers see a tenth of a second more.",
            queries=tuple(
                Query(
                    expr=f"histogram_quantile({share}, sum by (le) (increase({metric('partition_move_freeze_seconds_bucket')}[10m])))",
                    legend=f"p{share * 100:g}",
                )
                for share in (0.5, 0.99)
            ),
            unit=Unit.SECONDS,
        ),
    ),
)

REPLICAS: Final = Section(
    title="Replicas and state",
    panels=(
        Panel(
            title="Standby lag",
            help="Entries a replica is behind the one that has read furthest. Scrapes are not simultaneous: seconds' worth is normal.",
            queries=(
                Query(
                    expr=f"max by ({GROUP}, partition) ({metric('log_end_offset', per_partition=True)})"
                    f" - on ({GROUP}, partition) group_right {metric('log_end_offset', per_partition=True)}",
                    legend=ON_INSTANCE,
                ),
            ),
        ),
        Panel(
            title="Applied but not written",
            help="Entries that are in memory and not in the state database yet: a restart reads them again.",
            queries=(
                Query(
                    expr=f"{metric('log_end_offset', per_partition=True)} - {metric('state_applied_offset', per_partition=True)}",
                    legend=ON_INSTANCE,
                ),
            ),
        ),
        Panel(
            title="Replicas that agree",
            help="Per coordinator: 1 while replicas at the same offset have the same digest; only those at the same offset are compared.",
            queries=(
                Query(
                    expr=f"1 - (max by ({GROUP}, partition) ({metric('state_applied_offset', per_partition=True)})"
                    f" == bool min by ({GROUP}, partition) ({metric('state_applied_offset', per_partition=True)}))"
                    f" * (max by ({GROUP}, partition) ({metric('state_digest', per_partition=True)})"
                    f" != bool min by ({GROUP}, partition) ({metric('state_digest', per_partition=True)}))",
                    legend=BY_PARTITION,
                ),
            ),
        ),
        Panel(
            title="Failures of replicas",
            help="Replicas that stopped, were set aside and are rebuilt from the log; /ready and `diskless doctor` say why.",
            queries=(Query(expr=f"increase({metric('replica_failures_total', per_partition=True)}[10m])", legend=ON_INSTANCE),),
        ),
        Panel(
            title="Contradictions",
            help="Log entries that say what the log before them rules out; void for every replica. `diskless log explain` tells of one.",
            queries=(
                Query(
                    expr=f"sum by (partition, kind) ({metric('contradictions_total', per_partition=True)})", legend="{{partition}} {{kind}}"
                ),
            ),
        ),
        Panel(
            title="Writes of state",
            help="How long one transaction on the state database takes.",
            queries=quantiles("flush_seconds"),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Locked state databases",
            help="For how long another connection has locked one: changes wait in memory. `diskless doctor` names the file.",
            queries=(Query(expr=metric("state_locked_seconds", per_partition=True), legend=ON_INSTANCE),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Batches per write of state",
            help="On average; it grows with the load, so that writes do not become more.",
            queries=(Query(expr=f"{rate('flush_rows_sum', 'instance')} / {rate('flush_rows_count', 'instance')}", legend=INSTANCE),),
        ),
        Panel(
            title="User partitions",
            help="How many partitions of diskless topics each coordinator owns.",
            queries=(Query(expr=f"max by (partition) ({metric('live_partitions', per_partition=True)})", legend=BY_PARTITION),),
            look=Look.STACKED,
        ),
        Panel(
            title="Classic partitions",
            help="Partitions of classic topics that are to be migrated (pending) and take nothing yet, and those that were (initialised).",
            queries=(
                Query(
                    expr=f"sum by (state) (max by (partition, state) ({metric('classic_partitions', per_partition=True)}))",
                    legend="{{state}}",
                ),
            ),
            look=Look.STACKED,
        ),
        Panel(
            title="Void entries",
            help="Entries of the log without effect: late ones of former leaders (stale), or strangers' (foreign, never normal).",
            queries=(Query(expr=f"sum by (reason) ({metric('void_entries_total', per_partition=True)})", legend="{{reason}}"),),
        ),
        Panel(
            title="Pending bytes",
            help="Commits waiting to be decided, as a share of partition.pending.max.bytes.",
            queries=(
                Query(
                    expr=f"max by (job, instance) ({metric('pending_bytes')}) / max by (job, instance) ({metric('pending_bytes_limit')})",
                    legend=INSTANCE,
                ),
            ),
            unit=Unit.RATIO,
        ),
        Panel(
            title="Age of background loops",
            help="Time since the last success of each; the guard of the topic runs every few seconds.",
            queries=(Query(expr=metric("background_loop_last_success_age_seconds"), legend="{{loop}} on {{instance}}"),),
            unit=Unit.SECONDS,
        ),
    ),
)

_FREE: Final = f"{metric('log_directory_free_bytes')} / {metric('log_directory_bytes')}"

DIRECTORIES: Final = Section(
    title="Data directories",
    panels=(
        Panel(
            title="Data directories offline",
            help="1 for each that failed since its process started; its replicas live in the others. /ready has the reason.",
            queries=(
                Query(expr=metric("log_directory_offline"), legend=IN_DIRECTORY),
                Query(expr=metric("offline_log_directories"), legend="all on {{instance}}"),
            ),
        ),
        Panel(
            title="Free in data directories",
            help="As a share of the file system. A full one goes offline with its replicas.",
            queries=(Query(expr=_FREE, legend=IN_DIRECTORY),),
            unit=Unit.RATIO,
        ),
        Panel(
            title="Replicas whose directory is not recorded",
            help="Partition 0 records where each replica is. More than zero for seconds after a start, a failure or a move is normal.",
            queries=(Query(expr=metric("queued_replica_to_dir_assignments"), legend=INSTANCE),),
        ),
        Panel(
            title="Longest wait to be recorded",
            help="Of the replicas whose directory is not recorded yet. Moves wait for it.",
            queries=(Query(expr=metric("replica_to_dir_assignment_wait_seconds"), legend=INSTANCE),),
            unit=Unit.SECONDS,
        ),
    ),
)

RETENTION: Final = Section(
    title="Retention",
    panels=(
        Panel(
            title="Batches deleted by retention",
            help="Batches per second that were past retention.ms or retention.bytes of their topic. They go in bursts, one for each look.",
            queries=(Query(expr=rate("retention_deleted_batches_total"), legend="batches per second"),),
        ),
        Panel(
            title="Time of a look at all partitions",
            help="Of each coordinator, pauses included. Longer than log.retention.check.interval.ms: batches stay that much longer.",
            queries=(Query(expr=metric("retention_last_run_seconds", per_partition=True), legend="{{partition}} on {{instance}}"),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Partitions that a time in the future keeps",
            help="The first batch of them has a timestamp in the future, so nothing goes by time. `diskless retention enforce` names them.",
            queries=(Query(expr=metric("retention_held_partitions", per_partition=True), legend="{{partition}} on {{instance}}"),),
        ),
        Panel(
            title="Kept by time unless the topic says otherwise",
            help="log.retention.ms of each node; -1: without limit. Nodes must agree, as whichever leads deletes.",
            queries=(Query(expr=metric("retention_default_seconds"), legend=INSTANCE),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Kept by size unless the topic says otherwise",
            help="log.retention.bytes of each node, for one partition; -1: without limit. Nodes must agree, as whichever leads deletes.",
            queries=(Query(expr=metric("retention_default_bytes"), legend=INSTANCE),),
            unit=Unit.BYTES,
        ),
    ),
)

ACCESS: Final = Section(
    title="Access",
    panels=(
        Panel(
            title="Time until certificates expire",
            help="Of each listener with TLS. A new file is read within seconds; clients refuse a certificate that has expired.",
            queries=(
                Query(expr=f"min by (instance, listener) ({metric('certificate_seconds_left')})", legend="{{listener}} on {{instance}}"),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Age of Kafka's ACLs",
            help="With authorizer=kafka: time since Kafka told its ACLs. The last ones it told hold meanwhile.",
            queries=(Query(expr=metric("acl_age_seconds"), legend=INSTANCE),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Kafka did not tell its ACLs",
            help="Times in 10 minutes. Changes of ACLs do not count here until it does.",
            queries=(Query(expr=f"sum(increase({metric('acl_refresh_failures_total')}[10m]))", legend="failures"),),
        ),
        Panel(
            title="Throttled requests",
            help="Requests per second whose principal was beyond quota.bytes.per.second or quota.requests.per.second, by quota.",
            queries=(Query(expr=rate("throttled_requests_total", by="quota"), legend="{{quota}}"),),
        ),
        Panel(
            title="Requests that wait for a quota",
            help="They begin when their principal's debt is paid, and are refused after 30 seconds.",
            queries=(Query(expr=metric("throttled_requests_waiting"), legend=INSTANCE),),
        ),
    ),
)

OBJECTS: Final = Section(
    title="Object store",
    panels=(
        Panel(
            title="Files and batches per file",
            help="Brokers write objects and commit them here. Few batches per file: many small objects.",
            queries=(
                Query(expr=rate("commits_total"), legend="files per second"),
                Query(expr=f"{rate('batches_total')} / {rate('commits_total')}", legend="batches per file"),
            ),
        ),
        Panel(
            title="Bytes committed",
            help="Bytes of accepted batches per second, as the monitor reads them from the log.",
            queries=(Query(expr=f"sum(rate(diskless_monitor_bytes_total[{RATE}]))", legend="bytes"),),
            unit=Unit.BYTES_PER_SECOND,
        ),
        Panel(
            title="Bytes per file",
            help="Size of the batches of a file on average. Cheap object stores want megabytes.",
            queries=(
                Query(
                    expr=f"sum(rate(diskless_monitor_bytes_total[{RATE}])) / sum(rate(diskless_monitor_files_total[{RATE}]))",
                    legend="bytes",
                ),
            ),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Orphans deleted",
            help="Objects per second that were uploaded and never committed; scans that were interrupted within 10 minutes.",
            queries=(
                Query(expr=rate("orphans_deleted_total"), legend="objects per second"),
                Query(expr=f"sum(increase({metric('orphan_scan_failures_total')}[10m]))", legend="interruptions"),
            ),
        ),
        Panel(
            title="Orphan scan",
            help="1 while a node scans the store; hours since the last scan finished; objects in it whose keys no file can have.",
            queries=(
                Query(expr=metric("orphan_scan_running"), legend="scans on {{instance}}"),
                Query(
                    expr=f"(time() - max({metric('orphan_scan_last_finished_timestamp_seconds')})) / 3600", legend="hours since the last"
                ),
                Query(expr=f"max({metric('orphan_scan_unusual_objects')})", legend="unusual keys"),
            ),
        ),
    ),
)


def process_section(selector: str) -> Section:
    """CPU, memory, files and starts of the chosen processes."""
    return Section(
        title="Process",
        panels=(
            Panel(
                title="CPU",
                help="Cores in use. A coordinator decides on one core; a second one writes state and talks to Kafka.",
                queries=(Query(expr=f"rate(process_cpu_seconds_total{{{selector}}}[{RATE}])", legend=INSTANCE),),
                unit=Unit.CORES,
            ),
            Panel(
                title="Memory",
                help="Resident memory.",
                queries=(Query(expr=f"process_resident_memory_bytes{{{selector}}}", legend=INSTANCE),),
                unit=Unit.BYTES,
            ),
            Panel(
                title="Open files",
                help="As a share of the limit.",
                queries=(Query(expr=f"process_open_fds{{{selector}}} / process_max_fds{{{selector}}}", legend=INSTANCE),),
                unit=Unit.RATIO,
            ),
            Panel(
                title="Running since",
                help="Time since the process was started: a fall to zero is a restart.",
                queries=(Query(expr=f"time() - process_start_time_seconds{{{selector}}}", legend=INSTANCE),),
                unit=Unit.SECONDS,
            ),
        ),
    )


_OF_ANY_PROCESS = process_section(OF)
PROCESS: Final = Section(
    title=_OF_ANY_PROCESS.title,
    panels=(
        *_OF_ANY_PROCESS.panels,
        Panel(
            title="Event loop",
            help="How late timers are: what holds up the loop holds up every commit.",
            queries=(
                Query(expr=quantile(0.99, "event_loop_lag_seconds", "instance"), legend="p99 " + INSTANCE),
                Query(
                    expr=f"{rate('event_loop_lag_seconds_sum', 'instance')} / {rate('event_loop_lag_seconds_count', 'instance')}",
                    legend="mean " + INSTANCE,
                ),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Connections",
            help="Open client connections.",
            queries=(Query(expr=f"sum by (instance, listener) ({metric('connections')})", legend="{{listener}} on {{instance}}"),),
        ),
        Panel(
            title="Connections that ended",
            help="Per second, by reason.",
            queries=(Query(expr=rate("connections_closed_total", "reason"), legend="{{reason}}"),),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Traffic with clients",
            help="Bytes per second, and how often a connection was not read for a while because it had too much pending.",
            queries=(
                Query(expr=rate("received_bytes_total"), legend="received"),
                Query(expr=rate("sent_bytes_total"), legend="sent"),
                Query(expr=rate("connection_reading_paused_total"), legend="pauses"),
            ),
            unit=Unit.BYTES_PER_SECOND,
        ),
    ),
)

FINDINGS_MARK: Final = BoardMark(
    title="Finding of the audit",
    # Not `increase`, which is 0 for the first finding of a rule: its series begins with it.
    expr="sum(diskless_monitor_findings_total) - (sum(diskless_monitor_findings_total offset 1m) or vector(0)) > 0",
    text="`diskless monitor findings list` has rule and offset",
    color="red",
)
MARKS: Final = (
    BoardMark(
        title="Leader changed",
        expr=f"max by ({GROUP}, partition) (changes({metric('leader_epoch', per_partition=True)}[1m])) > 0",
        text="coordinator {{partition}}",
        color="blue",
    ),
    BoardMark(title="Process started", expr=f"changes(process_start_time_seconds{{{OF}}}[1m]) > 0", text="{{instance}}", color="orange"),
    FINDINGS_MARK,
)

SERVICE: Final = Board(
    uid="diskless-service",
    title="Diskless Coordinator / Service",
    help="Is the service healthy, what does it do, who leads, who is behind.",
    variables=VARIABLES,
    marks=MARKS,
    sections=(HEALTH, WORK, LATENCY, ERRORS, LEADERSHIP, MOVES, REPLICAS, DIRECTORIES, RETENTION, OBJECTS, FILES, ACCESS, PROCESS),
)
