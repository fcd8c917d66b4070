"""The Prometheus metrics of a running monitor, by name: the one list that the endpoint, dashboards and alerts share.

Needs neither Spark nor Prometheus. Invariant: the endpoint shows exactly these, besides `process_*` and `python_*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "diskless_monitor_"

BATCH_SECONDS_BUCKETS: Final = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorMetric:
    """One metric. `name` is as queries write it, a counter's with `_total`; a histogram has `_bucket`, `_sum`, `_count` besides."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


_ALL = (
    MonitorMetric(name="up", kind="gauge", help="1 while the streaming query runs, 0 before its start and after its end."),
    MonitorMetric(
        name="lag_entries", kind="gauge", help="Entries of the metadata partition that are not merged yet.", labels=("partition",)
    ),
    MonitorMetric(
        name="freshness_seconds", kind="gauge", help="From append to merge, for the newest entry of the last micro-batch with entries."
    ),
    MonitorMetric(name="last_progress_timestamp_seconds", kind="gauge", help="When the query last reported progress or idleness."),
    MonitorMetric(name="last_merge_timestamp_seconds", kind="gauge", help="When a micro-batch was last merged."),
    MonitorMetric(name="batch_seconds", kind="histogram", help="How long micro-batches took, from planning to Spark's commit."),
    MonitorMetric(name="merge_seconds", kind="histogram", help="How long merging a micro-batch into the database took."),
    MonitorMetric(name="rows_total", kind="counter", help="Rows that Kafka gave to micro-batches of this process, replays included."),
    MonitorMetric(name="entries_total", kind="counter", help="Entries merged, void and quarantined ones included."),
    MonitorMetric(name="files_total", kind="counter", help="Files committed; one of several coordinators counts once, at its first owner."),
    MonitorMetric(name="batches_total", kind="counter", help="Batches accepted."),
    MonitorMetric(name="records_total", kind="counter", help="Records in accepted batches."),
    MonitorMetric(name="bytes_total", kind="counter", help="Bytes of accepted batches."),
    MonitorMetric(name="replayed_entries_total", kind="counter", help="Entries that came again after a restart and were dropped."),
    MonitorMetric(name="void_entries_total", kind="counter", help="Entries that never count, by reason.", labels=("reason",)),
    MonitorMetric(name="quarantined_total", kind="counter", help="Entries in force that cannot be read."),
    MonitorMetric(name="findings_total", kind="counter", help="Violations of the log's rules, by rule.", labels=("rule",)),
    MonitorMetric(name="findings_open", kind="gauge", help="Findings that were not acknowledged, by rule.", labels=("rule",)),
    MonitorMetric(name="open_transactions", kind="gauge", help="Transactions of the metadata log that are open."),
    MonitorMetric(name="open_transaction_age_seconds", kind="gauge", help="Age of the oldest open transaction; 0 when none is open."),
    MonitorMetric(
        name="missing_files",
        kind="gauge",
        help="Files with live batches that the last `restore report` did not find in the object store.",
    ),
    MonitorMetric(
        name="last_objects_timestamp_seconds",
        kind="gauge",
        help="When the files of the service and the object store were last compared; 0 before the first time.",
    ),
    MonitorMetric(
        name="check_interval_seconds",
        kind="gauge",
        help="How often the monitor itself runs `verify` and `objects`; 0 when it does not.",
        labels=("check",),
    ),
    MonitorMetric(
        name="check_failures_total", kind="counter", help="Runs of `verify` and `objects` that could not do their work.", labels=("check",)
    ),
    MonitorMetric(
        name="verify_disagrees", kind="gauge", help="1 while the last `diskless monitor verify` found log and replicas to differ."
    ),
    MonitorMetric(
        name="last_verify_timestamp_seconds", kind="gauge", help="When log and replicas were last compared; 0 before the first time."
    ),
    MonitorMetric(name="kafka_errors_total", kind="counter", help="Looks at the topic, its ends or the brokers that Kafka did not answer."),
)

METRICS: Final[Mapping[str, MonitorMetric]] = {
    PREFIX + one.name: MonitorMetric(name=PREFIX + one.name, kind=one.kind, help=one.help, labels=one.labels) for one in _ALL
}
"""The metrics by full name. Counters of entries, files and others are the database's totals: they go on where a restarted job goes on."""
