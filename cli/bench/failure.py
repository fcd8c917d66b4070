"""How a benchmark ends that cannot go on: nodes, Kafka or /metrics did not do what they did when it began."""

from __future__ import annotations


class MeasuringFailed(Exception):
    """The run cannot be finished; the text says who failed and how."""
