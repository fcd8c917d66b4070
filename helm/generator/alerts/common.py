"""Parts that several alerts share: how targets are recognised, and the commands of the runbook."""

from __future__ import annotations

from typing import Final

COORDINATOR_JOB: Final = ".*diskless-coordinator.*"
MONITOR_JOB: Final = ".*diskless-monitor.*"
GATEWAY_JOB: Final = ".*diskless-gateway.*"
EXPORT_JOB: Final = ".*diskless-export.*"
"""How scrape jobs have to be named (as a part of the name): only a target that is down needs them, its own metrics being gone."""

COORDINATOR_UP: Final = f'up{{job=~"{COORDINATOR_JOB}"}}'
MONITOR_UP: Final = f'up{{job=~"{MONITOR_JOB}"}}'
GATEWAY_UP: Final = f'up{{job=~"{GATEWAY_JOB}"}}'
EXPORT_UP: Final = f'up{{job=~"{EXPORT_JOB}"}}'
OURS: Final = "on (job, instance) (diskless_coordinator_ready or diskless_monitor_up or diskless_gateway_ready)"
"""Restricts metrics that any process has to ours."""

AT_NODE: Final = "--bootstrap-server NODE:9192 --command-config CLIENT"
AT_KAFKA: Final = "--kafka-bootstrap-server KAFKA:9092 --command-config CLIENT"
AT_BOTH: Final = f"--bootstrap-server NODE:9192 {AT_KAFKA}"
"""How commands reach a secured service."""

STATUS: Final = f"diskless coordinator status {AT_NODE}"
DESCRIBE: Final = f"diskless coordinator describe PARTITION {AT_NODE}"
DOCTOR: Final = f"diskless doctor {AT_BOTH}"
LOG_DUMP: Final = f"diskless log dump --partition PARTITION {AT_KAFKA}"
LOG_EXPLAIN: Final = f"diskless log explain PARTITION@OFFSET {AT_KAFKA}"
LOG_PRUNE: Final = f"diskless log prune --dry-run {AT_NODE}"
RESTORE_REPORT: Final = f"diskless restore report --config FILE {AT_NODE}"
RESTORE_FINISH: Final = f"diskless restore finish {AT_NODE}"
SNAPSHOTS_LIST: Final = f"diskless snapshots list {AT_NODE}"
SNAPSHOTS_DESCRIBE: Final = f"diskless snapshots describe PARTITION {AT_NODE}"
SNAPSHOTS_VERIFY: Final = f"diskless snapshots verify --coordinator PARTITION --config FILE {AT_NODE}"
FILES_LIST: Final = f"diskless files list --state waiting --state deletable {AT_NODE}"
FILES_DESCRIBE: Final = f"diskless files describe OBJECT_KEY {AT_NODE}"
RETENTION_LOOK: Final = f"diskless retention enforce --dry-run {AT_NODE}"
RECORDS_DELETE: Final = f"diskless records delete TOPIC PARTITION --before-offset 1000 {AT_NODE}"
ORPHANS_STATUS: Final = f"diskless orphans status {AT_NODE}"
DIRS_LIST: Final = f"diskless dirs list {AT_NODE}"
DIRS_MOVE: Final = f"diskless dirs move PARTITION --node 1 --to DIRECTORY {AT_NODE}"
STORAGE_INFO: Final = "diskless storage info --config FILE"
GATEWAYS_LIST: Final = f"diskless gateways list {AT_KAFKA}"
GATEWAYS_DESCRIBE: Final = f"diskless gateways describe {AT_KAFKA}"
BENCH: Final = f"diskless bench {AT_NODE}"
MONITOR_STATUS: Final = "diskless monitor status --dir FOLDER"
VERIFY: Final = f"diskless monitor verify --dir FOLDER {AT_BOTH}"
MONITOR_RUN: Final = "diskless monitor run --config FILE --dir FOLDER"
ACKNOWLEDGE: Final = "diskless monitor findings ack --rule offset-gap --reason WHY --dir FOLDER"
MONITOR_FINDINGS: Final = "diskless monitor findings list --dir FOLDER"
EXPORT_STATUS: Final = f"diskless tables status TOPIC --to delta:TABLE {AT_NODE}"
EXPORT_RUN: Final = f"diskless tables export TOPIC --to delta:TABLE --config FILE {AT_NODE}"
RETENTION_RAISE: Final = f"diskless topics alter TOPIC --config retention.ms=604800000 {AT_NODE}"
