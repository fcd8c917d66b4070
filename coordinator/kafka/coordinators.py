"""How many coordinators a service may have, and how many of them one file."""

from __future__ import annotations

COORDINATORS_MAX = 4096
"""Metadata partitions of a service. The ids of batches (`core.reads.queries.batch_id`) have room for 2^34 entries of each of so
many, half of which a restore may skip."""
OWNERS_MAX = 64
"""Coordinators with batches of one file: each keeps the list of all, and asks them all before the object goes."""
