"""Settings of WAL files, retention, expiry and the object store; cross rules between them are in `rules`."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import INT64_MAX, integer, ratio, text

DAY_MS = 86_400_000


def _is_prefix(value: str) -> bool:
    return value.endswith("/") and not value.startswith("/") and "//" not in value and ".." not in value.split("/")


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """How long files and answers live, and when objects are deleted."""

    file_commit_max_age_ms: int = integer(
        "file.commit.max.age.ms",
        900_000,
        low=1_000,
        high=DAY_MS,
        why="""A commit of a file older than this is refused. It turns the hope that no commit is delayed for ever into a rule, and
        all deletion of files rests on it: nothing younger is ever handed over, fenced or deleted.""",
    )
    commit_results_retention_ms: int = integer(
        "commit.results.retention.ms",
        1_800_000,
        low=1_000,
        high=7 * DAY_MS,
        why="""How long the answer to a commit is kept for its repetition. At least file.commit.max.age.ms: a client may repeat the
        commit that long and must get the first answer, not a second acceptance.""",
    )
    file_fence_retention_ms: int = integer(
        "file.fence.retention.ms",
        3_600_000,
        low=1_000,
        high=365 * DAY_MS,
        why="""How long the key of a fenced, removed or handed-over file is remembered. At least twice file.commit.max.age.ms plus
        clock.skew.max.ms: a late commit must meet either the fence or the age limit.""",
    )
    file_delete_grace_ms: int = integer(
        "file.delete.grace.ms",
        60_000,
        low=0,
        high=7 * DAY_MS,
        why="""Time between the log entry that emptied a file and the deletion of its object. It must exceed the time for which
        readers use a batch's place after they were told, and a replica that lags more than half of it refuses to tell.""",
    )
    file_cleaner_interval_ms: int = integer(
        "file.cleaner.interval.ms",
        10_000,
        low=100,
        high=DAY_MS,
        why="""Pause between two rounds of handing over and deleting empty files. A longer pause costs storage, not safety.""",
    )
    file_cleaner_max_files_per_cycle: int = integer(
        "file.cleaner.max.files.per.cycle",
        20_000,
        low=1,
        high=1_000_000,
        why="""Objects one round deletes at most, so that deleting a large topic does not fill the log with one flood of entries.""",
    )
    diskless_coordinator_orphan_scan_interval_ms: int = integer(
        "diskless.coordinator.orphan.scan.interval.ms",
        3_600_000,
        low=0,
        high=365 * DAY_MS,
        why="""How often the whole store is listed for objects that were uploaded and never committed; 0 switches the scan off. Listing
        costs requests in proportion to the number of objects (KIP-1164's key).""",
    )
    diskless_coordinator_orphan_scan_grace_period_ms: int = integer(
        "diskless.coordinator.orphan.scan.grace.period.ms",
        3_600_000,
        low=0,
        high=365 * DAY_MS,
        why="""Time added to file.commit.max.age.ms before an unknown object counts as an orphan. Fencing makes the deletion safe even
        at 0; the time is for operators who want to look first (KIP-1164's key).""",
    )
    producer_id_expiration_ms: int = integer(
        "producer.id.expiration.ms",
        DAY_MS,
        low=1_000,
        high=365 * DAY_MS,
        why="""An idempotent producer without an accepted batch for this long, in the log's time, is forgotten (Kafka's key and
        default). A retry after that is not recognised as a duplicate.""",
    )
    deleted_topic_retention_ms: int = integer(
        "deleted.topic.retention.ms",
        7 * DAY_MS,
        low=60_000,
        high=365 * DAY_MS,
        why="""How long the ids of deleted topics are remembered: so long a delayed creation cannot bring one back, and deleting again
        answers success.""",
    )
    expiration_interval_ms: int = integer(
        "expiration.interval.ms",
        60_000,
        low=100,
        high=DAY_MS,
        why="""How often the leader looks for producers, fences and answers that are past their time. Each expiry is an entry in the
        log, so a very short interval fills the log of a quiet partition.""",
    )
    retention_max_batches_per_request: int = integer(
        "retention.max.batches.per.request",
        2_000,
        low=1,
        high=1_000_000,
        why="""Batches that one enforcement of retention removes per partition at most, so that commits are not delayed by it; the
        next call goes on.""",
    )
    metadata_snapshot_min_changed_records_ratio: float = ratio(
        "metadata.snapshot.min.changed_records.ratio",
        0.5,
        why="""Share of the state that must have changed since the last snapshot before the size of the log alone triggers another one
        (KIP-630). Twice the snapshot's size in log bytes triggers it in any case.""",
    )
    snapshot_uncommitted_retention_ms: int = integer(
        "snapshot.uncommitted.retention.ms",
        DAY_MS,
        low=60_000,
        high=INT64_MAX,
        why="""Age at which an uploaded snapshot that no log entry names is removed: long enough for the slowest upload and commit.""",
    )
    object_store_wal_prefix: str = text(
        "object.store.wal.prefix",
        "wal/",
        allowed=_is_prefix,
        bounds="a relative path that ends with a slash",
        why="""Only objects below this prefix are looked at by the orphan scan, and so only they can be deleted as orphans. All
        uploaders write below it.""",
    )
    object_store_snapshot_prefix: str = text(
        "object.store.snapshot.prefix",
        "snapshots/",
        allowed=_is_prefix,
        bounds="a relative path that ends with a slash",
        why="""Where durable snapshots are kept. It must not overlap object.store.wal.prefix, or the orphan scan would take
        snapshots for files that nobody committed.""",
    )
    object_store_request_timeout_ms: int = integer(
        "object.store.request.timeout.ms",
        30_000,
        low=100,
        high=3_600_000,
        why="""Deadline of one request to the object store, its retries included. Background work tries again in its next round.""",
    )
