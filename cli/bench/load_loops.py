"""The work of the load on every request and answer, in one pass each. Compiled when installed (`setup.py`); the `.pxd` has the types.

The load shares the machine with what it measures, so each microsecond here is one that the service does not have.
"""

from __future__ import annotations

ANSWER_ROW_BYTES = 29
DUPLICATE_AT = 27


def put_sequences(
    frame: memoryview[int], places: memoryview[int], slots: memoryview[int], counts: memoryview[int], sequences: memoryview[int]
) -> None:
    """Give idempotent batches their producers' next sequences, which go on by `counts` records each.

    `places` says where in the frame a batch's first and last sequence are, `slots` where in `sequences` its producer's next one.
    """
    for batch in range(len(places)):
        first = sequences[slots[batch]]
        last = (first + counts[batch] - 1) & 0x7FFFFFFF
        at = places[batch]
        for byte in range(4):
            frame[at + byte] = first >> (24 - 8 * byte) & 0xFF
            frame[at + 4 + byte] = last >> (24 - 8 * byte) & 0xFF
        sequences[slots[batch]] = (last + 1) & 0x7FFFFFFF


def plain_results(frame: memoryview[int], offset: int) -> int:
    """How many results the answer has whose body fills the frame from `offset` on; -1 when one of them is an error or a
    duplicate, or the bytes are none of such an answer: then the general decoder has to look."""
    row, duplicate = ANSWER_ROW_BYTES, DUPLICATE_AT
    end = len(frame)
    at = offset + 4
    count = 0
    shift = 0
    while at < end and shift < 28:
        byte = frame[at]
        count |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if byte < 0x80:
            break
    count -= 1
    if count < 0 or at + row * count + 1 != end or frame[end - 1]:
        return -1
    while at + row < end:
        # Error code, message, duplicate, tagged fields.
        if frame[at] | frame[at + 1] | frame[at + 2] | frame[at + duplicate] | frame[at + duplicate + 1]:
            return -1
        at += row
    return count
