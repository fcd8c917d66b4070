"""What holds for all tests of one process."""

from __future__ import annotations

from tests.compiled import assert_fresh
from tests.properties import use_any_time

assert_fresh()
use_any_time()
