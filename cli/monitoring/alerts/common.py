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
BENCH: Final = "diskless bench --bootstrap-server NODE:9192"
MONITOR_STATUS: Final = "diskless monitor status --dir FOLDER"
VERIFY: Final = "diskless monitor verify --dir FOLDER --bootstrap-server NODE:9192 --kafka-bootstrap-server KAFKA:9092"
ORPHANS: Final = "diskless monitor orphans --dir FOLDER --config FILE"
MONITOR_RUN: Final = "diskless monitor run --config FILE --dir FOLDER"
ACKNOWLEDGE: Final = "diskless monitor findings ack --rule offset-gap --reason WHY --dir FOLDER"
MONITOR_FINDINGS: Final = "diskless monitor findings list --dir FOLDER"
