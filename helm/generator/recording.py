"""Recording rules: what alerts and several panels look at, computed once.

`GROUP` tells services apart that one Prometheus watches: a service is a scrape job (in a namespace, on Kubernetes).
"""

from __future__ import annotations

from typing import Final

from helm.generator.model import Recording

GROUP: Final = "namespace, job"
WINDOWS: Final = ("5m", "30m", "1h", "6h")

COMMIT_SECONDS_OBJECTIVE: Final = 0.5
"""A commit slower than this is slow; a bucket of the histogram ends here. Kafka's own acknowledgement takes 5 to 50 ms when all is well."""

SERVICE_ERRORS: Final = "UNKNOWN_SERVER_ERROR|REQUEST_TIMED_OUT|COORDINATOR_LOAD_IN_PROGRESS|COORDINATOR_NOT_AVAILABLE|NOT_COORDINATOR"
"""Errors that are the service's, not the client's. NOT_COORDINATOR is among them because standbys say it when no node leads."""

_COMMITS: Final = 'diskless_coordinator_requests_total{api="COMMIT_FILE"}'
_COMMIT_ERRORS: Final = f'diskless_coordinator_requests_total{{api="COMMIT_FILE", error=~"{SERVICE_ERRORS}"}}'
_SECONDS: Final = "diskless_coordinator_request_seconds"
_IN_TIME: Final = f'{_SECONDS}_bucket{{api="COMMIT_FILE", le="{COMMIT_SECONDS_OBJECTIVE}"}}'
_TIMED: Final = f'{_SECONDS}_count{{api="COMMIT_FILE"}}'


def error_ratio(window: str) -> str:
    """Name of the rule: share of commit requests that the service failed."""
    return f"diskless_coordinator:commit_errors:ratio_rate{window}"


def slow_ratio(window: str) -> str:
    """Name of the rule: share of commit requests slower than the objective."""
    return f"diskless_coordinator:commits_slow:ratio_rate{window}"


LEADERS: Final = "diskless_coordinator:leaders:sum"
LEADER_EPOCH: Final = "diskless_coordinator:leader_epoch:max"
LOG_END: Final = "diskless_coordinator:log_end_offset:max"
REPLICA_LAG: Final = "diskless_coordinator:replica_lag_entries"
DIGESTS_DIFFER: Final = "diskless_coordinator:digests_differ"
GATEWAY_COMMITS_SLOW: Final = "diskless_gateway:commits_slow:ratio_rate5m"
GATEWAY_TIMED_OUT: Final = "diskless_gateway:produce_timed_out:ratio_rate5m"


def _ratios() -> list[Recording]:
    made = []
    for window in WINDOWS:
        total = f"sum by ({GROUP}) (rate({_COMMITS}[{window}]))"
        failed = f"(sum by ({GROUP}) (rate({_COMMIT_ERRORS}[{window}])) or {total} * 0)"
        timed = f"sum by ({GROUP}) (rate({_TIMED}[{window}]))"
        in_time = f"sum by ({GROUP}) (rate({_IN_TIME}[{window}]))"
        made += [
            Recording(record=error_ratio(window), expr=f"{failed} / {total}", help="Share of commit requests that the service failed."),
            Recording(record=slow_ratio(window), expr=f"1 - {in_time} / {timed}", help="Share of commit requests over the objective."),
        ]
    return made


def _of_partition(function: str, metric: str) -> str:
    return f"{function} by ({GROUP}, partition) (diskless_coordinator_{metric})"


_OFFSETS_EQUAL = f"{_of_partition('max', 'state_applied_offset')} == bool {_of_partition('min', 'state_applied_offset')}"
_DIGESTS_UNEQUAL = f"{_of_partition('max', 'state_digest')} != bool {_of_partition('min', 'state_digest')}"


def _of_gateways(metric: str) -> str:
    return f"sum by ({GROUP}) (rate(diskless_gateway_{metric}[5m]))"


_FILES_IN_TIME = _of_gateways(f'produce_commit_seconds_bucket{{le="{COMMIT_SECONDS_OBJECTIVE}"}}')

RECORDINGS: Final = (
    *_ratios(),
    Recording(record=LEADERS, expr=_of_partition("sum", "leading"), help="How many processes lead a metadata partition."),
    Recording(record=LEADER_EPOCH, expr=_of_partition("max", "leader_epoch"), help="It grows by one with every change of leadership."),
    Recording(record=LOG_END, expr=_of_partition("max", "log_end_offset"), help="As far as anybody has read a metadata partition."),
    Recording(
        record=REPLICA_LAG,
        expr=f"{_of_partition('max', 'log_end_offset')} - on ({GROUP}, partition) group_right diskless_coordinator_log_end_offset",
        help="Entries a replica is behind the one that has read furthest.",
    ),
    Recording(
        record=DIGESTS_DIFFER,
        expr=f"({_OFFSETS_EQUAL}) * ({_DIGESTS_UNEQUAL})",
        help="1 where replicas that have written up to the same offset have different state.",
    ),
    Recording(
        record=GATEWAY_COMMITS_SLOW,
        expr=f"1 - {_FILES_IN_TIME} / {_of_gateways('produce_commit_seconds_count')}",
        help="Share of the files of gateways whose commits took longer than the objective.",
    ),
    Recording(
        record=GATEWAY_TIMED_OUT,
        expr=f"{_of_gateways('produce_timed_out_total')} / {_of_gateways('produce_requests_total')}",
        help="Share of Produce requests whose time was over before their outcome was known.",
    ),
)
