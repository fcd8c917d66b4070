"""The configuration of a node, from the settings of its process."""

from __future__ import annotations

import uuid
from pathlib import Path

from coordinator.app.file_rules import file_rules, scan_rules
from coordinator.app.snapshot_store import snapshot_peers, snapshot_rules
from coordinator.config.settings import Settings
from coordinator.config.values import numbers_in
from coordinator.core.assignor.member import AssignorRules
from coordinator.core.limits import Limits
from coordinator.core.topic_rules import TopicExpectations
from coordinator.kafka.topic_configs import Retention
from coordinator.runtime.files.keys import kept_prefixes
from coordinator.runtime.node.config import NodeConfig
from coordinator.runtime.pauses import Pauses
from coordinator.runtime.retention.rules import RetentionRules
from records.model import Endpoint

HANDED_OVER_BYTES = 50
"""Of a remembered batch of a producer in a request between nodes, at most."""


def has_state(path: Path) -> bool:
    """Whether a data directory holds a state database; False for one that cannot be read, of which the start says more."""
    try:
        return any(path.glob("partition-*.db"))
    except OSError:
        return False


def node_config(settings: Settings, endpoints: list[Endpoint]) -> NodeConfig:
    """Return the node's configuration from the settings."""
    factor, in_sync = settings.diskless_metadata_topic_replication_factor, settings.diskless_metadata_topic_min_insync_replicas
    files = file_rules(settings)
    return NodeConfig(
        node_id=settings.node_id,
        rack=settings.node_rack or "",
        endpoints=endpoints,
        topic=settings.metadata_topic,
        topic_partitions=settings.diskless_metadata_topic_num_partitions,
        topic_auto_create=settings.diskless_metadata_topic_auto_create,
        state_found_in=next((str(path) for path in settings.data_dirs if has_state(path)), ""),
        expectations=TopicExpectations(replication_factor=factor, min_insync_replicas=in_sync, is_development=factor == 1),
        limits=Limits(
            file_commit_max_age_ms=settings.file_commit_max_age_ms,
            commit_results_retention_ms=settings.commit_results_retention_ms,
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
            deleted_topic_retention_ms=settings.deleted_topic_retention_ms,
            file_fence_retention_ms=settings.file_fence_retention_ms,
            expiration_interval_ms=settings.expiration_interval_ms,
            partitions_per_topic_max=settings.max_partitions_per_topic,
            groups_in_flight_max=settings.groups_in_flight_max,
            group_batches_max=settings.group_max_batches,
            term_timeout_ms=settings.leader_term_timeout_ms,
            queue_bytes_max=settings.partition_pending_max_bytes,
            handed_over_max=settings.socket_request_max_bytes // HANDED_OVER_BYTES,
            metadata_topic=settings.metadata_topic,
            kept_prefixes=tuple(kept_prefixes(files.kept_prefix)),
        ),
        flush_interval_ms=settings.state_flush_interval_ms,
        flush_batches_max=settings.state_flush_max_batches,
        flush_backlog_max=settings.state_flush_backlog_max_batches,
        topic_check_interval_ms=settings.topic_check_interval_ms,
        schema_level_max=settings.schema_level_max,
        load_timeout_ms=settings.leader_load_timeout_ms,
        shutdown_timeout_ms=settings.leader_shutdown_timeout_ms,
        incarnation_id=uuid.uuid4().bytes,
        session_timeout_ms=settings.session_timeout_ms,
        pauses=Pauses(are_ticks_aligned=True),
        clock_skew_max_ms=settings.clock_skew_max_ms,
        log_dir_failure_timeout_ms=settings.log_dir_failure_timeout_ms,
        spare_percent_max=settings.state_spare_max_percent,
        rules=AssignorRules(standbys=settings.standby_replicas, leader_racks=settings.leader_racks),
        only=numbers_in(settings.node_coordinators) if settings.node_coordinators else None,
        snapshots=snapshot_rules(settings),
        retention=RetentionRules(
            default=Retention(settings.log_retention_ms, settings.log_retention_bytes),
            check_interval_ms=settings.log_retention_check_interval_ms,
        ),
        orphans=scan_rules(settings),
        snapshot_peers=snapshot_peers(settings),
        files=files,
    )
