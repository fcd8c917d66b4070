"""Zigzag varints, one loop over the numbers. Compiled when installed (`setup.py`); the `.pxd` has the types.

Arrays come as memoryviews, so that the same lines see plain ints when they are not compiled.
"""

from __future__ import annotations


def write_varints(numbers: memoryview[int], out: memoryview[int]) -> int:
    """Write the varints of 64-bit integers to `out`, which has 10 bytes for each; returns where they end."""
    at = 0
    for place in range(len(numbers)):
        number = numbers[place]
        unsigned = number << 1 if number >= 0 else ~(number << 1)
        while unsigned > 0x7F:
            out[at] = unsigned & 0x7F | 0x80
            unsigned >>= 7
            at += 1
        out[at] = unsigned
        at += 1
    return at
