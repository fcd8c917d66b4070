"""Records to read."""

from __future__ import annotations

from typing import Final

from integration_tests.tables.sides import Written

BEGIN_MS: Final = 1_760_000_000_000


def sample(count: int, partitions: int = 2, begin: int = 0) -> list[Written]:
    """Records with and without keys, values and headers, a second apart, in all partitions by turns."""
    headers = (("a", b"1"), ("a", None), ("\u00fc", b"\xff\x00"))
    return [
        Written(
            number % partitions,
            None if number % 5 == 0 else b"key-%d" % (number % 3),
            None if number % 7 == 0 else b"value-%d" % number,
            BEGIN_MS + 1000 * number,
            headers[: number % 4],
        )
        for number in range(begin, begin + count)
    ]
