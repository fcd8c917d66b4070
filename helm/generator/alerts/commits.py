"""Alerts about commits: too many fail, too many are slow. Each objective has a fast and a slow condition on its error budget."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import BENCH, DOCTOR, STATUS
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import COMMIT_SECONDS_OBJECTIVE, error_ratio, slow_ratio

COMMITS_IN_TIME: Final = 0.99
COMMITS_WITHOUT_ERROR: Final = 0.999
FAST_BURN: Final = 14.4
SLOW_BURN: Final = 6
"""How many times faster than allowed the error budget of 30 days is used up: 2 % of it in an hour, 5 % in six hours."""


def _budget(ratio: float, burn: float) -> str:
    return f"{(1 - ratio) * burn:.4g}"


def _both(long: str, short: str, limit: str) -> str:
    """Over the limit for long, and still now."""
    return f"{long} > {limit} and {short} > {limit}"


COMMITS: Final = (
    Alert(
        name="DisklessCommitErrorsFast",
        expr=_both(error_ratio("1h"), error_ratio("5m"), _budget(COMMITS_WITHOUT_ERROR, FAST_BURN)),
        looks_at=(error_ratio("1h"), error_ratio("5m")),
        wait="2m",
        severity=AlertSeverity.CRITICAL,
        summary="Many commits fail",
        description="{{ $value | humanizePercentage }} of the commit requests of {{ $labels.job }} fail through the service's fault.",
        runbook=Runbook(
            means="Requests end with an error that is not the client's. Clients repeat them safely with the same object key, but wait.",
            look=(
                (
                    "Panel *Commit answers by error*: NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE means no node leads, or clients do"
                    " not look for the new leader; REQUEST_TIMED_OUT means Kafka is slow; UNKNOWN_SERVER_ERROR has a stack trace in the"
                    " log."
                ),
                "Alerts about leadership and about Kafka that fire at the same time: follow those first.",
            ),
            commands=(STATUS, DOCTOR),
            harmless="NOT_COORDINATOR alone, for some minutes after a roll-out, while clients find the new leaders.",
        ),
    ),
    Alert(
        name="DisklessCommitErrorsSlow",
        expr=_both(error_ratio("6h"), error_ratio("30m"), _budget(COMMITS_WITHOUT_ERROR, SLOW_BURN)),
        looks_at=(error_ratio("6h"), error_ratio("30m")),
        wait="15m",
        severity=AlertSeverity.WARNING,
        summary="Commits fail more often than they may",
        description="{{ $value | humanizePercentage }} of the commit requests of {{ $labels.job }} failed in the last hours.",
        runbook=Runbook(
            means="As DisklessCommitErrorsFast, slower: at this rate the budget of a month is gone in five days.",
            look=("Panel *Commit answers by error* over a day: one error steadily, or bursts with each change of leadership?",),
            commands=(STATUS, DOCTOR),
            harmless="After an incident that is over, until six hours have passed.",
        ),
    ),
    Alert(
        name="DisklessCommitLatencyFast",
        expr=_both(slow_ratio("1h"), slow_ratio("5m"), _budget(COMMITS_IN_TIME, FAST_BURN)),
        looks_at=(slow_ratio("1h"), slow_ratio("5m")),
        wait="2m",
        severity=AlertSeverity.CRITICAL,
        summary="Commits are slow",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the commits of {{{{ $labels.job }}}} take longer than {COMMIT_SECONDS_OBJECTIVE} s."
        ),
        runbook=Runbook(
            means="A commit waits for its turn, for the decision and for Kafka's acknowledgement (acks=all), which is nearly all of it.",
            look=(
                (
                    "Panel *Wait for Kafka's acknowledgement*: if it is as slow as the commits, the cause is in Kafka: in-sync"
                    " replicas, disks, network between brokers."
                ),
                "If it is not: panel *Event loop* (stalls), CPU at one core, pending bytes.",
                "Few partitions of the metadata topic carry all load: panel *Commits by coordinator*.",
            ),
            commands=(BENCH, DOCTOR),
            harmless="While the load is so small that some slow commits after a fail-over are a large share.",
        ),
    ),
    Alert(
        name="DisklessCommitLatencySlow",
        expr=_both(slow_ratio("6h"), slow_ratio("30m"), _budget(COMMITS_IN_TIME, SLOW_BURN)),
        looks_at=(slow_ratio("6h"), slow_ratio("30m")),
        wait="15m",
        severity=AlertSeverity.WARNING,
        summary="Commits are slower than they may be",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the commits of {{{{ $labels.job }}}} took longer than {COMMIT_SECONDS_OBJECTIVE}"
            " s in the last hours."
        ),
        runbook=Runbook(
            means="As DisklessCommitLatencyFast, slower.",
            look=("The same panels over a day: does it follow the load, or hours of other work on Kafka's brokers?",),
            commands=(BENCH,),
            harmless="After an incident that is over, until six hours have passed.",
        ),
    ),
    Alert(
        name="DisklessPendingBytesHigh",
        expr="max by (namespace, job, instance, partition) (diskless_coordinator_pending_bytes)"
        " / on (namespace, job, instance) group_left diskless_coordinator_pending_bytes_limit > 0.8",
        looks_at=(
            "diskless_coordinator_pending_bytes / on (namespace, job, instance) group_left diskless_coordinator_pending_bytes_limit",
        ),
        wait="1m",
        severity=AlertSeverity.WARNING,
        summary="Commits pile up before a coordinator",
        description=(
            "Waiting commits of metadata partition {{ $labels.partition }} on {{ $labels.instance }} use {{ $value | humanizePercentage"
            " }} of partition.pending.max.bytes."
        ),
        runbook=Runbook(
            means="More commits come than Kafka acknowledges; they wait in memory for room in flight.",
            look=(
                "Panel *Wait for Kafka's acknowledgement* and *Oldest entry without acknowledgement*.",
                "Whether one coordinator has most of the load: panel *Commits by coordinator*.",
                "Clients without a bound of their own on requests under way.",
            ),
            commands=(STATUS, "diskless config show --docs"),
            harmless="A short burst after an outage, while clients catch up.",
        ),
    ),
)
