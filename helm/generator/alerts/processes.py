"""Alerts about coordinator and monitor processes as such."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import BENCH, DOCTOR, OURS, STATUS
from helm.generator.model import Alert, AlertSeverity, Runbook

PROCESSES: Final = (
    Alert(
        name="DisklessEventLoopStalls",
        expr=(
            "rate(diskless_coordinator_event_loop_lag_seconds_sum[5m]) / rate(diskless_coordinator_event_loop_lag_seconds_count[5m]) > 0.1"
        ),
        looks_at=(
            "rate(diskless_coordinator_event_loop_lag_seconds_sum[5m]) / rate(diskless_coordinator_event_loop_lag_seconds_count[5m])",
        ),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="The event loop of a coordinator is overloaded or stalls",
        description="Timers on {{ $labels.instance }} come {{ $value | humanizeDuration }} late on average.",
        runbook=Runbook(
            means=(
                "Everything of a process happens on one loop: what holds it up delays every commit, and after the session timeout the"
                " group takes the process for dead."
            ),
            look=(
                "CPU: at one core the process is at its limit; add processes, or partitions of the metadata topic for new topics.",
                "CPU limits of the container (throttling), swapping, very large answers (panel *Latency by operation (p99)*).",
            ),
            commands=(STATUS, BENCH),
            harmless="While a process reads a long log at its start.",
        ),
    ),
    Alert(
        name="DisklessBackgroundLoopStalled",
        expr="diskless_coordinator_background_loop_last_success_age_seconds > 300",
        looks_at=("diskless_coordinator_background_loop_last_success_age_seconds",),
        wait="1m",
        severity=AlertSeverity.WARNING,
        summary="A background loop of a coordinator does not succeed",
        description="Loop {{ $labels.loop }} on {{ $labels.instance }} last succeeded {{ $value | humanizeDuration }} ago.",
        runbook=Runbook(
            means=(
                "`topic-guard` looks every few seconds whether the metadata topic is the right one with safe settings; `tick` drives"
                " deadlines and writes of state."
            ),
            look=("Log lines `metadata topic cannot be checked`.", "Kafka's controller and the process's connection to Kafka."),
            commands=(DOCTOR,),
            harmless="While Kafka is down for maintenance: nothing is served meanwhile anyway.",
        ),
    ),
    Alert(
        name="DisklessOpenFilesHigh",
        expr=f"process_open_fds / process_max_fds > 0.8 and {OURS}",
        looks_at=(f"process_open_fds / process_max_fds and {OURS}",),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="A process is near its limit of open files",
        description="{{ $labels.instance }} uses {{ $value | humanizePercentage }} of the files it may have open.",
        runbook=Runbook(
            means="At the limit no connection is accepted and no database can be opened.",
            look=(
                "Panel *Connections*: clients that open one per request? `connections.max` and `connections.max.idle.ms` bound them.",
                "The hard limit (LimitNOFILE, ulimit -Hn): the process raises its own limit as far as that.",
            ),
            commands=("diskless config show --docs",),
            harmless="Never.",
        ),
    ),
    Alert(
        name="DisklessRestarts",
        expr=f"changes(process_start_time_seconds[1h]) > 2 and {OURS}",
        looks_at=(f"changes(process_start_time_seconds[1h]) and {OURS}",),
        wait="0m",
        severity=AlertSeverity.WARNING,
        summary="A process restarts again and again",
        description="{{ $labels.instance }} restarted {{ $value }} times within an hour.",
        runbook=Runbook(
            means="It ends by itself (the last log line says why) or is ended: memory limit, probes.",
            look=(
                (
                    "The last lines of the previous run (`kubectl logs --previous`, the journal) and the exit status: 137 is a kill,"
                    " mostly for memory."
                ),
                "Probes: /healthy is for liveness, /ready must never be.",
            ),
            commands=("diskless config validate --config FILE", DOCTOR),
            harmless="While an operator tries out settings.",
        ),
    ),
)
