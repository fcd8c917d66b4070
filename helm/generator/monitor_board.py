"""The dashboard of the monitor job: does it keep up, and what did it find."""

from __future__ import annotations

from typing import Final

from helm.generator.model import Board, Look, Panel, Query, Section, Unit, Variable
from helm.generator.service_board import FINDINGS_MARK, process_section
from helm.generator.service_queries import BY_PARTITION, INSTANCE, RATE, number

OF: Final = 'job=~"$job", instance=~"$instance"'


def metric(name: str, more: str = "") -> str:
    """A metric of the monitor with the dashboard's choices applied."""
    return f"diskless_monitor_{name}{{{OF}{', ' + more if more else ''}}}"


def rate(name: str, by: str = "") -> str:
    """Per second, summed over everything but `by`."""
    return f"sum{f' by ({by})' if by else ''} (rate({metric(name)}[{RATE}]))"


def quantiles(name: str) -> tuple[Query, ...]:
    """Median, 95th and 99th percentile."""
    return tuple(
        Query(expr=f"histogram_quantile({share:g}, sum by (le) (rate({metric(name + '_bucket')}[{RATE}])))", legend=f"p{share * 100:g}")
        for share in (0.5, 0.95, 0.99)
    )


NOW: Final = Section(
    title="Now",
    panels=(
        number("Running", "1 while the query runs.", f"min({metric('up')})", bad_below=1),
        number("Lag", "Entries that are not merged yet.", f"sum({metric('lag_entries')})"),
        number("Freshness", "From append to merge.", f"max({metric('freshness_seconds')})", Unit.SECONDS, bad_from=30),
        number(
            "Last progress",
            "Time since the query last said anything.",
            f"max(time() - {metric('last_progress_timestamp_seconds')})",
            Unit.SECONDS,
            bad_from=120,
        ),
        number(
            "Last merge", "Time since entries were last merged.", f"max(time() - {metric('last_merge_timestamp_seconds')})", Unit.SECONDS
        ),
        number(
            "Open findings",
            "Violations of the log's rules that were not acknowledged.",
            f"sum({metric('findings_open')}) or vector(0)",
            bad_from=1,
        ),
        number(
            "Quarantined", "Entries in force that could not be read, ever.", f"sum({metric('quarantined_total')}) or vector(0)", bad_from=1
        ),
        number("Log and service differ", "1 while the last verify found a difference.", f"max({metric('verify_disagrees')})", bad_from=1),
        number(
            "Last verify",
            "Time since `diskless monitor verify --dir` last compared log and replicas; since 1970 if it never did.",
            f"max(time() - {metric('last_verify_timestamp_seconds')})",
            Unit.SECONDS,
        ),
        number("Lost files", "Live files whose objects the last comparison did not find.", f"max({metric('missing_files')})", bad_from=1),
        number(
            "Last look at objects",
            "Time since `diskless restore report --dir` last compared files and object store; since 1970 if it never did.",
            f"max(time() - {metric('last_objects_timestamp_seconds')})",
            Unit.SECONDS,
        ),
        number("Open transactions", "Transactions of the metadata log that are open.", f"max({metric('open_transactions')})"),
        number(
            "Oldest transaction",
            "Age of the oldest open transaction; 0 when none is open.",
            f"max({metric('open_transaction_age_seconds')})",
            Unit.SECONDS,
            bad_from=300,
        ),
        number("Void", "Entries that never count.", f"sum({metric('void_entries_total')}) or vector(0)"),
    ),
)

PACE: Final = Section(
    title="Does it keep up?",
    panels=(
        Panel(
            title="Lag by coordinator",
            help="Entries of each metadata partition that are not merged yet.",
            queries=(Query(expr=f"max by (partition) ({metric('lag_entries')})", legend=BY_PARTITION),),
        ),
        Panel(
            title="Freshness",
            help="Age of the newest entry when it was merged.",
            queries=(Query(expr=metric("freshness_seconds"), legend=INSTANCE),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Micro-batches",
            help="How long micro-batches take, from planning to Spark's commit.",
            queries=quantiles("batch_seconds"),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Merges",
            help="How long merging a micro-batch into the database takes.",
            queries=quantiles("merge_seconds"),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Entries",
            help="Rows that Kafka gave, and entries merged, per second. More rows than entries: replays after a restart.",
            queries=(
                Query(expr=rate("rows_total"), legend="rows"),
                Query(expr=rate("entries_total"), legend="merged"),
                Query(expr=rate("replayed_entries_total"), legend="replayed"),
            ),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Checks that failed",
            help="Runs of `verify` and `objects` that could not do their work, within a day; 0 while the monitor does not run them.",
            queries=(Query(expr=f"sum by (check) (increase({metric('check_failures_total')}[1d]))", legend="{{check}}"),),
        ),
        Panel(
            title="Age of checks",
            help="Time since `verify` and `objects` last ended, and how often the monitor runs them itself (0: it does not).",
            queries=(
                Query(expr=f"max(time() - {metric('last_verify_timestamp_seconds')})", legend="verify"),
                Query(expr=f"max(time() - {metric('last_objects_timestamp_seconds')})", legend="objects"),
                Query(expr=f"max by (check) ({metric('check_interval_seconds')})", legend="interval of {{check}}"),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Looks at Kafka that failed",
            help="Within ten minutes.",
            queries=(Query(expr=f"sum(increase({metric('kafka_errors_total')}[10m]))", legend="failed"),),
        ),
    ),
)

FOUND: Final = Section(
    title="What it read and found",
    panels=(
        Panel(
            title="Committed",
            help="Files and batches per second, as the log has them.",
            queries=(
                Query(expr=rate("files_total"), legend="files"),
                Query(expr=rate("batches_total"), legend="batches"),
            ),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Records committed",
            help="Per second.",
            queries=(Query(expr=rate("records_total"), legend="records"),),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Bytes committed",
            help="Bytes of accepted batches per second.",
            queries=(Query(expr=rate("bytes_total"), legend="bytes"),),
            unit=Unit.BYTES_PER_SECOND,
        ),
        Panel(
            title="Findings by rule",
            help="Violations of the log's rules, ever. `diskless monitor findings list` has offset and message of each.",
            queries=(Query(expr=f"sum by (rule) ({metric('findings_total')})", legend="{{rule}}"),),
            look=Look.STACKED,
        ),
        Panel(
            title="Void entries by reason",
            help="Entries that never count: late ones of former leaders (stale), or strangers' (foreign, never normal).",
            queries=(Query(expr=f"sum by (reason) ({metric('void_entries_total')})", legend="{{reason}}"),),
            look=Look.STACKED,
        ),
        Panel(
            title="Quarantined",
            help="Entries in force that could not be read, ever. `diskless monitor quarantine` lists them.",
            queries=(Query(expr=f"sum({metric('quarantined_total')})", legend="entries"),),
        ),
    ),
)

MONITOR: Final = Board(
    uid="diskless-monitor",
    title="Diskless Coordinator / Monitor job",
    help="Does the job that audits the metadata log keep up, and what did it find.",
    variables=(
        Variable(name="job", label="Monitor", metric="diskless_monitor_up"),
        Variable(name="instance", label="Process", metric="diskless_monitor_up"),
    ),
    marks=(FINDINGS_MARK,),
    sections=(NOW, PACE, FOUND, process_section(OF)),
)
