"""What a violation of each rule of the log means, for an operator who reads it at night."""

from __future__ import annotations

UNKNOWN = "The entry breaks a rule of the log. Look at it and the entries before it with the command below."

_TWO_LEADERS = "Two processes may have written as leader at the same time; compare the claims before this offset with the log."
_COORDINATOR = "A coordinator decided wrongly, or the log was changed by hand: stop writing to this topic until it is understood."

MEANINGS: dict[str, str] = {
    "offset-gap": f"Consumers of this partition will find no record at the missing offsets. {_COORDINATOR}",
    "offset-overlap": f"Two batches have the same offsets: consumers see one of them, the other is lost. {_COORDINATOR}",
    "offset-regression": f"Offsets that were assigned long ago were assigned again: acknowledged records are hidden. {_TWO_LEADERS}",
    "sequence-gap": "An idempotent producer's batches were accepted although some between them were not: records may be out of order.",
    "sequence-duplicate": "A batch that was accepted before was accepted again: consumers read its records twice.",
    "producer-epoch-regression": "A producer that was fenced by a younger one of the same id wrote once more.",
    "log-start-backwards": "Records that were deleted came back; their objects may be gone already.",
    "log-start-above-high-watermark": "The log of a partition starts after its end: nothing of it can be read.",
    "diskless-base-moved": "Where a migrated partition becomes diskless (B0) must never change: brokers and coordinator disagree.",
    "deleted-topic": "Something was committed to a topic that had been deleted: its objects are never cleaned up.",
    "unknown-partition": "Something was committed to a partition that was never created in this coordinator.",
    "absurd-partition-count": "A topic was created with more partitions than there can be; the record is damaged or hostile.",
    "byte-overlap": "Two batches share bytes of an object: at least one of them cannot be what the producer sent.",
    "batches-beyond-file": "A batch lies after the end of its object: reading it will fail. The uploader reported a wrong size.",
    "file-committed-twice": "The same object was committed again: its batches are in the log twice.",
    "file-committed-after-fence": "The object had been given up (fenced, handed over, removed) and was committed all the same.",
    "live-file-removed": "An object was deleted from storage while batches in it still counted: those records are lost.",
    "live-file-fenced": "An object with live batches was marked as never to be committed.",
    "live-file-handed-over": "A coordinator gave away an object in which it still had live batches: the next owner may delete it.",
    "epoch-jump": f"A claim skips epochs, so nobody follows it. {_TWO_LEADERS}",
    "epoch-regression": f"A record speaks of an older leadership than the one in force. {_TWO_LEADERS}",
    "void-carries-live-term": "The leader in force wrote entries out of order; replicas ignore them, so acknowledged commits may be lost.",
    "misplaced-claim": "A claim came inside another entry. Replicas ignore it; whoever wrote it is no coordinator of this version.",
    "log-lost": "Kafka no longer had entries that were not read yet (retention, or an unclean election). Chains start anew here.",
    "snapshot-beyond-log": "A snapshot says it reaches further than the log did: a replica restored from it would be ahead of the truth.",
    "transaction-unopened": "The end of a transaction without its beginning: replicas ignore it.",
    "transaction-unclosed": "A transaction began while another was open: the first never takes effect.",
    "transaction-chunks": "A transaction ends with another number of entries than it had: some were lost or added.",
    "transaction-too-large": "A transaction grew beyond what the monitor keeps; its entries were not audited.",
}


def meaning(rule: str) -> str:
    """Say what a violation of the rule means; a general sentence for rules this version does not know."""
    return MEANINGS.get(rule, UNKNOWN)
