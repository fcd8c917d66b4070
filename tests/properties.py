"""How Hypothesis runs all properties of this repository.

An example may take any time: on a machine that stands still for a moment Hypothesis' own limit of 200 ms fails sound code.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def use_any_time() -> None:
    """Settings for every property that says nothing else; to be called before the tests are imported."""
    settings.register_profile("any time", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any time")
