"""The rules of the log by the names that findings carry, and what a violation means for an operator. Imports nothing."""

from __future__ import annotations

_REPLICA_STOPS = "Replicas stop at such an entry: look at their state and at the entries before it."
_LEADER = "The leader of that term decided wrongly, or something else wrote to the metadata topic."

RULES: dict[str, str] = {
    "offset-gap": f"A commit left out offsets of a partition, so consumers find a hole. {_REPLICA_STOPS}",
    "offset-overlap": f"A commit assigned offsets that were partly assigned before: two records claim one offset. {_REPLICA_STOPS}",
    "offset-regression": f"A commit assigned only offsets that were assigned before. {_REPLICA_STOPS}",
    "sequence-gap": f"A batch was accepted though batches of its producer before it are missing: records may be lost. {_LEADER}",
    "sequence-duplicate": f"A batch of an idempotent producer was accepted again: consumers see its records twice. {_LEADER}",
    "producer-epoch-regression": f"A batch of a fenced producer was accepted. {_LEADER}",
    "byte-overlap": f"Two batches of a file share bytes: at least one of them cannot be read. {_LEADER}",
    "batches-beyond-file": f"Batches lie outside their file: they cannot be read. {_LEADER}",
    "log-start-above-high-watermark": f"The log start of a partition is past its end. {_REPLICA_STOPS}",
    "log-start-backwards": f"Records that were deleted are said to be there again; their files may be gone. {_LEADER}",
    "diskless-base-moved": f"The offset where a migrated partition's diskless log begins changed, which it must never do. {_LEADER}",
    "transaction-unclosed": f"A metadata transaction began inside another one. {_REPLICA_STOPS}",
    "transaction-unopened": f"A metadata transaction ended that never began. {_REPLICA_STOPS}",
    "transaction-chunks": f"A metadata transaction has another number of entries than its beginning or end says. {_REPLICA_STOPS}",
    "misplaced-transaction": f"The beginning or end of a metadata transaction stands among other records. {_REPLICA_STOPS}",
    "transaction-too-large": "A metadata transaction is larger than the monitor holds; its entries were counted before its end.",
    "epoch-jump": "Somebody wrote a claim that skips epochs. It is void for every replica; find out who may write to the metadata topic.",
    "epoch-regression": f"A snapshot names an epoch that is not in force yet. {_LEADER}",
    "void-carries-live-term": (
        "An entry of the leader in force came out of order or twice, and was ignored by every replica. What it said was"
        " not acknowledged; one such entry at the end of a term is survived, many point to a broken producer or a "
        "forger."
    ),
    "misplaced-claim": f"A claim of leadership stands inside a term. {_REPLICA_STOPS}",
    "snapshot-beyond-log": f"A snapshot claims to hold entries that come after it. {_LEADER}",
    "file-committed-twice": f"The same object was committed twice. {_LEADER}",
    "file-committed-after-fence": (
        "An object was committed after it had been fenced, handed over or removed: its data may be deleted. Copy the "
        "object before it goes, and upload the data again."
    ),
    "live-file-removed": "An object was deleted that still had live batches: their records are lost. Stop the deletion of files.",
    "live-file-handed-over": f"A file was handed over though it has live batches here, so another owner may delete it. {_LEADER}",
    "live-file-fenced": f"A committed file with live batches was fenced, so it may be deleted. {_LEADER}",
    "log-lost": (
        "Entries of the metadata topic were lost or pruned before the monitor read them. Totals lack them, chains start"
        " anew. If nobody pruned the log, look at the topic's retention and at unclean leader elections."
    ),
    "unknown-partition": f"An entry is about a partition that was never created here. {_REPLICA_STOPS}",
    "deleted-topic": f"An entry is about a partition of a topic that was deleted. {_REPLICA_STOPS}",
    "absurd-partition-count": f"An entry creates more partitions than any configuration allows. {_LEADER}",
}
