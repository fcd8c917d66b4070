"""Alerts about gateways: one that clients are not led to, what cannot be written or read, what is old or damaged."""

from __future__ import annotations

from typing import Final

from helm.generator.alerts.common import DOCTOR, GATEWAY_UP, GATEWAYS_DESCRIBE, GATEWAYS_LIST, STATUS
from helm.generator.model import Alert, AlertSeverity, Runbook
from helm.generator.recording import GATEWAY_COMMITS_SLOW, GATEWAY_TIMED_OUT, GROUP

_VERSIONS: Final = f"count by ({GROUP}) (count by ({GROUP}, version) (diskless_gateway_info))"
_READS: Final = "rate(diskless_gateway_fetch_store_reads_total[5m])"
_READS_FAILED: Final = "rate(diskless_gateway_fetch_store_read_failures_total[5m])"

GATEWAYS: Final = (
    Alert(
        name="DisklessGatewayDown",
        expr=f"{GATEWAY_UP} == 0",
        looks_at=(GATEWAY_UP,),
        wait="3m",
        severity=AlertSeverity.WARNING,
        summary="A gateway cannot be scraped",
        description="{{ $labels.instance }} has not answered Prometheus for 3 minutes.",
        runbook=Runbook(
            means="The gateway is gone, or its HTTP port is not reached. Clients go on at the others of their zone, else of another one.",
            look=(
                "Which gateways are alive: the list is Kafka's, not Prometheus'.",
                "The last line of its log, which names what ended it; a gateway ends by itself for an id or a port that is taken.",
            ),
            commands=(GATEWAYS_LIST, DOCTOR),
            harmless="While a gateway is replaced.",
        ),
    ),
    Alert(
        name="DisklessGatewayNotMember",
        expr="diskless_gateway_member == 0",
        looks_at=("diskless_gateway_member",),
        wait="2m",
        severity=AlertSeverity.CRITICAL,
        summary="A gateway is not a member of its group",
        description="{{ $labels.instance }} runs and has been no member of the group of gateways for 2 minutes.",
        runbook=Runbook(
            means=(
                "The other gateways lead no client to it, and it does not learn who of them is alive: its own clients may be led to"
                " gateways that are gone."
            ),
            look=(
                "Its log: `group of gateways not reached` has the broker's answer.",
                "Whether the brokers answer, and the group's coordinator is there (`kafka-consumer-groups.sh --describe --state`).",
                "Whether its login may read and describe the group `diskless.gateway.group.id`.",
            ),
            commands=(GATEWAYS_LIST, DOCTOR),
            harmless="While Kafka is down: nothing is served then anyway.",
        ),
    ),
    Alert(
        name="DisklessGatewayUploadsFail",
        expr="increase(diskless_gateway_produce_uploads_given_up_total[10m]) > 0",
        looks_at=("diskless_gateway_produce_uploads_given_up_total",),
        wait="0m",
        severity=AlertSeverity.CRITICAL,
        summary="Files could not be uploaded",
        description="{{ $labels.instance }} gave up files: their producers got KAFKA_STORAGE_ERROR or a timeout.",
        runbook=Runbook(
            means=(
                "The object store took a file neither at once nor in the time that its producers wait. Nothing that was acknowledged is"
                " concerned; producers repeat, and fail at the end of their delivery.timeout.ms."
            ),
            look=(
                "The log: `file given up` has the store's answer.",
                "Whether nodes reach the store: `diskless doctor` with a node's settings tries it.",
                "Limits of rate at the store; fewer and larger files need fewer requests (`gateway.buffer.ms`).",
            ),
            commands=(GATEWAYS_DESCRIBE, DOCTOR),
            harmless="Once, while the store was away for half a minute.",
        ),
    ),
    Alert(
        name="DisklessGatewayCommitsSlow",
        expr=f"{GATEWAY_COMMITS_SLOW} > 0.1",
        looks_at=(GATEWAY_COMMITS_SLOW,),
        wait="10m",
        severity=AlertSeverity.WARNING,
        summary="Commits of gateways are slow",
        description="{{ $value | humanizePercentage }} of the files of {{ $labels.job }} wait over half a second for their commits.",
        runbook=Runbook(
            means="Acknowledgements of producers take as much longer. The store has the files already: what is slow is a coordinator.",
            look=(
                "Whether every coordinator has a leader, and how long its commits take (board of the service, *Commit latency*).",
                "The network between gateways and nodes.",
                "Many tiny batches: doctor names the clients.",
            ),
            commands=(STATUS, GATEWAYS_DESCRIBE, DOCTOR),
            harmless="While nodes are restarted.",
        ),
    ),
    Alert(
        name="DisklessGatewayTimeouts",
        expr=f"{GATEWAY_TIMED_OUT} > 0.01",
        looks_at=(GATEWAY_TIMED_OUT,),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="Produce requests end by their timeout",
        description="{{ $value | humanizePercentage }} of the Produce requests at {{ $labels.job }} ended without a known outcome.",
        runbook=Runbook(
            means=(
                "Producers repeat what may be written already. Idempotent ones double nothing; others may. The store or a coordinator is"
                " slower than `request.timeout.ms` of the clients."
            ),
            look=(
                "Which of uploads and commits is slow, on the board of gateways.",
                "Clients with a short request.timeout.ms: 30 s is right.",
            ),
            commands=(GATEWAYS_DESCRIBE, STATUS, DOCTOR),
            harmless="Never.",
        ),
    ),
    Alert(
        name="DisklessGatewayPaused",
        expr="avg_over_time(diskless_gateway_produce_paused[10m]) > 0.5",
        looks_at=("diskless_gateway_produce_paused",),
        wait="0m",
        severity=AlertSeverity.WARNING,
        summary="A gateway reads no producers for want of memory",
        description="{{ $labels.instance }} did not read producers for {{ $value | humanizePercentage }} of the last 10 minutes.",
        runbook=Runbook(
            means="As many records wait for their acknowledgement as its memory has room for. Producers wait; nothing is refused or lost.",
            look=(
                "Whether uploads or commits are slow: then more memory helps for as long as it lasts.",
                "Otherwise the load needs more gateways, or a larger `gateway.memory.bytes`, of which producers have 36 %.",
            ),
            commands=(GATEWAYS_DESCRIBE, DOCTOR),
            harmless="While producers catch up after an outage.",
        ),
    ),
    Alert(
        name="DisklessGatewayDamagedBatches",
        expr="increase(diskless_gateway_fetch_damaged_batches_total[1h]) > 0",
        looks_at=("diskless_gateway_fetch_damaged_batches_total",),
        wait="0m",
        severity=AlertSeverity.CRITICAL,
        summary="Batches in the object store are damaged",
        description="{{ $labels.instance }} found batches that are not what the coordinators say.",
        runbook=Runbook(
            means=(
                "Readers of the partition get CORRUPT_MESSAGE at that place. An object was changed, or its bytes were damaged on their way:"
                " then the next read of it is right."
            ),
            look=(
                "The log names partition, offsets, object and what is wrong.",
                "Whether the same object is damaged again and again: `diskless batches find TOPIC 0 --offset 1000 --fetch` reads it, too.",
                "Versions or backups of the object at the store; who else may write below object.store.wal.prefix.",
            ),
            commands=(GATEWAYS_DESCRIBE, DOCTOR),
            harmless="Never.",
        ),
    ),
    Alert(
        name="DisklessGatewayCatalogueOld",
        expr="diskless_gateway_catalogue_age_seconds > 60",
        looks_at=("diskless_gateway_catalogue_age_seconds",),
        wait="1m",
        severity=AlertSeverity.CRITICAL,
        summary="A gateway does not learn of diskless topics",
        description="{{ $labels.instance }} has a list of diskless topics that is {{ $value | humanizeDuration }} old.",
        runbook=Runbook(
            means="Coordinators do not answer it. New topics cannot be used, and what is known cannot be written or read either, mostly.",
            look=(
                "Whether metadata partition 0 has a leader.",
                "The log: `topics not listed` has the reason, such as a refused login (`coordinator.client.*`).",
            ),
            commands=(STATUS, GATEWAYS_DESCRIBE, DOCTOR),
            harmless="While all nodes are down for maintenance.",
        ),
    ),
    Alert(
        name="DisklessGatewayReadsFail",
        expr=f"{_READS_FAILED} / {_READS} > 0.1",
        looks_at=(f"{_READS_FAILED} + {_READS}",),
        wait="5m",
        severity=AlertSeverity.WARNING,
        summary="Reads of the object store fail",
        description="{{ $value | humanizePercentage }} of the reads of {{ $labels.instance }} fail: its readers get KAFKA_STORAGE_ERROR.",
        runbook=Runbook(
            means="Consumers repeat and stand still where the bytes are not in a cache.",
            look=(
                "The log: `object not read` has the store's answer.",
                "Whether objects are missing that coordinators know: `diskless batches find` with --fetch.",
            ),
            commands=(GATEWAYS_DESCRIBE, DOCTOR),
            harmless="While the object store is away for some minutes.",
        ),
    ),
    Alert(
        name="DisklessGatewayVersionsDiffer",
        expr=f"{_VERSIONS} > 1",
        looks_at=(_VERSIONS,),
        wait="1h",
        severity=AlertSeverity.WARNING,
        summary="Gateways have different versions",
        description="Gateways of {{ $labels.job }} have {{ $value }} versions for an hour.",
        runbook=Runbook(
            means="An upgrade stopped half-way. Gateways of two versions work together; their clients may be answered unlike.",
            look=("Which gateway has which version.", "Why the roll-out does not go on: a gateway that is not ready holds it."),
            commands=(GATEWAYS_LIST,),
            harmless="During a slow upgrade.",
        ),
    ),
    Alert(
        name="DisklessGatewayCertificateExpires",
        expr="diskless_gateway_certificate_seconds_left < 14 * 86400",
        looks_at=("diskless_gateway_certificate_seconds_left",),
        wait="1h",
        severity=AlertSeverity.WARNING,
        summary="A certificate of a gateway expires soon",
        description="Listener {{ $labels.listener }} of {{ $labels.instance }}: {{ $value | humanizeDuration }} are left.",
        runbook=Runbook(
            means="After that no client can connect to the listener or its relay ports.",
            look=("Whether the file was renewed: a gateway reads it again by itself; its log says why if it cannot.",),
            commands=(GATEWAYS_LIST,),
            harmless="Never.",
        ),
    ),
)
