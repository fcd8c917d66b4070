"""The dashboard of the metadata log: what is written to Kafka and read from it, and how Kafka behaves."""

from __future__ import annotations

from typing import Final

from helm.generator.model import Board, Look, Panel, Query, Section, Unit
from helm.generator.service_queries import BY_PARTITION, INSTANCE, ON_INSTANCE, RATE, VARIABLES, metric, quantile, quantiles, rate

LOG: Final = Section(
    title="Log",
    panels=(
        Panel(
            title="Growth of the log",
            help="Entries per second of each metadata partition, void ones and claims included.",
            queries=(
                Query(expr=f"max by (partition) (deriv({metric('log_end_offset', per_partition=True)}[{RATE}]))", legend=BY_PARTITION),
            ),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="End of the log",
            help="As far as the replicas have read.",
            queries=(Query(expr=f"max by (partition) ({metric('log_end_offset', per_partition=True)})", legend=BY_PARTITION),),
        ),
        Panel(
            title="Bytes appended",
            help="Bytes of entries handed to Kafka per second.",
            queries=(Query(expr=rate("appended_bytes_total", "partition", per_partition=True), legend=BY_PARTITION),),
            unit=Unit.BYTES_PER_SECOND,
            look=Look.STACKED,
        ),
    ),
)

SNAPSHOTS: Final = Section(
    title="Snapshots",
    panels=(
        Panel(
            title="Entries since the newest snapshot",
            help="By coordinator. It falls with every snapshot; a line that only rises is a coordinator whose snapshots fail.",
            queries=(Query(expr=f"min by (partition) ({metric('snapshot_lag_entries', per_partition=True)})", legend=BY_PARTITION),),
        ),
        Panel(
            title="Age of the newest snapshot",
            help="As far as the processes have seen. With new entries it stays below metadata.log.max.snapshot.interval.ms.",
            queries=(Query(expr=f"min by (partition) ({metric('snapshot_age_seconds', per_partition=True)})", legend=BY_PARTITION),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Restore not finished",
            help="1 from `diskless restore start` until `diskless restore finish`.",
            queries=(Query(expr=f"max({metric('restore_unfinished')})", legend="open"),),
        ),
        Panel(
            title="Size of the newest snapshot",
            help="It follows the live batches.",
            queries=(Query(expr=f"max by (partition) ({metric('snapshot_size_bytes', per_partition=True)})", legend=BY_PARTITION),),
            unit=Unit.BYTES,
        ),
        Panel(
            title="Entries in the log",
            help="Between the log's start, as its leader has seen it, and its end. Pruning to proven snapshots bounds it.",
            queries=(
                Query(
                    expr=f"max by (partition) ({metric('log_end_offset', per_partition=True)})"
                    f" - max by (partition) ({metric('log_start_offset', per_partition=True)})",
                    legend=BY_PARTITION,
                ),
            ),
        ),
        Panel(
            title="Time to take or to load one (p99)",
            help="Since the processes started: from the mark to the commit; and to fetch and load one, for a replica or as a proof.",
            queries=(
                Query(
                    expr=f"histogram_quantile(0.99, sum by (le, instance) ({metric('snapshot_generation_seconds_bucket')}))",
                    legend="take, {{instance}}",
                ),
                Query(
                    expr=f"histogram_quantile(0.99, sum by (le, instance, reason) ({metric('snapshot_load_seconds_bucket')}))",
                    legend="load ({{reason}}), {{instance}}",
                ),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Failures",
            help="Within ten minutes, by step, and snapshots that were refused as bad. Zero when all is well.",
            queries=(
                Query(expr=f"sum by (step) (increase({metric('snapshot_failures_total', per_partition=True)}[10m]))", legend="{{step}}"),
                Query(expr=f"sum(increase({metric('snapshot_digest_mismatches_total', per_partition=True)}[10m]))", legend="bad"),
            ),
        ),
    ),
)

PRODUCER: Final = Section(
    title="Producer",
    panels=(
        Panel(
            title="Wait for the acknowledgement",
            help="From handing a group to Kafka to its acknowledgement by all in-sync replicas.",
            queries=quantiles("purgatory_seconds"),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Wait for the acknowledgement by process (p99)",
            help="One process far above the others has a network of its own to Kafka, or leads on a slow broker.",
            queries=(Query(expr=quantile(0.99, "purgatory_seconds", "instance"), legend=INSTANCE),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Oldest entry without acknowledgement",
            help="Below min.insync.replicas this grows, and nothing else says a word.",
            queries=(Query(expr=metric("oldest_unacknowledged_entry_age_seconds", per_partition=True), legend=ON_INSTANCE),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Files per group",
            help="Files decided and appended together, on average: it grows with load and with Kafka's latency.",
            queries=(Query(expr=f"{rate('group_files_sum', 'instance')} / {rate('group_files_count', 'instance')}", legend=INSTANCE),),
        ),
        Panel(
            title="Entries not written",
            help="Within ten minutes, reported by Kafka as failed. Each ends a term.",
            queries=(Query(expr=f"sum by (instance) (increase({metric('produce_errors_total')}[10m]))", legend=INSTANCE),),
        ),
        Panel(
            title="Producers",
            help="Spare producers that could not be made, and terms that began without one that was ready (half a second each).",
            queries=(
                Query(expr=f"sum(increase({metric('producer_failures_total')}[10m]))", legend="failed"),
                Query(expr=f"sum(increase({metric('producers_unready_total')}[10m]))", legend="not ready"),
            ),
        ),
    ),
)

READER: Final = Section(
    title="Reader and group",
    panels=(
        Panel(
            title="Entries read",
            help="Per second. Every process reads every partition.",
            queries=(Query(expr=rate("read_entries_total", "instance"), legend=INSTANCE),),
            unit=Unit.PER_SECOND,
        ),
        Panel(
            title="Bytes read",
            help="Per second.",
            queries=(Query(expr=rate("read_bytes_total", "instance"), legend=INSTANCE),),
            unit=Unit.BYTES_PER_SECOND,
        ),
        Panel(
            title="Errors of partitions while reading",
            help="Within ten minutes, by process; their reasons are in the log. Zero when all is well.",
            queries=(Query(expr=f"sum by (instance) (increase({metric('read_errors_total')}[10m]))", legend=INSTANCE),),
        ),
        Panel(
            title="Membership",
            help="Within ten minutes: assignments, revocations and losses of the consumer group that shares the metadata partitions.",
            queries=(Query(expr=f"sum by (event) (increase({metric('membership_events_total')}[10m]))", legend="{{event}}"),),
        ),
        Panel(
            title="Errors of the Kafka clients",
            help="Within ten minutes; they heal by themselves. Many of them while brokers restart, none when all is well.",
            queries=(
                Query(expr=f"sum by (client, error) (increase({metric('kafka_client_errors_total')}[10m]))", legend="{{client}} {{error}}"),
            ),
        ),
        Panel(
            title="Looks at the topic that failed",
            help="Within ten minutes, by reason: unavailable (Kafka is away), refused (ACLs), missing (the topic is gone).",
            queries=(Query(expr=f"sum by (reason) (increase({metric('topic_check_failures_total')}[10m]))", legend="{{reason}}"),),
        ),
    ),
)

KAFKA: Final = Board(
    uid="diskless-kafka",
    title="Diskless Coordinator / Kafka log and producer",
    help="What the service writes to Kafka and reads from it, and how Kafka behaves.",
    variables=VARIABLES,
    sections=(LOG, SNAPSHOTS, PRODUCER, READER),
)
