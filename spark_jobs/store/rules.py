"""The rules of the log by the names that findings carry, and what a violation means for an operator. Imports nothing."""

from __future__ import annotations

_VOID = (
    "The entry is void for every replica, now and at every rebuild. Its leader decided by a wrong state, which is set aside and built"
    " anew, or something else wrote to the metadata topic: `diskless log explain` tells more."
)
_STOPS = "Replicas of this version stop at such an entry; run the version that wrote it."
_LEADER = "The leader of that term decided wrongly, or something else wrote to the metadata topic."

RULES: dict[str, str] = {
    "offset-gap": f"A commit left out offsets of a partition. {_VOID}",
    "offset-overlap": f"A commit assigned offsets that were partly assigned before. {_VOID}",
    "offset-regression": f"A commit assigned only offsets that were assigned before. {_VOID}",
    "sequence-gap": f"A batch was accepted though batches of its producer before it are missing. {_VOID}",
    "sequence-duplicate": f"A batch of an idempotent producer was accepted again. {_VOID}",
    "producer-epoch-regression": f"A batch of a fenced producer was accepted. {_VOID}",
    "byte-overlap": f"Two batches of a file share bytes: at least one of them cannot be read. {_LEADER}",
    "batches-beyond-file": f"Batches lie outside their file: they cannot be read. {_LEADER}",
    "log-start-above-high-watermark": f"Records are deleted past the end of a partition, or its log start is said to be there. {_VOID}",
    "log-start-backwards": f"Records that were deleted are said to be there again; their files may be gone. {_LEADER}",
    "log-start-unfounded": f"A commit says that records are deleted which no entry has deleted; replicas keep them. {_LEADER}",
    "diskless-base-moved": f"The offset where a migrated partition's diskless log begins is said to be another. {_VOID}",
    "migration-fenced": f"A step of a partition's migration is of a leader of the classic partition that was replaced. {_VOID}",
    "migration-unlawful": f"A step of a partition's migration cannot be: it is of no classic partition, or its numbers do not fit. {_VOID}",
    "move-unlawful": (
        f"A step of a partition's move cannot be: the partition is not here, or is here already, or the move is over, or its numbers do"
        f" not fit. {_VOID}"
    ),
    "move-not-ordered": (
        "A partition left a coordinator or came to one in a move that metadata partition 0 did not order so, or is said to be where it"
        f" was not adopted: it may be in two coordinators, or in none. {_LEADER}"
    ),
    "partition-released": f"A commit was to a partition that had moved to another coordinator. {_VOID}",
    "transaction-unclosed": f"A metadata transaction began inside another one: both are void. {_VOID}",
    "transaction-unopened": f"A metadata transaction ended that never began. {_VOID}",
    "transaction-chunks": f"A metadata transaction has another number of entries than its end says, or its beginning. {_LEADER}",
    "misplaced-transaction": f"The beginning or end of a metadata transaction is among other records. {_VOID}",
    "transaction-too-large": "A metadata transaction is larger than the monitor holds; its entries were counted before its end.",
    "epoch-jump": "A program wrote a claim that skips epochs. It is void for every replica; find out who may write to the metadata topic.",
    "epoch-regression": f"A snapshot names an epoch that is not in force yet. {_LEADER}",
    "void-carries-live-term": (
        "An entry of the leader in force came out of order or twice, and was ignored by every replica. What it said was"
        " not acknowledged; one such entry at the end of a term is survived, many point to a broken producer or a "
        "forger."
    ),
    "misplaced-claim": f"A claim of leadership is inside a term. {_VOID}",
    "misplaced-restore": f"The record that begins a restored log is not at its beginning. {_VOID}",
    "snapshot-beyond-log": f"A snapshot claims to hold entries that come after it. {_LEADER}",
    "file-committed-twice": f"The same object was committed twice. {_VOID}",
    "file-committed-after-fence": f"An object was committed after it was fenced, handed over or removed: it may be deleted. {_VOID}",
    "live-file-removed": f"An object with live batches is said to be deleted: if it is, records are lost. Stop such deletions. {_VOID}",
    "live-file-handed-over": f"A file was handed over though it has live batches here, so another owner may delete it. {_VOID}",
    "live-file-fenced": f"A committed file with live batches was fenced, so it may be deleted. {_VOID}",
    "log-lost": (
        "Entries of the metadata topic were lost or pruned before the monitor read them. Totals lack them, chains start"
        " anew. If the log was not pruned, look at the topic's retention and at unclean leader elections, and at who writes to the topic in"
        " transactions: Spark does not see the records that Kafka writes after those (`diskless log` shows them as void)."
    ),
    "unknown-partition": f"An entry is about a partition that was never created here. A deletion has no effect then. {_VOID}",
    "deleted-topic": f"An entry is about a partition of a topic that was deleted. A deletion has no effect then. {_VOID}",
    "absurd-partition-count": f"An entry creates or places more partitions than a topic can have. {_VOID}",
    "misplaced-file": f"A file must be alone in its entry, and outside of transactions. {_VOID}",
    "batch-beyond-limit": f"A batch begins beyond byte 2^31-1 of its file, where it cannot be asked for. {_VOID}",
    "undecodable-entry": f"The bytes of an entry cannot be decoded; the quarantine keeps the first of them. {_VOID}",
    "replica-stops": f"An entry of a schema, a record type or a schema level that this version does not know. {_STOPS}",
    "level-not-in-force": f"An entry has a schema level that metadata partition 0 did not put in force: older nodes stop at it. {_LEADER}",
    "append-time-backwards": f"The append time of a file is before that of a file before it: retention by time may be wrong. {_LEADER}",
    "owner-missing": f"A file was committed at a coordinator that it does not name as an owner, so no node may ever delete it. {_LEADER}",
    "partition-hole": f"Partitions of a topic are created beyond partitions that do not exist. {_LEADER}",
    "partition-not-placed": f"A coordinator created a partition that metadata partition 0 does not place there. {_LEADER}",
    "placement-broken": f"The ranges in which a topic is placed leave out partitions, or have some twice. {_LEADER}",
    "partitions-not-followed": "An entry creates very many partitions; the monitor follows some of them from their first commit only.",
}
