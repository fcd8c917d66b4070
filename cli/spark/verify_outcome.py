"""The outcome of `diskless monitor verify`: as it is kept, as it is printed, and the status that it ends with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.outcome import Exit, Failed
from cli.output import print_fields, print_rows, say

if TYPE_CHECKING:
    from spark_jobs.verify.compare import ReplicaComparison

COLUMNS = ("kpart", "replica", "begin", "offset", "digest", "agree", "difference")
VOID_COLUMNS = ("kpart", "offset", "why")


def outcome_of(results: Sequence[ReplicaComparison]) -> dict[str, object]:
    """Return the result that is stored and printed; `not_compared` are replicas without a verdict."""
    compared = [one for one in results if one.agree is not None]
    return {
        "at_ms": time.time_ns() // 1_000_000,
        "agree": bool(compared) and all(one.agree for one in compared),
        "partitions": [one.as_json() for one in compared],
        "not_compared": [one.as_json() for one in results if one.agree is None],
    }


def show(results: Sequence[ReplicaComparison], output: str) -> None:
    """Print replicas, and the entries that contradict the log."""
    from spark_jobs.verify.compare import contradictions_of

    void = contradictions_of(results)
    if output == "table":
        print_rows([one.as_json() for one in results], output, COLUMNS)
        if void:
            say("entries that contradict the log, void for every replica:")
            print_rows(void, output, VOID_COLUMNS)
    else:
        print_fields({**outcome_of(results), "contradictions": void}, output)


def end(results: Sequence[ReplicaComparison]) -> None:
    """Say that all agree. Raises `Failed` when some do not, or could not be compared."""
    from cli.spark.snapshots import REMEDY

    different = sum(one.agree is False for one in results)
    unknown = [one for one in results if one.agree is None]
    if different:
        raise Failed(f"the log and {different} of {len(results)} replicas do not agree", Exit.AUDIT)
    if unknown or not results:
        hint = f". {REMEDY}" if any(one.is_pruned for one in unknown) else ""
        raise Failed(f"{len(unknown)} of {len(results)} replicas could not be compared{hint}")
    of_snapshots = "" if not any(one.begin for one in results) else ", from snapshots on where the log's beginning is deleted"
    say(f"the log and {len(results)} replicas agree ({sum(one.batches for one in results)} batches read{of_snapshots})")
