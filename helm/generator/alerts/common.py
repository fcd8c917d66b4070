"""Parts that several alerts share: how targets are recognised, and the commands of the runbook."""

from __future__ import annotations

from typing import Final

COORDINATOR_JOB: Final = ".*diskless-coordinator.*"
MONITOR_JOB: Final = ".*diskless-monitor.*"
"""How scrape jobs have to be named (as a part of the name): only a target that is down needs them, its own metrics being gone."""

COORDINATOR_UP: Final = f'up{{job=~"{COORDINATOR_JOB}"}}'
MONITOR_UP: Final = f'up{{job=~"{MONITOR_JOB}"}}'
OURS: Final = "on (job, instance) (diskless_coordinator_ready or diskless_monitor_up)"
"""Restricts metrics that any process has to ours."""

STATUS: Final = "diskless coordinator status --bootstrap-server NODE:9192"
DESCRIBE: Final = "diskless coordinator describe PARTITION --bootstrap-server NODE:9192"
DOCTOR: Final = "diskless doctor --bootstrap-server NODE:9192 --kafka-bootstrap-server KAFKA:9092"
LOG_DUMP: Final = "diskless log dump --partition PARTITION --kafka-bootstrap-server KAFKA:9092"
LOG_EXPLAIN: Final = "diskless log explain PARTITION@OFFSET --kafka-bootstrap-server KAFKA:9092"
LOG_PRUNE: Final = "diskless log prune --dry-run --bootstrap-server NODE:9192"
RESTORE_REPORT: Final = "diskless restore report --config FILE --bootstrap-server NODE:9192"
RESTORE_FINISH: Final = "diskless restore finish --bootstrap-server NODE:9192"
SNAPSHOTS_LIST: Final = "diskless snapshots list --bootstrap-server NODE:9192"
SNAPSHOTS_DESCRIBE: Final = "diskless snapshots describe PARTITION --bootstrap-server NODE:9192"
SNAPSHOTS_VERIFY: Final = "diskless snapshots verify --coordinator PARTITION --config FILE --bootstrap-server NODE:9192"
FILES_LIST: Final = "diskless files list --state waiting --state deletable --bootstrap-server NODE:9192"
FILES_DESCRIBE: Final = "diskless files describe OBJECT_KEY --bootstrap-server NODE:9192"
RETENTION_LOOK: Final = "diskless retention enforce --dry-run --bootstrap-server NODE:9192"
RECORDS_DELETE: Final = "diskless records delete TOPIC PARTITION --before-offset 1000 --bootstrap-server NODE:9192"
ORPHANS_STATUS: Final = "diskless orphans status --bootstrap-server NODE:9192"
DIRS_LIST: Final = "diskless dirs list --bootstrap-server NODE:9192"
DIRS_MOVE: Final = "diskless dirs move PARTITION --node 1 --to DIRECTORY --bootstrap-server NODE:9192"
STORAGE_INFO: Final = "diskless storage info --config FILE"
BENCH: Final = "diskless bench --bootstrap-server NODE:9192"
MONITOR_STATUS: Final = "diskless monitor status --dir FOLDER"
VERIFY: Final = "diskless monitor verify --dir FOLDER --bootstrap-server NODE:9192 --kafka-bootstrap-server KAFKA:9092"
ORPHANS: Final = "diskless monitor orphans --dir FOLDER --config FILE"
MONITOR_RUN: Final = "diskless monitor run --config FILE --dir FOLDER"
ACKNOWLEDGE: Final = "diskless monitor findings ack --rule offset-gap --reason WHY --dir FOLDER"
MONITOR_FINDINGS: Final = "diskless monitor findings list --dir FOLDER"
