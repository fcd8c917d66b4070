"""Makes inputs from other inputs: random damage of the kinds that parsers of lengths, counts and varints fall over."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

SIZE_BYTES_MAX: Final = 16 * 1024

_BYTES: Final = [0x00, 0x01, 0x02, 0x03, 0x4D, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF]
_PIECES: Final = [
    b"\xff\xff\xff\xff\x07",  # the greatest varint of 31 bits
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",  # zigzag: 2^31 - 1
    b"\xff" * 9 + b"\x01",  # the least long as a zigzag varint
    b"\xff" * 10,
    b"\x80" * 9 + b"\x00",
    b"\x80\x00",
    b"\x7f\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f" + b"\xff" * 7,
    b"\x80" + b"\x00" * 7,
    b"\x01\x00\x04\x00\x00\x00\x05",  # a section of one tagged field
    b"\x02\x00\x00\x00\x00",
    b"\x01\x05\x02ab",
    b"\xed\xa0\x80",  # a lone surrogate in UTF-8
    b"\xc3\xa9",
    b"\\ud800",
    b"[" * 40,
    b"9" * 40,
    b"1e999",
    b"null",
    b'"',
]


def mutate(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return `data` with one to eight changes; `others` lend their pieces."""
    out = bytearray(data)
    # Most inputs should stay near to one that is well-formed, or nothing past the first field is ever reached.
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        rng.choice(_CHANGES)(rng, out, others)
    return bytes(out[:SIZE_BYTES_MAX])


Change = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def _place(rng: random.Random, out: bytearray) -> int:
    return rng.randrange(len(out) + 1)


def _flip_bit(rng: random.Random, out: bytearray, _: Sequence[bytes]) -> None:
    if out:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)


def _set_byte(rng: random.Random, out: bytearray, _: Sequence[bytes]) -> None:
    if out:
        out[rng.randrange(len(out))] = rng.choice(_BYTES)


def _shift_byte(rng: random.Random, out: bytearray, _: Sequence[bytes]) -> None:
    """Counts and lengths that are a little too small or too large."""
    if out:
        place = rng.randrange(len(out))
        out[place] = (out[place] + rng.choice((-2, -1, 1, 2))) % 256


def _overwrite(rng: random.Random, out: bytearray, _: Sequence[bytes]) -> None:
    place, piece = _place(rng, out), rng.choice(_PIECES)
    out[place : place + len(piece)] = piece


def _insert(rng: random.Random, out: bytearray, _: Sequence[bytes]) -> None:
    place = _place(rng, out)
    out[place:place] = rng.choice(_PIECES) if rng.random() < 0.5 else rng.randbytes(rng.randint(1, 8))


def _delete(rng: random.Random, out: bytearray, _: Sequence[bytes]) -> None:
    place = _place(rng, out)
    del out[place : place + rng.choice((1, 1, 2, 4, 8, 77))]


def _cut(rng: random.Random, out: bytearray, _: Sequence[bytes]) -> None:
    del out[_place(rng, out) :]


def _repeat(rng: random.Random, out: bytearray, _: Sequence[bytes]) -> None:
    """Many of a small thing: what is slow or wasteful only shows when there is much of it."""
    place = _place(rng, out)
    piece = out[place : place + rng.choice((1, 1, 2, 4, 17, 29, 77))]
    out[place:place] = piece * rng.choice((1, 2, 3, 10, 100, 1000))


def _splice(rng: random.Random, out: bytearray, others: Sequence[bytes]) -> None:
    other = rng.choice(others)
    start = rng.randrange(len(other) + 1)
    place = _place(rng, out)
    out[place : place + rng.randrange(40)] = other[start : start + rng.randrange(200)]


_CHANGES: Final[Sequence[Change]] = (
    _flip_bit, _set_byte, _set_byte, _shift_byte, _shift_byte, _overwrite, _insert, _delete, _cut, _repeat, _splice,
)  # fmt: skip
