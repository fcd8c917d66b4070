"""What holds for all tests of one process."""

from __future__ import annotations

from tests.compiled import assert_fresh

assert_fresh()
