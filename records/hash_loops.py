"""BLAKE2b of many rows at once, without the interpreter lock. Compiled when installed; the `.pxd` has the types.

`hashlib` takes the lock for each row, and a row has to be made as one object of bytes first. The interpreter would take a
millisecond for a block: it leaves the hashing to `hashlib`.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import chain

try:
    import cython
except ImportError:
    from records import interpreted_cython as cython

_MASK = (1 << 64) - 1

STARTS = (
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
)  # fmt: skip
"""The initialisation vector of RFC 7693."""
_START_0, _START_1, _START_2, _START_3, _START_4, _START_5, _START_6, _START_7 = STARTS
_SCHEDULE = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
    (11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4),
    (7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8),
    (9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13),
    (2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9),
    (12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11),
    (13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10),
    (6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5),
    (10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0),
    (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    (14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3),
)
_ORDER = bytes(chain.from_iterable(_SCHEDULE))
"""The order of a block's sixteen words in each of the twelve rounds."""


def hash_spans(data: bytes, ends: memoryview[int], size: int, hashes: memoryview[int]) -> None:
    """Write the BLAKE2b digest of `size` bytes of each stretch of the data to the lines of `hashes`; `ends` says where each one ends.

    Raises `IndexError` when the stretches are not within the data.
    """
    start = 0
    for row in range(len(ends)):
        if ends[row] < start:
            raise IndexError(f"stretch {row} ends at {ends[row]}, before its start at {start}")
        start = ends[row]
    if start > len(data) or not 1 <= size <= 64:
        raise IndexError(f"{len(data)} bytes do not hold stretches up to {start}, or no digest has {size} bytes")
    if cython.compiled:
        raw, order = data, _ORDER  # unchecked addresses: hence the check of the ends
        with cython.nogil:
            _hash_spans(raw, ends, size, order, hashes)
    else:
        start = 0
        for row in range(len(ends)):
            for place, byte in enumerate(blake2b(data[start : ends[row]], digest_size=size).digest()):
                hashes[row, place] = byte
            start = ends[row]


def _hash_spans(raw: bytes, ends: memoryview[int], size: int, order: bytes, hashes: memoryview[int]) -> None:
    """Do the work of `hash_spans`, whose checks have passed."""
    # Compiled, these are arrays of C. No index leaves them: those of words are below 8 and 16, as are the numbers in `order`.
    state, block = [0] * 8, [0] * 16
    at = 0
    for row in range(len(ends)):
        stop, hashed = ends[row], 0
        state[0], state[1], state[2], state[3] = _START_0, _START_1, _START_2, _START_3
        state[4], state[5], state[6], state[7] = _START_4, _START_5, _START_6, _START_7
        state[0] ^= 0x01010000 ^ size
        # A block that is full may be the last one.
        while stop - at > 128:
            for word in range(16):
                block[word] = _word_at(raw, at + 8 * word)
            at += 128
            hashed += 128
            _compress(state, block, order, hashed, 0)
        for word in range(16):
            block[word] = 0
        for place in range(stop - at):
            byte = raw[at + place]
            block[place // 8] |= byte << 8 * (place % 8)
        hashed += stop - at
        at = stop
        _compress(state, block, order, hashed, 1)
        for place in range(size):
            hashes[row, place] = state[place // 8] >> 8 * (place % 8) & 255


def _word_at(raw: bytes, at: int) -> int:
    """A little-endian number of 8 bytes."""
    low, high = raw[at + 3], raw[at + 7]
    low = ((low << 8 | raw[at + 2]) << 8 | raw[at + 1]) << 8 | raw[at]
    high = ((high << 8 | raw[at + 6]) << 8 | raw[at + 5]) << 8 | raw[at + 4]
    return high << 32 | low


def _bits(number: int) -> int:
    """A number modulo 2^64, which it is when compiled."""
    return number if cython.compiled else number & _MASK


def _mix(a: int, b: int, c: int, d: int, x: int, y: int) -> tuple[int, int, int, int]:
    """The function G of RFC 7693."""
    a = _bits(a + b + x)
    d ^= a
    d = _bits(d >> 32 | d << 32)
    c = _bits(c + d)
    b ^= c
    b = _bits(b >> 24 | b << 40)
    a = _bits(a + b + y)
    d ^= a
    d = _bits(d >> 16 | d << 48)
    c = _bits(c + d)
    b ^= c
    return a, _bits(b >> 63 | b << 1), c, d


def _compress(state: list[int], block: list[int], order: bytes, hashed: int, is_last: int) -> None:
    """Take the block into the state: the function F of RFC 7693. `hashed` are the bytes so far, those of this block included."""
    v0, v1, v2, v3, v4, v5, v6, v7 = state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
    v8, v9, v10, v11 = _START_0, _START_1, _START_2, _START_3
    v12, v13, v14, v15 = _START_4 ^ hashed, _START_5, _START_6, _START_7
    if is_last:
        v14 ^= _MASK
    for at in range(0, 12 * 16, 16):
        v0, v4, v8, v12 = _mix(v0, v4, v8, v12, block[order[at]], block[order[at + 1]])
        v1, v5, v9, v13 = _mix(v1, v5, v9, v13, block[order[at + 2]], block[order[at + 3]])
        v2, v6, v10, v14 = _mix(v2, v6, v10, v14, block[order[at + 4]], block[order[at + 5]])
        v3, v7, v11, v15 = _mix(v3, v7, v11, v15, block[order[at + 6]], block[order[at + 7]])
        v0, v5, v10, v15 = _mix(v0, v5, v10, v15, block[order[at + 8]], block[order[at + 9]])
        v1, v6, v11, v12 = _mix(v1, v6, v11, v12, block[order[at + 10]], block[order[at + 11]])
        v2, v7, v8, v13 = _mix(v2, v7, v8, v13, block[order[at + 12]], block[order[at + 13]])
        v3, v4, v9, v14 = _mix(v3, v4, v9, v14, block[order[at + 14]], block[order[at + 15]])
    state[0], state[1], state[2], state[3] = state[0] ^ v0 ^ v8, state[1] ^ v1 ^ v9, state[2] ^ v2 ^ v10, state[3] ^ v3 ^ v11
    state[4], state[5], state[6], state[7] = state[4] ^ v4 ^ v12, state[5] ^ v5 ^ v13, state[6] ^ v6 ^ v14, state[7] ^ v7 ^ v15
