"""`docs/operations.md` from the declarations of the operations."""

from __future__ import annotations

from pathlib import Path

from coordinator.operations.declaration import Lane, Operation
from coordinator.operations.table import OPERATIONS

TARGET = Path("docs/operations.md")

_HEAD = """# Operations

Made by `python -m codegen` from `coordinator/operations`; do not edit. An operation of the KIP has two numbers: the KIP's own,
and the one 10000 higher, because Kafka 4.4 gave 93 and 94 to others. Requests of one connection are
answered in order; those of one lane may be under way together, except `alone`. *Large*: a server works on few of these at a time.
*Internal*: sent by nodes only. The schemas are in `coordinator/protocol/schemas`. *Needs*: where an authorizer is set, the principal
needs this ACL on the cluster, or one of these; DESCRIBE in brackets is enough for a request that changes nothing. What a principal needs
*on a topic* is enough for that topic: others in the same request are refused, or left out of lists.

| operation | numbers | versions | answered by | lane | needs | |
|---|---|---|---|---|---|---|
"""


def _row(one: Operation) -> str:
    numbers = ", ".join(str(int(key)) for key in (one.kip_key, one.key) if key is not None)
    versions = f"{min(one.versions)} to {max(one.versions)}" if len(one.versions) > 1 else str(min(one.versions))
    request = one.versions[max(one.versions)].request_type.__name__.removesuffix("Request")
    notes = [text for text, holds in (("large", one.is_unbounded), ("internal", one.is_internal)) if holds]
    needs = " or ".join(sorted(acl.name for acl in one.acl)) or "nothing"
    if one.only_looks is not None:
        needs += " (DESCRIBE)"
    if one.by_topic is not None:
        needs += f"; {one.by_topic.acl.name} on a topic"
    lane = "none" if one.lane is Lane.UNORDERED else one.lane.value
    return f"| {request} | {numbers} | {versions} | {one.answered_by.value} | {lane} | {needs} | {', '.join(notes)} |\n"


def generate(_: Path) -> str:
    """Return the text of `docs/operations.md`."""
    return _HEAD + "".join(_row(one) for one in OPERATIONS)
