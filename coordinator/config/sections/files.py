"""Settings of retention times and of the object store; cross rules between them are in `rules`."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import integer, text
from coordinator.object_store import is_key

DAY_MS = 86_400_000


def _is_prefix(value: str) -> bool:
    return value.endswith("/") and is_key(value[:-1])


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """How long answers, producers and deleted topics are remembered, and where files are."""

    file_commit_max_age_ms: int = integer(
        "file.commit.max.age.ms",
        900_000,
        low=1_000,
        high=DAY_MS,
        why="""A commit of a file older than this is refused. It turns the hope that no commit is delayed for ever into a rule, so
        that answers, producers and keys need to be remembered for a bounded time only.""",
    )
    commit_results_retention_ms: int = integer(
        "commit.results.retention.ms",
        1_800_000,
        low=1_000,
        high=7 * DAY_MS,
        why="""How long the answer to a commit is kept for its repetition. At least file.commit.max.age.ms: a client may repeat the
        commit that long and must get the first answer, not a second acceptance.""",
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
        why="""How long the ids of deleted topics are remembered in the log's time: so long a delayed creation cannot bring a topic
        back, and deleting again answers success. At least twice file.commit.max.age.ms plus clock.skew.max.ms: a late commit must meet
        either the memory or the age limit. At least commit.results.retention.ms plus clock.skew.max.ms: a repeated commit is answered
        although its topic was deleted, and its shares are distinguished by the placement of the topic.""",
    )
    expiration_interval_ms: int = integer(
        "expiration.interval.ms",
        60_000,
        low=100,
        high=DAY_MS,
        why="""How often the leader looks for producers and deleted topics that are past their time. Each expiry is an entry in the
        log; with nothing to expire nothing is written.""",
    )
    file_fence_retention_ms: int = integer(
        "file.fence.retention.ms",
        3_600_000,
        low=1_000,
        high=7 * DAY_MS,
        why="""How long a coordinator remembers a file that it may never take again (it was removed or handed over, or its commit was
        ruled out for good), counted from the file's creation in the log's time. At least twice file.commit.max.age.ms plus
        clock.skew.max.ms: a late commit must meet either the memory or the age limit. Files that name no time of their creation
        are remembered for ever. One such file takes some 200 bytes.""",
    )
    file_delete_grace_ms: int = integer(
        "file.delete.grace.ms",
        60_000,
        low=0,
        high=DAY_MS,
        why="""How long the object of a file stays in the store after its last batch was deleted, in the log's time. It must exceed the
        time for which readers use an answer about batches: a reader that asks for an object later finds it gone. A replica that
        has not heard of the log's end for half of it refuses to find batches.""",
    )
    file_cleaner_interval_ms: int = integer(
        "file.cleaner.interval.ms",
        1_000,
        low=10,
        high=3_600_000,
        why="""How often the leader of each metadata partition looks for files without batches, which it hands over or whose objects it
        deletes. A round with more to do begins the next one at once.""",
    )
    file_cleaner_max_files_per_cycle: int = integer(
        "file.cleaner.max.files.per.cycle",
        20_000,
        low=1,
        high=1_000_000,
        why="""How many files one round of the cleaner looks at. It bounds the memory of a round and how long a backlog keeps one
        metadata partition busy before the leader looks at its interval again.""",
    )
    diskless_coordinator_orphan_scan_interval_ms: int = integer(
        "diskless.coordinator.orphan.scan.interval.ms",
        3_600_000,
        low=0,
        high=30 * DAY_MS,
        why="""How often the leader of metadata partition 0 looks through the object store for objects that were uploaded and never
        committed, and deletes them (KIP-1164). 0: only when an operator asks for it. Each scan lists all objects below
        object.store.wal.prefix.""",
    )
    diskless_coordinator_orphan_scan_grace_period_ms: int = integer(
        "diskless.coordinator.orphan.scan.grace.period.ms",
        3_600_000,
        low=0,
        high=365 * DAY_MS,
        why="""How much older than file.commit.max.age.ms an object must be before a scan takes it for an orphan (KIP-1164). Whatever it is,
        an object is deleted only after every coordinator has promised never to take it.""",
    )
    object_store_wal_prefix: str = text(
        "object.store.wal.prefix",
        "wal/",
        allowed=_is_prefix,
        bounds="a relative path that ends with a slash",
        why="""Where WAL files are in the object store, the same for all nodes and all uploaders (`diskless files commit` takes it from
        here). No other service may keep anything below it: objects there that no coordinator knows are deleted as orphans, once they
        are old enough. Each service writes its name and prefix beside it (services/), and none scans where it finds another's, also
        above or below its own prefix.""",
    )
    object_store_request_timeout_ms: int = integer(
        "object.store.request.timeout.ms",
        30_000,
        low=100,
        high=3_600_000,
        why="""Deadline of one request to the object store, its retries included: the upload of a whole WAL file or snapshot, one chunk
        of a read. A snapshot has about 25 bytes for each batch that is kept.""",
    )
