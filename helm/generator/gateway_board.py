"""The dashboard of gateways: who serves clients, what is written and read, how fast, and what is short of memory."""

from __future__ import annotations

from typing import Final

from helm.generator.model import Board, Look, Panel, Query, Section, Unit, Variable
from helm.generator.service_queries import INSTANCE, OF, RATE, number

PREFIX: Final = "diskless_gateway_"

VARIABLES: Final = (
    Variable(name="job", label="Gateways", metric=f"{PREFIX}ready"),
    Variable(name="instance", label="Gateway", metric=f"{PREFIX}ready"),
)


def metric(name: str) -> str:
    """A gateway's metric with the dashboard's choices applied."""
    return f"{PREFIX}{name}{{{OF}}}"


def rate(name: str, by: str = "") -> str:
    """Per second, summed over everything but `by`."""
    return f"sum by ({by}) (rate({metric(name)}[{RATE}]))" if by else f"sum(rate({metric(name)}[{RATE}]))"


def quantile(share: float, name: str) -> str:
    """A quantile of a histogram over the chosen gateways."""
    return f"histogram_quantile({share:g}, sum by (le) (rate({metric(name + '_bucket')}[{RATE}])))"


def _lines(title: str, help_text: str, unit: Unit, *queries: tuple[str, str], look: Look = Look.LINES) -> Panel:
    """A panel of rates or levels: each query with its legend."""
    return Panel(
        title=title, help=help_text, queries=tuple(Query(expr=expr, legend=legend) for expr, legend in queries), unit=unit, look=look
    )


def _seconds(title: str, help_text: str, name: str) -> Panel:
    queries = tuple((quantile(share, name), f"p{share * 100:g}") for share in (0.5, 0.95, 0.99))
    return _lines(title, help_text, Unit.SECONDS, *queries)


NOW: Final = Section(
    title="Now",
    panels=(
        number("Gateways ready", "Gateways that serve clients and are members of their group.", f"sum({metric('ready')})", bad_below=1),
        number("Not members", "Gateways that their group has lost.", f"sum(1 - {metric('member')})", bad_from=1),
        number("Written", "Bytes of accepted batches per second.", rate("produce_bytes_total"), Unit.BYTES_PER_SECOND),
        number("Read", "Bytes of records given to readers per second.", rate("fetch_bytes_total"), Unit.BYTES_PER_SECOND),
        number("Acknowledged p99", "99 of 100 Produce requests are faster.", quantile(0.99, "produce_request_seconds"), Unit.SECONDS),
        number("Uploads given up", "Per second: their producers got errors.", rate("produce_uploads_given_up_total"), Unit.PER_SECOND),
        number("Damaged batches", "Since the gateways began.", f"sum({metric('fetch_damaged_batches_total')})", bad_from=1),
        number(
            "Producers paused",
            "Gateways that read no producers, of diskless topics or on relay ports, for want of memory.",
            f"sum(clamp_max({metric('produce_paused')} + {metric('relay_paused')}, 1))",
            bad_from=1,
        ),
    ),
)

CLIENTS: Final = Section(
    title="Clients",
    panels=(
        _lines("Connections", "Open connections of clients.", Unit.NONE, (metric("connections"), f"{{{{listener}}}} on {INSTANCE}")),
        _lines("Requests", "Requests per second, by API.", Unit.PER_SECOND, (rate("requests_total", "api"), "{{api}}")),
        _lines(
            "Network",
            "Bytes per second from and to clients, those of classic topics included.",
            Unit.BYTES_PER_SECOND,
            (rate("received_bytes_total"), "received"),
            (rate("sent_bytes_total"), "sent"),
        ),
        _lines("Connections ended", "Per second, by reason.", Unit.PER_SECOND, (rate("connections_closed_total", "reason"), "{{reason}}")),
        _lines(
            "Not read for a while",
            "Connections that were at a bound of their own, per second.",
            Unit.PER_SECOND,
            (rate("connection_reading_paused_total", "listener"), "{{listener}}"),
        ),
        _lines("Throttled answers", "Per second, by rate.", Unit.PER_SECOND, (rate("throttled_total", "rate"), "{{rate}}")),
        _lines(
            "Batches of clients",
            "Per second, the ten client ids with most. Many small ones cost everybody: see the next panel.",
            Unit.PER_SECOND,
            (f"topk(10, {rate('produce_client_batches_total', 'client_id')})", "{{client_id}}"),
        ),
        _lines(
            "Bytes of a client's batch",
            "On average, the ten client ids with the smallest: they want a larger batch.size and linger.ms.",
            Unit.BYTES,
            (
                f"bottomk(10, {rate('produce_client_bytes_total', 'client_id')} / {rate('produce_client_batches_total', 'client_id')})",
                "{{client_id}}",
            ),
        ),
        _lines(
            "Stale requests",
            "For diskless topics at relay ports, by clients with old metadata, per second.",
            Unit.PER_SECOND,
            (rate("stale_requests_total", "api"), "{{api}}"),
        ),
    ),
)

PRODUCE: Final = Section(
    title="Produce",
    panels=(
        _seconds("Acknowledgements", "From a request's last byte to its answer: buffer, upload and commit.", "produce_request_seconds"),
        _seconds("Uploads", "Time of an upload, repetitions included.", "produce_upload_seconds"),
        _seconds("Commits", "From the end of an upload until all of the file is decided.", "produce_commit_seconds"),
        _lines(
            "Requests, batches and files",
            "Per second.",
            Unit.PER_SECOND,
            (rate("produce_requests_total"), "requests"),
            (rate("produce_batches_total"), "batches"),
            (rate("produce_files_total"), "files"),
        ),
        _lines(
            "Bytes of files",
            "Uploaded per second. Small files cost requests at the store.",
            Unit.BYTES_PER_SECOND,
            (rate("produce_file_bytes_total"), "uploaded"),
        ),
        _lines("Refused partitions", "Per second, by error.", Unit.PER_SECOND, (rate("produce_refused_total", "error"), "{{error}}")),
        _lines(
            "Repetitions and losses",
            "Per second.",
            Unit.PER_SECOND,
            (rate("produce_uploads_repeated_total"), "uploads repeated"),
            (rate("produce_commits_repeated_total"), "commits repeated"),
            (rate("produce_duplicates_total"), "duplicates"),
            (rate("produce_timed_out_total"), "requests timed out"),
            (rate("produce_files_refused_total"), "files refused"),
        ),
        _lines(
            "Memory of producers",
            "Bytes that are not acknowledged. At the limit producers are not read.",
            Unit.BYTES,
            (metric("produce_memory_bytes"), f"held by {INSTANCE}"),
            (metric("produce_memory_limit_bytes"), f"limit of {INSTANCE}"),
        ),
        _lines(
            "Memory of relayed requests",
            "Bytes of requests on relay ports that brokers have not answered. At the limit their producers are not read: a broker is slow.",
            Unit.BYTES,
            (metric("relay_memory_bytes"), f"held by {INSTANCE}"),
            (metric("relay_memory_limit_bytes"), f"limit of {INSTANCE}"),
        ),
        _lines(
            "Pauses and open files",
            "Pauses of producers for memory per second, of diskless topics and of relayed requests, and files without an outcome.",
            Unit.NONE,
            (rate("produce_pauses_total"), "pauses"),
            (rate("relay_pauses_total"), "pauses of relayed requests"),
            (f"sum({metric('produce_files_open')})", "files open"),
        ),
    ),
)

FETCH: Final = Section(
    title="Fetch",
    panels=(
        _lines("Fetch requests", "For diskless topics per second.", Unit.PER_SECOND, (rate("fetch_requests_total"), "requests")),
        _lines(
            "Cache",
            "Runs of batches per second that were in memory, that were not, and that another reader was fetching.",
            Unit.PER_SECOND,
            (rate("fetch_cache_hits_total"), "hits"),
            (rate("fetch_cache_misses_total"), "misses"),
            (rate("fetch_joined_reads_total"), "joined"),
        ),
        _lines("Cached", "Bytes.", Unit.BYTES, (metric("fetch_cached_bytes"), INSTANCE)),
        _lines(
            "Reads of the store",
            "Per second.",
            Unit.PER_SECOND,
            (rate("fetch_store_reads_total"), "reads"),
            (rate("fetch_ahead_reads_total"), "ahead"),
            (rate("fetch_store_read_failures_total"), "failed"),
            (rate("fetch_reads_too_late_total"), "answers too late"),
        ),
        _seconds("Time of a read", "Of one range of an object.", "fetch_store_read_seconds"),
        _lines(
            "Bytes from elsewhere",
            "Per second: from the store, and of migrated topics from brokers.",
            Unit.BYTES_PER_SECOND,
            (rate("fetch_store_read_bytes_total"), "store"),
            (rate("fetch_classic_bytes_total"), "brokers"),
        ),
        _lines(
            "Classic parts not read",
            "Partitions of migrated topics, per second, that brokers refused or did not lead.",
            Unit.PER_SECOND,
            (rate("fetch_classic_failures_total"), "failed"),
        ),
        _lines(
            "Waiting for memory",
            "Reads of the tail and of old data, and answers.",
            Unit.NONE,
            (f"sum by (place) ({metric('fetch_places_waited_for')})", "{{place}}"),
        ),
        _lines(
            "Readers at ends",
            "Readers that wait for records, and partitions that are followed for them.",
            Unit.NONE,
            (f"sum({metric('fetch_readers_waiting')})", "readers"),
            (f"sum({metric('fetch_partitions_followed')})", "partitions"),
        ),
        _lines(
            "Long polls", "At coordinators, for all readers together, per second.", Unit.PER_SECOND, (rate("fetch_polls_total"), "polls")
        ),
    ),
)

PROCESS: Final = Section(
    title="Gateways",
    panels=(
        _lines(
            "Known to each other",
            "Gateways, and real brokers, that each knows; they should be equal.",
            Unit.NONE,
            (metric("gateways"), f"gateways at {INSTANCE}"),
            (metric("brokers"), f"brokers at {INSTANCE}"),
            (metric("brokers_relayed"), f"relayed by {{{{listener}}}} of {INSTANCE}"),
        ),
        _lines(
            "Generations of the group",
            "Per second: gateways come and go.",
            Unit.PER_SECOND,
            (rate("group_generations_total"), "generations"),
        ),
        _lines(
            "Catalogue",
            "Age of the list of diskless topics.",
            Unit.SECONDS,
            (metric("catalogue_age_seconds"), INSTANCE),
        ),
        _lines(
            "Topics and coordinators",
            "Diskless topics, and coordinators with a leader, that each gateway knows.",
            Unit.NONE,
            (metric("diskless_topics"), f"topics at {INSTANCE}"),
            (metric("coordinators_led"), f"coordinators at {INSTANCE}"),
        ),
        _lines(
            "Questions to brokers",
            "About rights, and about topics that were not known, per second.",
            Unit.PER_SECOND,
            (rate("rights_questions_total"), "rights"),
            (rate("topic_lookups_total"), "topics"),
        ),
        _lines(
            "CPU",
            "Cores.",
            Unit.CORES,
            (f"rate(process_cpu_seconds_total{{{OF}}}[{RATE}]) and on (job, instance) {metric('ready')}", INSTANCE),
        ),
        _lines(
            "Memory", "Resident.", Unit.BYTES, (f"process_resident_memory_bytes{{{OF}}} and on (job, instance) {metric('ready')}", INSTANCE)
        ),
        Panel(
            title="Versions",
            help="Gateways of each version and zone.",
            queries=(Query(expr=f"count by (version, rack) ({metric('info')})", legend="{{version}} {{rack}}"),),
        ),
        _lines(
            "Gateway certificates",
            "Time until the certificate of a listener expires.",
            Unit.SECONDS,
            (metric("certificate_seconds_left"), f"{{{{listener}}}} on {INSTANCE}"),
        ),
    ),
)

GATEWAY: Final = Board(
    uid="diskless-gateway",
    title="Diskless gateways",
    help="Gateways of Kafka clients: clients, files, reads, memory.",
    variables=VARIABLES,
    sections=(NOW, CLIENTS, PRODUCE, FETCH, PROCESS),
)
