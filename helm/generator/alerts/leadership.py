"""Alerts about who leads, and whether anybody does."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import COORDINATOR_UP, DESCRIBE, DOCTOR, LOG_DUMP, STATUS
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import GROUP, LEADER_EPOCH, LEADERS

LEADERSHIP: Final = (
    Alert(
        name="DisklessServiceDown",
        expr=f"sum by ({GROUP}) ({COORDINATOR_UP}) == 0",
        looks_at=(f"sum by ({GROUP}) ({COORDINATOR_UP})",),
        wait="1m",
        severity=AlertSeverity.CRITICAL,
        summary="No coordinator process answers",
        description=(
            "None of the coordinator processes of {{ $labels.job }} can be scraped. Diskless topics can neither be written nor read."
        ),
        runbook=Runbook(
            means="Every process of the service is gone or cannot be reached. Nothing is lost: the log in Kafka is the truth.",
            look=(
                (
                    "Are the processes there? What is the last line they logged? A process that ends by itself says why, last, as"
                    " `ended: ...`."
                ),
                "Is the HTTP port reachable from Prometheus (a network policy, a changed port)?",
                "Is Kafka there? Processes wait for it, they do not end; but orchestrators may be configured to end them.",
            ),
            commands=(DOCTOR,),
            harmless="Prometheus itself lost its network or its service discovery: other jobs are down as well then.",
        ),
    ),
    Alert(
        name="DisklessCoordinatorDown",
        expr=f"{COORDINATOR_UP} == 0",
        looks_at=(COORDINATOR_UP,),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="A coordinator process does not answer",
        description=(
            "{{ $labels.instance }} cannot be scraped for 5 minutes. The others have taken over what it led; there is one standby less."
        ),
        runbook=Runbook(
            means="One process is down, hangs, or is unreachable for Prometheus.",
            look=(
                "Its last log lines and its exit status: 1 means that it ended itself and said why.",
                "Whether its partitions are led by others: panel *Who leads what*.",
                "Memory limits and disk space of its machine.",
            ),
            commands=(STATUS, DOCTOR),
            harmless="During maintenance of its machine, while the other processes lead everything.",
        ),
    ),
    Alert(
        name="DisklessNoLeader",
        expr=f"{LEADERS} == 0",
        looks_at=(LEADERS,),
        wait="1m",
        severity=AlertSeverity.CRITICAL,
        summary="A metadata partition has no leader",
        description=(
            "No node leads metadata partition {{ $labels.partition }} of {{ $labels.job }} for a minute: commits to its topics are refused."
        ),
        runbook=Runbook(
            means=(
                "A fail-over takes seconds (the session timeout of the group, then a claim in the log). A minute means that claiming fails."
            ),
            look=(
                "The partition's leader in Kafka and its in-sync replicas: below min.insync.replicas no claim can be written.",
                "`/ready` of every process: `assigned_not_leading`, `loading` and `failed` name the partition and the reason.",
                "Whether the group assigns the partition to anybody: a group with static members that are gone, or an ACL.",
                "Log lines `replica state partition=N` and `recovery waits for Kafka`.",
            ),
            commands=(STATUS, DOCTOR, DESCRIBE),
            harmless="Never for longer than a fail-over takes. With one process only, its restart shows here too.",
        ),
    ),
    Alert(
        name="DisklessTwoLeaders",
        expr=f"{LEADERS} > 1",
        looks_at=(LEADERS,),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="Two processes believe that they lead a metadata partition",
        description="{{ $value }} processes say that they lead metadata partition {{ $labels.partition }} of {{ $labels.job }}.",
        runbook=Runbook(
            means=(
                "The log lets only the newer claim count: entries of the older leader are void and never acknowledged. The older one"
                " has not read the newer claim yet: it does not get on with reading the log, or it is cut off from Kafka."
            ),
            look=(
                "Which process has the lower epoch (panel *Who leads what*) and how far it has read (panel *Standby lag*).",
                "Its connection to Kafka: `kafka_client_errors_total`, log lines of the reader.",
            ),
            commands=(DESCRIBE, STATUS),
            harmless="Two services that share a job name in Prometheus without a namespace label look like one with two leaders.",
        ),
    ),
    Alert(
        name="DisklessLeaderFlapping",
        expr=f"max_over_time({LEADER_EPOCH}[15m]) - min_over_time({LEADER_EPOCH}[15m]) > 4",
        looks_at=(f"max_over_time({LEADER_EPOCH}[15m]) - min_over_time({LEADER_EPOCH}[15m])",),
        wait="0m",
        severity=AlertSeverity.WARNING,
        summary="Leadership of a metadata partition changes again and again",
        description=(
            "Metadata partition {{ $labels.partition }} of {{ $labels.job }} had {{ $value }} changes of leadership in 15 minutes."
        ),
        runbook=Runbook(
            means="Each change costs its clients a pause of seconds. Leaders end because entries fail, or members come and go.",
            look=(
                "Panel *Ends of leadership by reason*: `delivery` and `timeout` point to Kafka, `foreign claim` to the group.",
                "Restarts of processes; memory limits; stalls of the event loop, which look like death to the group.",
                "Elections of the metadata topic's partitions in Kafka.",
            ),
            commands=(STATUS, LOG_DUMP),
            harmless="During a rolling restart of many processes.",
        ),
    ),
    Alert(
        name="DisklessReplicaFailed",
        expr='diskless_coordinator_partitions{state="failed"} > 0',
        looks_at=('diskless_coordinator_partitions{state="failed"}',),
        wait="1m",
        severity=AlertSeverity.CRITICAL,
        summary="A replica has stopped itself",
        description="{{ $value }} replicas on {{ $labels.instance }} have failed: they neither lead nor follow.",
        runbook=Runbook(
            means=(
                "A replica that meets what must not be (an entry it cannot apply, a database that cannot be written, a log that ends"
                " before what it has applied) stops, keeps its database as evidence and is rebuilt, with growing pauses. One that could"
                " not be loaded needs a hand."
            ),
            look=(
                "`/ready`: `failed` has partition and reason. The log line `replica failed` or `replica state ... after=failed` too.",
                "Disk space, and whether the disk is writable.",
                "If the reason is the log itself (an unknown record, a missing end): the same on every process? Then stop and think.",
            ),
            commands=(DESCRIBE, DOCTOR, LOG_DUMP),
            harmless="A full disk that was cleaned: the replica comes back by itself.",
        ),
    ),
    Alert(
        name="DisklessReplicaRebuilt",
        expr="increase(diskless_coordinator_replica_failures_total[30m]) > 0",
        looks_at=("diskless_coordinator_replica_failures_total",),
        wait="0m",
        severity=AlertSeverity.WARNING,
        summary="A replica failed and is rebuilt from the log",
        description="Coordinator {{ $labels.partition }} failed on {{ $labels.instance }} within the last 30 minutes.",
        runbook=Runbook(
            means=(
                "A read or a write found what cannot be in the state database (a damaged page, a file that is not there), the data"
                " directory could not be used, or the log could not be applied. The database is set aside as evidence and built anew"
                " from the log; nothing acknowledged is lost, and no answer was made from what is damaged."
            ),
            look=(
                "`diskless doctor` names the reason and the evidence file (partition-N.db.failed-TIME in the data directory).",
                "The kernel's log of that machine: errors of the disk, the file system or the memory. Twice on one machine: replace it.",
                "Evidence is bounded (state.evidence.max.percent) and removed when space is short: copy it away if you want to keep it.",
            ),
            commands=(DOCTOR, DESCRIBE),
            harmless="Once, after files of a data directory were changed by hand or a disk was full.",
        ),
    ),
    Alert(
        name="DisklessOutOfLeadership",
        expr="diskless_coordinator_leadership_withheld == 1",
        looks_at=("diskless_coordinator_leadership_withheld",),
        wait="1m",
        severity=AlertSeverity.WARNING,
        summary="A node stays out of leadership",
        description="{{ $labels.instance }} stays out of leadership for a minute, reason: {{ $labels.reason }}. There is one standby less.",
        runbook=Runbook(
            means=(
                "The node knows that it should not lead: its clock is judged wrong (`clock`), Kafka refused what it wrote"
                " (`refused`), a newer version wrote the log (`unsupported`), or the log lost what its state has (`unloadable`). Others"
                " lead; it keeps partitions that no other node can take."
            ),
            look=(
                "`/ready`: `withheld` has the reason in words.",
                "`clock`: panel or metric `clock_ahead_seconds`, and chrony or ntpd on its machine.",
                "`refused`: quotas, ACLs and policies of the brokers for the metadata topic.",
            ),
            commands=(DOCTOR, DESCRIBE),
            harmless="During a rolling upgrade of the nodes (`unsupported`), until this one is upgraded.",
        ),
    ),
    Alert(
        name="DisklessClocksDiffer",
        expr=(
            "abs(diskless_coordinator_clock_ahead_seconds) > on (job, instance) group_left () diskless_coordinator_clock_skew_limit_seconds"
        ),
        looks_at=("diskless_coordinator_clock_ahead_seconds", "diskless_coordinator_clock_skew_limit_seconds"),
        wait="1m",
        severity=AlertSeverity.WARNING,
        summary="Clocks differ",
        description="The clock of {{ $labels.instance }} is {{ $value }} s away from that of {{ $labels.clock }}.",
        runbook=Runbook(
            means=(
                "A node or a Kafka broker shows a wrong time. With a majority the wrong node stays out of leadership by itself; of two"
                " clocks it is unknown which is wrong. No leader writes times far ahead of its brokers into the log, so nothing expires"
                " early; files may be refused as too old, or answers be forgotten late."
            ),
            look=(
                "Which clock is off: `diskless doctor` compares all nodes, its own machine and the brokers.",
                "The time service (chrony, ntpd) of that machine; a virtual machine that was suspended.",
            ),
            commands=(DOCTOR,),
            harmless="For seconds after a machine was suspended.",
        ),
    ),
    Alert(
        name="DisklessNotReady",
        expr="diskless_coordinator_ready == 0",
        looks_at=("diskless_coordinator_ready",),
        wait="10m",
        severity=AlertSeverity.WARNING,
        summary="A coordinator process is not ready",
        description="{{ $labels.instance }} says on /ready for 10 minutes that it is not ready.",
        runbook=Runbook(
            means="It is no member of the group, or does not lead what it is assigned, or a replica is loading or has failed.",
            look=(
                "`/ready` itself: each reason has a field.",
                "Log lines `waiting for Kafka` and `assigned partition does not come to leading`.",
            ),
            commands=(DOCTOR, STATUS),
            harmless="While a new process reads a long log for the first time: `loading` shrinks.",
        ),
    ),
)
