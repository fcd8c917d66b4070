"""Settings of retention times and of the object store; cross rules between them are in `rules`."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.config.keys import integer, text

DAY_MS = 86_400_000


def _is_prefix(value: str) -> bool:
    return value.endswith("/") and not value.startswith("/") and "//" not in value and ".." not in value.split("/")


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
        why="""How long the ids of deleted topics, and the keys of files that may not be committed any more, are remembered in the
        log's time: so long a delayed creation cannot bring a topic back, and deleting again answers success. At least twice
        file.commit.max.age.ms plus clock.skew.max.ms: a late commit must meet either the memory or the age limit. At least
        commit.results.retention.ms plus clock.skew.max.ms: a repeated commit is answered although its topic was deleted, and
        its shares are told apart by where the topic was placed.""",
    )
    expiration_interval_ms: int = integer(
        "expiration.interval.ms",
        60_000,
        low=100,
        high=DAY_MS,
        why="""How often the leader looks for producers and deleted topics that are past their time. Each expiry is an entry in the
        log; with nothing to expire nothing is written.""",
    )
    object_store_wal_prefix: str = text(
        "object.store.wal.prefix",
        "wal/",
        allowed=_is_prefix,
        bounds="a relative path that ends with a slash",
        why="""Where `diskless files commit` uploads WAL files when it is given these settings; all uploaders should agree on it, so
        that the objects of this service can be told from others in the same store.""",
    )
    object_store_request_timeout_ms: int = integer(
        "object.store.request.timeout.ms",
        30_000,
        low=100,
        high=3_600_000,
        why="""Deadline of one request to the object store, its retries included. Commands that are given these settings use it.""",
    )
