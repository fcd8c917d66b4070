"""What holds for all tests of one process."""

from __future__ import annotations

import asyncio

from tests.compiled import assert_fresh
from tests.patient_loop import PatientPolicy
from tests.properties import use_any_time

assert_fresh()
use_any_time()
asyncio.set_event_loop_policy(PatientPolicy())
