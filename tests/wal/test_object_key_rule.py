"""The time in an object key, by the rule spelled out."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from coordinator.kafka.object_key import CROCKFORD, created_ms_of_key

LETTER = f"[{CROCKFORD}{CROCKFORD.lower()}]"
RULE = re.compile(rf"(?:^|[-_./])({LETTER}{{10}}){LETTER}{{16}}\Z")
NO_DIGITS = "uUiI\u017f\u212a\x7f"
KEYS = st.builds(
    lambda prefix, ulid, suffix: prefix + ulid + suffix,
    st.sampled_from(["", "a/b-", "a_", "x.", "x", "ü/", "\U0001f600-", "a/b"]) | st.text(max_size=5),
    st.text(CROCKFORD + CROCKFORD.lower(), min_size=25, max_size=27) | st.text(CROCKFORD + NO_DIGITS, min_size=26, max_size=26),
    st.sampled_from(["", "", "", "/", "x", "\n"]),
)


@given(KEYS)
def test_the_time_is_that_of_the_rule(key: str) -> None:
    found = RULE.search(key)
    expected = None
    if found is not None:
        digits = found.group(1).upper()
        time_ms = sum(CROCKFORD.index(digit) << 5 * (9 - place) for place, digit in enumerate(digits))
        expected = time_ms if time_ms < 1 << 48 else None
    assert created_ms_of_key(key) == expected
