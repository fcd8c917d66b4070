"""The memory of one file serves the next one."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from coordinator.app.process.allocator import KEPT_BYTES

PROGRAM = """
import resource, sys
from coordinator.app.process.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
before = 0
for round in range(12):
    if round == 2:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [b"x" * int(sys.argv[2]) for _ in range(4)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str, block_bytes: int) -> int:
    """Page faults of a process that takes and frees four blocks ten times."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, how, str(block_bytes)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such setting")
def test_blocks_that_were_freed_are_taken_again_without_page_faults() -> None:
    block_bytes = KEPT_BYTES // 16
    pages = 10 * 4 * block_bytes // 4096
    assert faults("kept", block_bytes) < pages // 20
    assert faults("as it is", block_bytes) > pages // 2, "the C library does so by itself: coordinator.app.process.allocator is not needed"
