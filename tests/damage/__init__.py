"""Random damages of state databases: `python -m tests.damage`. What was damaged must never show in an answer or an entry."""
