"""Alerts about the metadata topic in Kafka."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import AT_KAFKA, DOCTOR, LOG_DUMP, LOG_EXPLAIN, STATUS
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import GROUP

KAFKA: Final = (
    Alert(
        name="DisklessEntriesUnacknowledged",
        expr="diskless_coordinator_oldest_unacknowledged_entry_age_seconds > 5",
        looks_at=("diskless_coordinator_oldest_unacknowledged_entry_age_seconds",),
        wait="1m",
        severity=AlertSeverity.CRITICAL,
        summary="Kafka does not acknowledge entries of the metadata topic",
        description=(
            "An entry of metadata partition {{ $labels.partition }} on {{ $labels.instance }} waits for {{ $value | humanizeDuration }}."
        ),
        runbook=Runbook(
            means="Below min.insync.replicas Kafka takes nothing and says nothing: commits wait until they time out.",
            look=(
                "In-sync replicas of the metadata topic; brokers that are down or slow.",
                "The network between this process and the partition's leader in Kafka.",
            ),
            commands=(DOCTOR,),
            harmless="Never for longer than an election in Kafka takes.",
        ),
    ),
    Alert(
        name="DisklessKafkaProduceErrors",
        expr=f"sum by ({GROUP}, instance) (increase(diskless_coordinator_produce_errors_total[10m])) > 0",
        looks_at=(f"sum by ({GROUP}, instance) (increase(diskless_coordinator_produce_errors_total[10m]))",),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="Entries of the metadata topic were not written",
        description="Kafka did not write {{ $value }} entries of {{ $labels.instance }} in 10 minutes. Each ended a leadership.",
        runbook=Runbook(
            means="The commits in these entries were not acknowledged; clients repeat them. The leader ended its term and claimed anew.",
            look=(
                (
                    "The reason in the log (`term ended ... reason=`), for example MSG_SIZE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED,"
                    " _MSG_TIMED_OUT."
                ),
                "Whether brokers restarted or partitions moved.",
            ),
            commands=(DOCTOR, STATUS),
            harmless="After brokers were killed. A rolling restart of brokers should cause none.",
        ),
    ),
    Alert(
        name="DisklessTopicCheckFails",
        expr='increase(diskless_coordinator_topic_check_failures_total{reason=~"refused|missing"}[10m]) > 0',
        looks_at=("diskless_coordinator_topic_check_failures_total",),
        wait="5m",
        severity=AlertSeverity.CRITICAL,
        summary="The metadata topic cannot be looked at",
        description="{{ $labels.instance }}: looks at the metadata topic end with `{{ $labels.reason }}`.",
        runbook=Runbook(
            means=(
                "`refused`: Kafka does not allow it any longer. `missing`: Kafka says that the topic does not exist; a process that"
                " hears this three times in a row ends, because acknowledged entries are gone."
            ),
            look=("ACLs of the principal, its credentials and certificates.", "Whether the topic was deleted or recreated."),
            commands=(f"diskless init --dry-run {AT_KAFKA}", DOCTOR),
            harmless="`missing` once, from a broker that has just started.",
        ),
    ),
    Alert(
        name="DisklessCertificateExpires",
        expr="diskless_coordinator_certificate_seconds_left < 14 * 86400",
        looks_at=("diskless_coordinator_certificate_seconds_left",),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="A certificate expires soon",
        description=(
            "The certificate of listener {{ $labels.listener }} of {{ $labels.instance }} expires in {{ $value | humanizeDuration }}."
        ),
        runbook=Runbook(
            means="Once it has expired, clients and other nodes refuse to connect; connections that are open go on.",
            look=(
                "Whether the files of ssl.keystore.location or ssl.certificate.location were renewed.",
                "The log of the process: `certificate reloaded` when it took a new file, else `certificate not reloaded` and why.",
            ),
            commands=(DOCTOR,),
            harmless="Certificates that live for less than two weeks, as long as they are renewed; then raise the alert's limit.",
        ),
    ),
    Alert(
        name="DisklessAclsOld",
        # Who lets ACLs count late (authorizer.cache.ms) has old ones without any failure.
        expr="diskless_coordinator_acl_age_seconds > 300 and increase(diskless_coordinator_acl_refresh_failures_total[10m]) > 0",
        looks_at=("diskless_coordinator_acl_age_seconds", "diskless_coordinator_acl_refresh_failures_total"),
        wait="1m",
        severity=AlertSeverity.WARNING,
        summary="Kafka does not give its ACLs",
        description=(
            "{{ $labels.instance }} heard the ACLs of Kafka {{ $value | humanizeDuration }} ago; changes since then do not count there."
        ),
        runbook=Runbook(
            means=(
                "With authorizer=kafka the last known ACLs stay in force, so a revoked right is still granted."
                " A node that starts now serves only super.users."
            ),
            look=(
                "The reason in the log of the process (`Kafka does not give its ACLs`).",
                "Whether the principal of the nodes still has DESCRIBE on the cluster (kafka-acls --list --cluster).",
            ),
            commands=(STATUS, DOCTOR),
            harmless="While Kafka itself is away, as long as no rights are to change.",
        ),
    ),
    Alert(
        name="DisklessForeignEntries",
        expr=f'sum by ({GROUP}, partition) (diskless_coordinator_void_entries_total{{reason="foreign"}}) > 0',
        looks_at=(f'sum by ({GROUP}, partition) (diskless_coordinator_void_entries_total{{reason="foreign"}})',),
        wait="0m",
        severity=AlertSeverity.WARNING,
        summary="Another program writes to the metadata topic",
        description="Metadata partition {{ $labels.partition }} of {{ $labels.job }} has entries that no coordinator wrote.",
        runbook=Runbook(
            means="They are ignored by every replica. But who may write there could also write what is not ignored.",
            look=("Who has Write on the metadata topic, and a producer that is configured with a wrong topic.",),
            commands=(LOG_DUMP,),
            harmless="A known experiment. The count starts anew with each process, which counts what it reads.",
        ),
    ),
    Alert(
        name="DisklessContradiction",
        expr=f"sum by ({GROUP}, partition) (diskless_coordinator_contradictions_total) > 0",
        looks_at=(f"sum by ({GROUP}, partition) (diskless_coordinator_contradictions_total)",),
        wait="0m",
        severity=AlertSeverity.CRITICAL,
        summary="The metadata log holds an entry that contradicts it",
        description=(
            "Metadata partition {{ $labels.partition }} of {{ $labels.job }} has an entry of a term in force whose offsets, sequences or"
            " keys the log before it rules out."
        ),
        runbook=Runbook(
            means=(
                "A leader decided by a state that was not what the log says, or another process wrote in its name. Every replica treats the"
                " entry as void; the leader's term has ended, and states that may be damaged were set aside and built anew."
                " A commit that such an entry acknowledged is lost."
            ),
            look=(
                "What the entry says and what was expected: the finding *contradictions* of doctor names it.",
                "The uploader of the file in it: was the commit acknowledged? Then its data has to be committed again under a new key.",
                "Memory and disk of the machine that led; who has Write on the metadata topic.",
            ),
            commands=(DOCTOR, LOG_EXPLAIN),
            harmless="A node that reads an old log again meets its contradictions again. The count starts anew with each process.",
        ),
    ),
)
