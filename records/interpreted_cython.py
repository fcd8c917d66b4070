"""Stand-ins for the names that loops take from the module `cython`, for an installation that has neither a compiler nor Cython.

The interpreter runs the loops then. A compiled loop does not import the module: its names are instructions to the compiler.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

nogil: AbstractContextManager[None] = nullcontext()
"""Compiled, the block runs without the interpreter lock."""

compiled = False
"""Whether the code that asks was compiled."""
