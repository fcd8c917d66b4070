"""Room for the columns that deciding a group needs only while it does: made once, because making arrays costs as much as filling them."""

from __future__ import annotations

import numpy as np

_PLACES_MIN = 256


class Scratch:
    """One column per name, as long as the largest group so far or longer; what is in them means nothing before they are filled."""

    row: memoryview[int]
    gap: memoryview[int]
    age: memoryview[int]
    count_minus_one: memoryview[int]
    run_first: memoryview[int]
    run_length: memoryview[int]
    run_partition: memoryview[int]
    run_topic: memoryview[int]
    run_base: memoryview[int]
    run_log_start: memoryview[int]
    segment_of: memoryview[int]
    segment_row: memoryview[int]
    batch: memoryview[int]
    producer_id: memoryview[int]
    epoch: memoryview[int]
    sequence: memoryview[int]
    producer_of: memoryview[int]
    distance: memoryview[int]
    expected: memoryview[int]
    cursor: memoryview[int]
    seen: memoryview[int]

    def __init__(self) -> None:
        self._places = 0

    def reserve(self, places: int) -> None:
        """Make room for at least so many places in every column."""
        if places <= self._places:
            return
        self._places = max(_PLACES_MIN, 2 * places)
        for name in Scratch.__annotations__:
            setattr(self, name, np.zeros(self._places, np.int64).data)
