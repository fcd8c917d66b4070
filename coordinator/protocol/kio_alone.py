"""Imports the `kio` library without Hypothesis, which kio imports wherever it is installed, to describe its types to it.

That costs every command half a second and leaves a folder `.hypothesis` where it is run. Modules that import kio are below
packages whose first line imports this one. Where Hypothesis is loaded already, in tests, kio may find it.
"""

from __future__ import annotations

import sys

if "hypothesis" not in sys.modules:
    # None makes the import fail, as if it were not installed; the one module of kio that tries is imported meanwhile.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import kio.static._phantom  # noqa: F401 - what it found is all that is wanted
    finally:
        del sys.modules["hypothesis"]
