"""Every metric of a gateway: name, kind, labels, help. Exported names begin with `diskless_gateway_`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.adapters.metrics.registry import Sample
from coordinator.adapters.metrics.table import Metric, MetricKind, read_counter, read_gauge
from coordinator.adapters.server.server import Server
from gateway.kafka_apis import KafkaApi

PREFIX: Final = "diskless_gateway_"
SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


def histogram(name: str, help_text: str) -> Metric:
    """Declare a histogram of seconds."""
    return Metric(name=name, kind=MetricKind.HISTOGRAM, help=help_text, buckets=SECONDS)


FRONT: Final = (
    read_gauge("info", "Always 1; its labels say which gateway this is, and of which version", "node_id", "rack", "version"),
    read_gauge("member", "1 if this gateway is a member of the group of gateways"),
    read_gauge("ready", "1 if this gateway serves clients and is a member of the group of gateways"),
    read_gauge("gateways", "Live gateways that this one knows of, itself among them"),
    read_gauge("brokers", "Real brokers in service"),
    read_gauge("brokers_relayed", "Real brokers that have a relay port here", "listener"),
    read_gauge("connections", "Connections of clients", "listener"),
    read_counter("connection_reading_paused_total", "Times that a connection was not read because it reached a bound", "listener"),
    read_counter("connections_closed_total", "Connections that ended, by reason", "listener", "reason"),
    read_counter("received_bytes_total", "Bytes received from clients", "listener"),
    read_counter("sent_bytes_total", "Bytes sent to clients", "listener"),
    read_counter("requests_total", "Requests of clients, by API", "listener", "api"),
    read_counter("stale_requests_total", "Requests on relay ports for diskless topics, answered NOT_LEADER_OR_FOLLOWER", "api"),
    read_gauge("diskless_topics", "Diskless topics that this gateway knows of"),
    read_gauge("catalogue_age_seconds", "Time since the coordinators listed the diskless topics"),
    read_gauge("coordinators_led", "Coordinators whose leader this gateway knows"),
    read_gauge("certificate_seconds_left", "Time until the certificate of a listener expires; negative afterwards", "listener"),
    read_counter("topic_lookups_total", "Metadata answers that had to wait for a look at topics that were not known"),
    read_counter("group_generations_total", "Generations of the group of gateways that this one was in"),
    read_gauge("relay_memory_bytes", "Bytes of requests on relay ports that are held: what has come of them, until their brokers answer"),
    read_gauge("relay_memory_limit_bytes", "As many may be held before Produce requests on relay ports are not read"),
    read_gauge("relay_paused", "1 while Produce requests on relay ports are not read since memory is used up"),
    read_counter("relay_pauses_total", "Times that they were not read since memory was used up"),
)


PRODUCE: Final = (
    read_counter("produce_requests_total", "Produce requests for diskless topics"),
    histogram("produce_request_seconds", "Time from a request's last byte to its answer"),
    read_counter("produce_batches_total", "Batches that the coordinators accepted"),
    read_counter("produce_bytes_total", "Bytes of these batches"),
    read_counter("produce_client_batches_total", "Lawful batches by client id, those of clients beyond 500 as `(others)`", "client_id"),
    read_counter("produce_client_bytes_total", "Bytes of these batches", "client_id"),
    read_counter("produce_files_total", "WAL files that were uploaded"),
    read_counter("produce_file_bytes_total", "Bytes of these files"),
    read_counter("produce_files_refused_total", "Files of which the coordinators accepted nothing"),
    histogram("produce_upload_seconds", "Time of an upload, its repetitions included"),
    read_counter("produce_uploads_repeated_total", "Uploads that were tried again"),
    read_counter("produce_uploads_given_up_total", "Uploads that ended without a file"),
    histogram("produce_commit_seconds", "Time from the end of an upload until all batches of the file have their outcome"),
    read_counter("produce_commits_repeated_total", "Commits that were asked again, since their outcome was not known"),
    read_counter("produce_duplicates_total", "Batches that the coordinators had already"),
    read_counter("produce_timed_out_total", "Requests whose time was over before all of their batches had an outcome"),
    read_counter("produce_refused_total", "Partitions of requests that were refused, by Kafka's error", "error"),
    read_gauge("produce_memory_bytes", "Bytes of requests that are held"),
    read_gauge("produce_memory_limit_bytes", "As many may be held before producers are not read"),
    read_gauge("produce_paused", "1 while producers are not read since memory is used up"),
    read_counter("produce_pauses_total", "Times that producers were not read since memory was used up"),
    read_gauge("produce_files_open", "Files that have no outcome yet"),
)
FETCH: Final = (
    read_counter("fetch_requests_total", "Fetch requests for diskless topics"),
    read_counter("fetch_bytes_total", "Bytes of records in answers"),
    read_counter("fetch_cache_hits_total", "Runs of batches that were in memory"),
    read_counter("fetch_cache_misses_total", "Runs of batches that were not"),
    read_counter("fetch_store_reads_total", "Reads of the object store"),
    read_counter("fetch_store_read_bytes_total", "Bytes of these reads"),
    read_counter("fetch_store_read_failures_total", "Reads that failed"),
    histogram("fetch_store_read_seconds", "Time of a read"),
    read_counter("fetch_joined_reads_total", "Runs of batches whose bytes another reader was fetching already"),
    read_counter("fetch_ahead_reads_total", "Reads ahead for readers of old data"),
    read_gauge("fetch_places_waited_for", "Reads (tail, old) and answers that wait for memory", "place"),
    read_counter("fetch_classic_bytes_total", "Bytes of records of migrated topics that brokers have"),
    read_counter("fetch_classic_failures_total", "Partitions of migrated topics that a broker refused, or that no broker led for too long"),
    read_counter("fetch_damaged_batches_total", "Batches that were not what the coordinators say"),
    read_counter("fetch_reads_too_late_total", "Answers that went without bytes for which the store took too long"),
    read_gauge("fetch_cached_bytes", "Bytes in the cache"),
    read_gauge("fetch_readers_waiting", "Readers that wait at the ends of partitions"),
    read_gauge("fetch_partitions_followed", "Partitions whose ends are followed"),
    read_counter("fetch_polls_total", "Long polls at coordinators for all readers together"),
)
ACCESS: Final = (
    read_counter("rights_questions_total", "Questions to the cluster about the rights of clients"),
    read_counter("throttled_total", "Answers that told of a throttle time, by the rate", "rate"),
)
TABLE: Final = (*FRONT, *PRODUCE, *FETCH, *ACCESS)


def server_samples(listener: str, servers: Sequence[Server]) -> Iterable[Sample]:
    """The counters of all ports of one listener together."""
    totals: dict[tuple[str, tuple[str, ...]], float] = {}

    def add(name: str, value: float, *labels: str) -> None:
        key = (name, (listener, *labels))
        totals[key] = totals.get(key, 0) + value

    for server in servers:
        stats = server.stats
        add("connections", stats.connections_open)
        add("connection_reading_paused_total", stats.reading_paused)
        add("received_bytes_total", stats.bytes_in)
        add("sent_bytes_total", stats.bytes_out)
        for reason, count in stats.closed.items():
            add("connections_closed_total", count, reason.name.lower())
        for key, count in stats.requests.items():
            add("requests_total", count, KafkaApi(key).text)
    return [Sample(name, labels, value) for (name, labels), value in totals.items()]
